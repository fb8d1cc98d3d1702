from django.urls import URLPattern

app_name = "trajectories"
urlpatterns: list[URLPattern] = []
