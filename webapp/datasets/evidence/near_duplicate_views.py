"""View of a dataset's near-duplicates: held-out rows beside the row to learn from that is nearest to each."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from webapp.accounts.access import access
from webapp.datasets import queries
from webapp.datasets.evidence.near_duplicates import LISTED, NearDuplicate, NearRow, listed_pairs
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.row_page import leads_to
from webapp.datasets.storage import manifest_of, sentence_of
from webapp.query_params import Params
from webapp.rest.api_examples import api_call
from webapp.scenarios.models import TaskRevision

PAGE = 50


@access("read")
@require_safe
@never_cache
def near_duplicates(request: HttpRequest, dataset: str) -> HttpResponse:
    """Fifty pairs a page, the most similar first."""
    row = get_object_or_404(queries.known(), public_id=dataset)
    if row.state != DatasetState.READY:
        raise Http404("This dataset has no near-duplicates: it is not ready.")
    report = manifest_of(row).report
    pairs = listed_pairs(row)
    first = Params(request.GET).number("from", high=LISTED) or 0
    shown = pairs[first : first + PAGE]
    base = reverse("datasets:near_duplicates", args=[row.public_id])
    context = {
        "dataset": row,
        "sentence": sentence_of(row),
        "near": report.near_duplicates if report is not None else None,
        "pairs": _lines(row, shown),
        "first": first + 1,
        "listed": len(pairs),
        "following": f"{base}?from={first + PAGE}" if first + PAGE < len(pairs) else "",
        "beginning": base if first else "",
        "copy_as": api_call(request, "GET", "api:list_near_duplicates", args=(row.public_id,)),
    }
    return render(request, "datasets/near_duplicates.html", context)


def _lines(dataset: Dataset, pairs: list[NearDuplicate]) -> list[dict[str, Any]]:
    """Pairs with the task or trajectory that each row leads to where it was chosen here."""
    here = dataset.source == "selection"
    revisions = [
        leads_to(row.id)[1]
        for pair in pairs
        for row in (pair.held_out, pair.learnt)
        if here and leads_to(row.id)[0] == "revision"
    ]
    tasks = dict(TaskRevision.objects.filter(pk__in=revisions).values_list("pk", "task_id"))
    return [
        {
            "similarity": pair.similarity,
            "sides": [
                ("held out", pair.held_out, _link(pair.held_out, tasks) if here else ("", "")),
                ("to learn from", pair.learnt, _link(pair.learnt, tasks) if here else ("", "")),
            ],
        }
        for pair in pairs
    ]


def _link(row: NearRow, tasks: dict[int, int]) -> tuple[str, str]:
    """The address behind a row and its words; empty where it leads nowhere."""
    what, pk = leads_to(row.id)
    if what == "trajectory":
        return reverse("trajectories:detail", args=[pk]), f"trajectory {pk}"
    task = tasks.get(pk)
    return (reverse("scenarios:task", args=[task]), f"task {task}") if task else ("", "")
