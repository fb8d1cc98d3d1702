from django.urls import URLPattern, path

from webapp.events import views

app_name = "events"
urlpatterns: list[URLPattern] = [path("", views.changes, name="changes")]
