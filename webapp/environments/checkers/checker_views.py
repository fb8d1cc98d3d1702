"""Pages of measures of checkers: the list, newest first, and one measure with every verdict."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.common.paging import paginate_by_keyset
from webapp.environments.models import CheckerMeasure

A_PAGE = 50
KIND_WORDS = {
    "comparison": "another comparison",
    "off_by_one": "off by one",
    "constant": "another constant",
    "condition": "and, or exchanged",
    "arithmetic": "wrong arithmetic",
    "missing_guard": "a guard is missing",
    "wrong_field": "wrong field",
    "lost_write": "a write is lost",
    "missing_row": "a row is missing",
    "wrong_sort": "sorted the other way",
}


@require_scope("read")
@require_safe
def list_measures(request: HttpRequest) -> HttpResponse:
    rows = CheckerMeasure.objects.defer("faults", "by_kind", "prompts")
    return render(request, "environments/checkers.html", {"page": paginate_by_keyset(request, rows, "-id", A_PAGE)})


@require_scope("read")
@require_safe
def show_measure(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(CheckerMeasure, pk=pk)
    kinds = [(KIND_WORDS.get(kind, kind), count) for kind, count in row.by_kind.items()]
    faults: list[dict[str, Any]] = [
        fault | {"kind": KIND_WORDS.get(fault["kind"], fault["kind"])} for fault in row.faults
    ]
    missed = [fault for fault in faults if fault["verdict"] != "fail"]
    alarms = [fault for fault in faults if fault["sound_verdict"] == "fail"]
    context = {"measure": row, "kinds": kinds, "missed": missed, "alarms": alarms}
    return render(request, "environments/checker.html", context)
