"""Tasks of a part of the tree: their numbers by state, and those that a change of the tree affects."""

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


def count_by_review(tasks: QuerySet[Task]) -> list[tuple[str, str, int]]:
    """Count tasks by state of review: (value, words, number), in the order of the states."""
    count_by_state = dict(tasks.order_by().values_list("review_state").annotate(n=Count("pk")))
    return [
        (value, str(words), count_by_state[value]) for value, words in ReviewState.choices if value in count_by_state
    ]


def count_by_audit(tasks: QuerySet[Task]) -> list[tuple[str, int]]:
    count_by_state = dict(tasks.order_by().values_list("audit_state").annotate(n=Count("pk")))
    words: Sequence[tuple[str, str]] = [*AuditState.choices, ("", "not audited")]
    return [
        (f"audit {str(name).lower()}" if value else str(name), count_by_state[value])
        for value, name in words
        if value in count_by_state
    ]


def count_affected_tasks(scope: Scope) -> AffectedPart | None:
    """Count the tasks of the environments that a change affects, by review and by audit."""
    rows = Task.objects.filter(environment__in=scope.rows("environments").order_by().values("pk"))
    number = rows.order_by()[: MOST_COUNTED + 1].count()
    if not number:
        return None
    if number > MOST_COUNTED:
        return AffectedPart(
            "Tasks", MOST_COUNTED, words=f"There are more than {MOST_COUNTED:,}: by state on their list."
        )
    numbers = [(words, count) for _, words, count in count_by_review(rows)] + count_by_audit(rows)
    return AffectedPart("Tasks", number, numbers=tuple(numbers))


def _build_review_measure(state: ReviewState, label: str, help: str) -> Measure:
    """Return a measure that counts the tasks of nodes in one state of review."""

    def count_on_nodes(nodes: QuerySet[Node, Any]) -> dict[int, tuple[float, int]]:
        rows = Task.objects.filter(review_state=state, environment__node__in=nodes.values("pk"))
        counts = rows.order_by().values_list("environment__node").annotate(n=Count("pk"))
        return {node: (float(number), number) for node, number in counts}

    return Measure(state.value, label, help, count_on_nodes, listed=state == ReviewState.APPROVED)


REVIEWED = (
    _build_review_measure(ReviewState.APPROVED, "Approved", "Tasks that people approved"),
    _build_review_measure(ReviewState.IN_REVIEW, "In review", "Tasks that wait for a decision"),
    _build_review_measure(ReviewState.CHANGES_REQUESTED, "Changes requested", "Tasks that people sent back"),
    _build_review_measure(ReviewState.REJECTED, "Rejected", "Tasks that people rejected"),
)
