from django.urls import URLPattern

app_name = "environments"
urlpatterns: list[URLPattern] = []
