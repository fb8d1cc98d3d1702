from django.urls import URLPattern, path

from webapp.common.events import stream_views

app_name = "events"
urlpatterns: list[URLPattern] = [path("", stream_views.stream_changes, name="changes")]
