"""The list of training jobs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.htmx import wants_fragment
from webapp.paging import keyset
from webapp.runs import listing
from webapp.runs.copying import list_call
from webapp.runs.models import Dataset, TrainingState

PART = "training-list"


@access("read")
@require_safe
@never_cache
def jobs(request: HttpRequest) -> HttpResponse:
    """All jobs by state and dataset; the table alone where htmx asks for it."""
    state = request.GET.get("state", "")
    state = state if state in TrainingState.values else ""
    dataset = request.GET.get("dataset", "").replace("\x00", "")[:60]
    page = keyset(request, listing.rows(state, dataset))
    context = {
        "page": page,
        "lines": listing.lines(page.rows),
        "state": state,
        "states": TrainingState.values,
        "dataset": dataset,
        "of": Dataset.objects.filter(public_id=dataset).only("name", "public_id").first() if dataset else None,
        "here": request.get_full_path(),
    }
    if wants_fragment(request, PART):
        return render(request, "runs/list_part.html", context)
    return render(request, "runs/list.html", context | {"copy_as": list_call(request)})
