from __future__ import annotations

from django.urls import URLPattern, path

from webapp.workers import worker_views

app_name = "workers"
urlpatterns: list[URLPattern] = [path("workers/", worker_views.workers, name="list")]
