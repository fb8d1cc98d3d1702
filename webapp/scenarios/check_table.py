"""Table of a revision's checks on pages: one page of them, by mark, with the checks that doing nothing passes."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.http import HttpRequest

from webapp.common.query_params import Params
from webapp.scenarios import queries
from webapp.scenarios.answers.answer_form import attach_check_origins
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.verifiers import VERIFIER_TITLES, name_verdict, read_criteria

CHECKS_A_PAGE = 100
OPEN_AT_ONCE = 12
HIGH = 0.5
MARKS = ("goal", "guard", "broken")


def build_checks_context(request: HttpRequest, row: Task, revision: TaskRevision) -> dict[str, Any]:
    """Build the context of the table's templates."""
    params, is_script = Params(request.GET), revision.verifier_kind == "script"
    mark, after = params.choice("mark", MARKS), params.number("from")
    start = -1 if after is None else after
    opened = params.flag("sources")
    few = queries.list_checks(revision, "", -1, OPEN_AT_ONCE, with_source=True)
    if len(few) <= OPEN_AT_ONCE:  # the usual case: these are all checks, so that no query need count them
        counts: dict[str, int] = Counter(check.mark for check in few)
        checks = [check for check in few if mark in ("", check.mark) and check.position > start]
    else:
        counts = queries.count_marks(revision)
        checks = queries.list_checks(revision, mark, start, CHECKS_A_PAGE, with_source=opened)
    total = sum(counts.values())
    inline = opened or total <= OPEN_AT_ONCE
    more = len(checks) > CHECKS_A_PAGE
    checks = checks[:CHECKS_A_PAGE]
    attach_check_origins(revision, checks)
    passed, out_of, words = queries.describe_do_nothing(row, counts, revision.score_rule)
    return {
        "checks": checks,
        "criteria": read_criteria(revision.criteria),
        "judged_by": VERIFIER_TITLES.get(revision.verifier_kind, revision.verifier_kind),
        "script": (revision.verifier or {}).get("source", "") if is_script else "",
        "row_word": name_verdict(revision.verifier_kind),
        "checks_whole": len(checks) == total,
        "marks": [(name, counts.get(name, 0)) for name in MARKS if counts.get(name)],
        "mark": mark,
        "total": total,
        "inline": inline,
        "boxed": total > OPEN_AT_ONCE,
        "foldable": total > OPEN_AT_ONCE and not is_script,
        "opened": opened,
        "next_check": checks[-1].position if more else None,
        "later": start >= 0,
        "passed": passed,
        "out_of": out_of,
        "words": words,
        "idle_is_high": revision.do_nothing is not None and revision.do_nothing >= HIGH,
    }
