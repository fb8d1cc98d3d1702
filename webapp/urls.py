"""Pages. Each app owns its routes; a URL says what it shows."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [
    path("", include("webapp.pages.urls")),
    path("account/", include("webapp.accounts.urls")),
    path("jobs/", include("webapp.jobs.urls")),
    path("environments/", include("webapp.environments.urls")),
    path("tasks/", include("webapp.scenarios.urls")),
    path("trajectories/", include("webapp.trajectories.urls")),
]
