"""Tasks by the kind of their verifier, and how many of the judged attempts at them solved."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Sum

from webapp.pages.statistics.attempt_scope import AttemptScope
from webapp.scenarios.verifiers import VERIFIER_TITLES


@dataclass(frozen=True)
class VerifierCount:
    """Tasks that one kind of verifier judges, with their list and their judged attempts."""

    kind: str
    label: str
    tasks: int
    attempts: int
    solved: int
    url: str

    @property
    def rate(self) -> float | None:
        return self.solved / self.attempts if self.attempts else None

    @property
    def width(self) -> str:
        """The width of its bar in per cent, as SVG reads it."""
        return f"{100 * (self.rate or 0):.1f}"


def count_verifiers(scope: AttemptScope) -> list[VerifierCount]:
    """Return the kinds in their order; none if there is no task."""
    sums = scope.tasks().values_list("verifier_kind").annotate(Count("pk"), Sum("scored_count"), Sum("solved_count"))
    counts_by_kind = {kind: counts for kind, *counts in sums}
    if not counts_by_kind:
        return []
    rows = []
    for kind, label in VERIFIER_TITLES.items():
        tasks, attempts, solved = counts_by_kind.get(kind, (0, 0, 0))
        rows.append(VerifierCount(kind, label, tasks, attempts, solved, scope.build_tasks_url(verifier=kind)))
    return rows
