from __future__ import annotations

from django.urls import URLPattern, path

from webapp.workers import worker_views
from webapp.workers.serving import deployment_views

app_name = "workers"
urlpatterns: list[URLPattern] = [
    path("workers/", worker_views.list_workers, name="list"),
    path("served/of-job/<slug:job>/", deployment_views.list_job_deployments, name="deployments"),
    path("served/of-job/<slug:job>/start/", deployment_views.start_deployment, name="deployment_start"),
    path("served/<slug:deployment>/stop/", deployment_views.stop_deployment, name="deployment_stop"),
]
