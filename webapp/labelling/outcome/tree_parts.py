"""Labelling sessions by part of the tree: how far people disagreed there, and which sessions a change affects."""

from __future__ import annotations

from typing import Any

from django.db.models import Count, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.urls import reverse

from webapp.environments.models import Environment
from webapp.labelling.models import Label, LabelSession, PlacedKind, SessionKind, SessionState
from webapp.review.models import ReviewDecision
from webapp.taxonomy.changes.affected import NAMED, AffectedPart, Named, Scope
from webapp.taxonomy.coverage import Measure
from webapp.taxonomy.models import Node, Theme

LOOKED_AT = 200
"""Number of newest sessions that are searched for people affected by a change."""
MEASURED = 30
"""Number of newest sessions whose disagreement is shown."""


def find_affected_sessions(scope: Scope) -> AffectedPart | None:
    """Return sessions in progress whose frozen tree has an affected node."""
    rows = LabelSession.objects.filter(~Q(state=SessionState.APPLIED)).order_by("-id")[:LOOKED_AT]
    affected_rows = [row for row in rows if any(node[0] in scope.nodes for node in row.tree)]
    if not affected_rows:
        return None
    lines = tuple(Named(row.name, reverse("labelling:session", args=[row.pk])) for row in affected_rows[:NAMED])
    words = "People continue with the previous tree; the result of a session is read against the tree as it is then."
    return AffectedPart("Labelling sessions", len(affected_rows), lines, words)


def measure_label_disagreement(nodes: QuerySet[Node, Any]) -> dict[int, tuple[float, int]]:
    """Return, for the things on each node that several people placed in closed rounds, on how many they did not
    agree."""
    newest = LabelSession.objects.filter(kind=SessionKind.PLACE).order_by("-id").values("pk")[:MEASURED]
    labels = Label.objects.filter(
        item__session__in=list(newest.values_list("pk", flat=True)), item__gold__isnull=True, round__is_open=False,
        user__isnull=False, undone_at__isnull=True,
    )  # fmt: skip
    label_rows = labels.order_by("round__number").values_list("item__session__places", "item__key", "item", "round")
    counted = label_rows.annotate(people=Count("pk"), nodes=Count(Coalesce("node", Value(0)), distinct=True))
    is_disputed = {(kind, key): chosen > 1 for kind, key, _, _, people, chosen in counted if people > 1}
    totals: dict[int, tuple[float, int]] = {}
    for kind, rows in ((PlacedKind.ENVIRONMENT, Environment.objects), (PlacedKind.THEME, Theme.objects)):
        keys = [key for place, key in is_disputed if place == kind]
        for key, node in rows.filter(pk__in=keys, node__in=nodes.values("pk")).values_list("pk", "node"):
            total, number = totals.get(node, (0.0, 0))
            totals[node] = (total + is_disputed[kind, key], number + 1)
    return totals


def measure_review_disagreement(nodes: QuerySet[Node, Any]) -> dict[int, tuple[float, int]]:
    """Return, for the tasks on each node that several people decided on, on how many they did not agree."""
    decisions = ReviewDecision.objects.filter(
        task__environment__node__in=nodes.values("pk"), user__isnull=False, undone_at__isnull=True
    )
    counted = decisions.order_by().values_list("task__environment__node", "task").annotate(
        people=Count("user", distinct=True), verdicts=Count("verdict", distinct=True)
    )  # fmt: skip
    totals: dict[int, tuple[float, int]] = {}
    for node, _, people, verdicts in counted:
        if people > 1:
            total, number = totals.get(node, (0.0, 0))
            totals[node] = (total + (verdicts > 1), number + 1)
    return totals


LABELS = Measure(
    "labels_disagree", "Labels disagree", "Share of the things placed by several people on which they did not agree",
    measure_label_disagreement, ratio=True,
)  # fmt: skip
REVIEWS = Measure(
    "reviews_disagree", "Reviews disagree", "Share of the tasks decided by several people on which they did not agree",
    measure_review_disagreement, ratio=True,
)  # fmt: skip
