"""What hangs on a part of the tree by its tasks: how many are how, and what a change of the tree touches of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Count, QuerySet

from webapp.scenarios.models import AuditState, ReviewState, Task
from webapp.taxonomy.changes.affected import AffectedPart, Scope
from webapp.taxonomy.coverage import Measure
from webapp.taxonomy.models import Node

MOST_COUNTED = 200_000
"""Tasks are counted by their state up to so many; a count of more would keep the page waiting."""


def by_review(tasks: QuerySet[Task]) -> list[tuple[str, str, int]]:
    """How many tasks are in each state of review: (value, words, number), in the order of the states."""
    found = dict(tasks.order_by().values_list("review_state").annotate(n=Count("pk")))
    return [(value, str(words), found[value]) for value, words in ReviewState.choices if value in found]


def by_audit(tasks: QuerySet[Task]) -> list[tuple[str, int]]:
    found = dict(tasks.order_by().values_list("audit_state").annotate(n=Count("pk")))
    words: Sequence[tuple[str, str]] = [*AuditState.choices, ("", "not audited")]
    return [
        (f"audit {str(name).lower()}" if value else str(name), found[value]) for value, name in words if value in found
    ]


def tasks(scope: Scope) -> AffectedPart | None:
    """Tasks of the environments that a change touches, by review and by audit."""
    rows = Task.objects.filter(environment__in=scope.rows("environments").order_by().values("pk"))
    number = rows.order_by()[: MOST_COUNTED + 1].count()
    if not number:
        return None
    if number > MOST_COUNTED:
        return AffectedPart(
            "Tasks", MOST_COUNTED, words=f"There are more than {MOST_COUNTED:,}: by state on their list."
        )
    numbers = [(words, count) for _, words, count in by_review(rows)] + by_audit(rows)
    return AffectedPart("Tasks", number, numbers=tuple(numbers))


def _reviewed(state: ReviewState, label: str, help: str) -> Measure:
    """How many tasks of one state of review hang on nodes."""

    def own(nodes: QuerySet[Node, Any]) -> dict[int, tuple[float, int]]:
        rows = Task.objects.filter(review_state=state, environment__node__in=nodes.values("pk"))
        found = rows.order_by().values_list("environment__node").annotate(n=Count("pk"))
        return {node: (float(number), number) for node, number in found}

    return Measure(state.value, label, help, own, listed=state == ReviewState.APPROVED)


REVIEWED = (
    _reviewed(ReviewState.APPROVED, "Approved", "Tasks that people approved"),
    _reviewed(ReviewState.IN_REVIEW, "In review", "Tasks that wait for a decision"),
    _reviewed(ReviewState.CHANGES_REQUESTED, "Changes requested", "Tasks that people sent back"),
    _reviewed(ReviewState.REJECTED, "Rejected", "Tasks that people rejected"),
)
