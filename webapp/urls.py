"""URLs of pages. Each app owns its routes; a URL names what it shows."""

from __future__ import annotations

from django.urls import include, path

from webapp.api import api
from webapp.pages import api_reference

urlpatterns = [
    path("", include("webapp.pages.urls")),
    path("account/", include("webapp.accounts.urls")),
    path("api/", api_reference.show_reference, name="api-reference"),
    path("api/v1/", api.urls),
    path("events/", include("webapp.common.events.urls")),
    path("lists/", include("webapp.common.lists.urls")),
    path("jobs/", include("webapp.jobs.urls")),
    path("endpoints/", include("webapp.endpoints.urls")),
    path("webhooks/", include("webapp.webhooks.urls")),
    path("taxonomy/sessions/", include("webapp.labelling.urls")),
    path("taxonomy/sessions/", include("webapp.labelling.results.urls")),
    path("taxonomy/", include("webapp.taxonomy.urls")),
    path("environments/", include("webapp.environments.urls")),
    path("tasks/", include("webapp.scenarios.urls")),
    path("trajectories/", include("webapp.trajectories.urls")),
    path("review/", include("webapp.review.urls")),
    path("edits/", include("webapp.edits.urls")),
    path("batches/", include("webapp.batches.urls")),
    path("training/", include("webapp.datasets.urls")),
    path("training/", include("webapp.workers.urls")),
    path("training/", include("webapp.runs.urls")),
]
