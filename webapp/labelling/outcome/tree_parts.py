"""What labelling sessions have to do with a part of the tree: how far people disagreed there, what a change touches."""

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
"""So many of the newest sessions are looked at for whom a change concerns."""
MEASURED = 30
"""How far people disagree is told of so many of the newest sessions."""


def sessions(scope: Scope) -> AffectedPart | None:
    """Sessions that are under way, whose frozen tree has a node that is touched."""
    rows = LabelSession.objects.filter(~Q(state=SessionState.APPLIED)).order_by("-id")[:LOOKED_AT]
    found = [row for row in rows if any(node[0] in scope.nodes for node in row.tree)]
    if not found:
        return None
    lines = tuple(Named(row.name, reverse("labelling:session", args=[row.pk])) for row in found[:NAMED])
    words = "People go on with the tree as it was; the result of a session is read against the tree as it is then."
    return AffectedPart("Labelling sessions", len(found), lines, words)


def label_disagreement(nodes: QuerySet[Node, Any]) -> dict[int, tuple[float, int]]:
    """Of the things on each node that several people placed in closed rounds: on how many they did not agree."""
    newest = LabelSession.objects.filter(kind=SessionKind.PLACE).order_by("-id").values("pk")[:MEASURED]
    labels = Label.objects.filter(
        item__session__in=list(newest.values_list("pk", flat=True)), item__gold__isnull=True, round__is_open=False,
        user__isnull=False, undone_at__isnull=True,
    )  # fmt: skip
    said = labels.order_by("round__number").values_list("item__session__places", "item__key", "item", "round")
    counted = said.annotate(people=Count("pk"), nodes=Count(Coalesce("node", Value(0)), distinct=True))
    parted = {(kind, key): chosen > 1 for kind, key, _, _, people, chosen in counted if people > 1}
    found: dict[int, tuple[float, int]] = {}
    for kind, rows in ((PlacedKind.ENVIRONMENT, Environment.objects), (PlacedKind.THEME, Theme.objects)):
        keys = [key for place, key in parted if place == kind]
        for key, node in rows.filter(pk__in=keys, node__in=nodes.values("pk")).values_list("pk", "node"):
            total, number = found.get(node, (0.0, 0))
            found[node] = (total + parted[kind, key], number + 1)
    return found


def review_disagreement(nodes: QuerySet[Node, Any]) -> dict[int, tuple[float, int]]:
    """Of the tasks on each node that several people decided on: on how many they did not agree."""
    decisions = ReviewDecision.objects.filter(
        task__environment__node__in=nodes.values("pk"), user__isnull=False, undone_at__isnull=True
    )
    counted = decisions.order_by().values_list("task__environment__node", "task").annotate(
        people=Count("user", distinct=True), verdicts=Count("verdict", distinct=True)
    )  # fmt: skip
    found: dict[int, tuple[float, int]] = {}
    for node, _, people, verdicts in counted:
        if people > 1:
            total, number = found.get(node, (0.0, 0))
            found[node] = (total + (verdicts > 1), number + 1)
    return found


LABELS = Measure(
    "labels_disagree", "Labels disagree", "Of what several people placed: where they did not agree",
    label_disagreement, ratio=True,
)  # fmt: skip
REVIEWS = Measure(
    "reviews_disagree", "Reviews disagree", "Of tasks that several people decided: where they did not agree",
    review_disagreement, ratio=True,
)  # fmt: skip
