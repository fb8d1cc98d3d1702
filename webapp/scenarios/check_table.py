"""The table of a revision's checks, as pages show it: a page of them, by mark, with what doing nothing passes."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from webapp.query_params import Params
from webapp.scenarios import queries
from webapp.scenarios.models import Task, TaskRevision

CHECKS_A_PAGE = 100
OPEN_AT_ONCE = 12
HIGH = 0.5
MARKS = ("goal", "guard", "broken")


def checks_context(request: HttpRequest, row: Task, revision: TaskRevision) -> dict[str, Any]:
    """What the table's templates need."""
    params = Params(request.GET)
    mark, after = params.choice("mark", MARKS), params.number("from")
    start = -1 if after is None else after
    counts = queries.mark_counts(revision)
    total = sum(counts.values())
    opened = params.flag("sources")
    inline = opened or total <= OPEN_AT_ONCE
    checks = queries.checks(revision, mark, start, CHECKS_A_PAGE, with_source=inline)
    more = len(checks) > CHECKS_A_PAGE
    checks = checks[:CHECKS_A_PAGE]
    passed, out_of, words = queries.do_nothing_words(row, counts, revision.score_rule)
    return {
        "checks": checks,
        "marks": [(name, counts.get(name, 0)) for name in MARKS if counts.get(name)],
        "mark": mark,
        "total": total,
        "inline": inline,
        "foldable": total > OPEN_AT_ONCE,
        "opened": opened,
        "next_check": checks[-1].position if more else None,
        "later": start >= 0,
        "passed": passed,
        "out_of": out_of,
        "words": words,
        "idle_is_high": revision.do_nothing is not None and revision.do_nothing >= HIGH,
    }
