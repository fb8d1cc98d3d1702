"""View of a dataset's near-duplicates: held-out rows beside the row to learn from that is nearest to each."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.datasets import queries
from webapp.datasets.evidence.near_duplicates import LISTED, NearDuplicate, NearRow, load_listed_pairs
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.queries import get_sentence
from webapp.datasets.row_page import parse_row_id
from webapp.datasets.storage import get_manifest
from webapp.scenarios.models import TaskRevision

PAGE = 50


@require_scope("read")
@require_safe
@never_cache
def list_near_duplicates(request: HttpRequest, dataset: str) -> HttpResponse:
    """List fifty pairs a page, the most similar first."""
    row = get_object_or_404(queries.select_datasets(), public_id=dataset)
    if row.state != DatasetState.READY:
        raise Http404("This dataset has no near-duplicates: it is not ready.")
    report = get_manifest(row).report
    pairs = load_listed_pairs(row)
    first = Params(request.GET).number("from", high=LISTED) or 0
    shown_pairs = pairs[first : first + PAGE]
    base = reverse("datasets:near_duplicates", args=[row.public_id])
    context = {
        "dataset": row,
        "sentence": get_sentence(row),
        "near": report.near_duplicates if report is not None else None,
        "pairs": _build_pair_lines(row, shown_pairs),
        "first": first + 1,
        "listed": len(pairs),
        "following": f"{base}?from={first + PAGE}" if first + PAGE < len(pairs) else "",
        "beginning": base if first else "",
        "copy_as": build_api_call(request, "GET", "api:list_near_duplicates", args=(row.public_id,)),
    }
    return render(request, "datasets/near_duplicates.html", context)


def _build_pair_lines(dataset: Dataset, pairs: list[NearDuplicate]) -> list[dict[str, Any]]:
    """Return pairs with the task or trajectory that each row came from, if it was chosen here."""
    is_chosen_here = dataset.source == "selection"
    revisions = [
        parse_row_id(row.id)[1]
        for pair in pairs
        for row in (pair.held_out, pair.learnt)
        if is_chosen_here and parse_row_id(row.id)[0] == "revision"
    ]
    tasks = dict(TaskRevision.objects.filter(pk__in=revisions).values_list("pk", "task_id"))
    return [
        {
            "similarity": pair.similarity,
            "sides": [
                ("held out", pair.held_out, _build_row_link(pair.held_out, tasks) if is_chosen_here else ("", "")),
                ("to learn from", pair.learnt, _build_row_link(pair.learnt, tasks) if is_chosen_here else ("", "")),
            ],
        }
        for pair in pairs
    ]


def _build_row_link(row: NearRow, tasks: dict[int, int]) -> tuple[str, str]:
    """Return the URL behind a row and its words; empty if there is none."""
    what, pk = parse_row_id(row.id)
    if what == "trajectory":
        return reverse("trajectories:detail", args=[pk]), f"trajectory {pk}"
    task = tasks.get(pk)
    return (reverse("scenarios:task", args=[task]), f"task {task}") if task else ("", "")
