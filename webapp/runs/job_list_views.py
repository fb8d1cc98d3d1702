"""Views of the list of training jobs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.datasets.models import Dataset
from webapp.htmx import wants_fragment
from webapp.lists.list_context import asked_list
from webapp.lists.list_filters import list_query
from webapp.paging import keyset
from webapp.runs import job_list, queries
from webapp.runs.openai.api_examples import list_call

PART = "training-list"
ON_DATASET = 20


@access("read")
@require_safe
@never_cache
def jobs(request: HttpRequest) -> HttpResponse:
    """All jobs, or those that the filters leave; the table alone where htmx asks for it."""
    asked = list_query(job_list.TRAINING_JOBS, job_list.filters_for(request.user), request.GET)
    page = keyset(request, asked.narrow(job_list.rows()), asked.order)
    dataset = asked.values["dataset"]
    of = Dataset.objects.filter(public_id=dataset).only("name", "public_id").first() if dataset else None
    words = {"dataset": (of.name, reverse("datasets:dataset", args=[of.public_id]))} if of else {}
    context = {
        "page": page,
        "lines": job_list.lines(page.rows),
        "asked": asked,
        "list": asked_list(request, asked, page, words),
        "of": of,
        "here": request.get_full_path(),
    }
    if wants_fragment(request, PART):
        return render(request, "runs/list_part.html", context)
    return render(request, "runs/list.html", context | {"copy_as": list_call(request)})


@access("read")
@require_safe
@never_cache
def of_dataset(request: HttpRequest, dataset: str) -> HttpResponse:
    """The newest jobs on a dataset: a part of its page, and a page of its own."""
    dataset_row = get_object_or_404(Dataset.objects.only("name", "public_id"), public_id=dataset)
    context = {"dataset": dataset_row, "jobs": list(queries.jobs_on(dataset)[:ON_DATASET])}
    part = wants_fragment(request, "dataset-jobs")
    return render(request, "runs/of_dataset_part.html" if part else "runs/of_dataset.html", context)
