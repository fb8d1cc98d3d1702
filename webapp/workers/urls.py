from __future__ import annotations

from django.urls import URLPattern, path

from webapp.workers import worker_views
from webapp.workers.serving import deployment_views

app_name = "workers"
urlpatterns: list[URLPattern] = [
    path("workers/", worker_views.workers, name="list"),
    path("served/of-job/<slug:job>/", deployment_views.of_job, name="deployments"),
    path("served/of-job/<slug:job>/start/", deployment_views.start, name="deployment_start"),
    path("served/<slug:deployment>/stop/", deployment_views.stop, name="deployment_stop"),
]
