"""Views of the list of training jobs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.htmx import render_fragment, wants_fragment
from webapp.common.lists.list_context import build_filtered_list
from webapp.common.lists.list_filters import parse_list_query
from webapp.common.paging import paginate_by_keyset
from webapp.datasets.models import Dataset
from webapp.runs import job_list, queries
from webapp.runs.openai.api_examples import build_list_call

PART = "training-list"
ON_DATASET = 20


@require_scope("read")
@require_safe
@never_cache
def list_jobs(request: HttpRequest) -> HttpResponse:
    """Show all jobs, or those that match the filters; only the table if htmx asks for it."""
    asked = parse_list_query(job_list.TRAINING_JOBS, job_list.build_job_filters(request.user), request.GET)
    page = paginate_by_keyset(request, asked.narrow(job_list.listed_jobs()), asked.order)
    dataset = asked.values["dataset"]
    of = Dataset.objects.filter(public_id=dataset).only("name", "public_id").first() if dataset else None
    words = {"dataset": (of.name, reverse("datasets:dataset", args=[of.public_id]))} if of else {}
    context = {
        "page": page,
        "lines": job_list.build_job_lines(page.rows),
        "asked": asked,
        "list": build_filtered_list(request, asked, page, words),
        "of": of,
        "here": request.get_full_path(),
    }
    if wants_fragment(request, PART):
        return render_fragment(request, "runs/list.html", context)
    return render(request, "runs/list.html", context | {"copy_as": build_list_call(request)})


@require_scope("read")
@require_safe
@never_cache
def list_dataset_jobs(request: HttpRequest, dataset: str) -> HttpResponse:
    """Show the newest jobs on a dataset: a part of its page, and a page of its own."""
    dataset_row = get_object_or_404(Dataset.objects.only("name", "public_id"), public_id=dataset)
    context = {"dataset": dataset_row, "jobs": list(queries.list_dataset_jobs(dataset)[:ON_DATASET])}
    if wants_fragment(request, "dataset-jobs"):
        return render_fragment(request, "runs/of_dataset.html", context)
    return render(request, "runs/of_dataset.html", context)
