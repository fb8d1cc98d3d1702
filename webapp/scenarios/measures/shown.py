"""Measures of a task in words: its pipeline variant, its difficulty, and the results of solvers and policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import Consistency
from synthesis.variant_settings import VARIANT_TITLES
from webapp.scenarios.measures.difficulty import KNOBS
from webapp.scenarios.models import PASS_AT, PolicyPass, Task, TaskDifficulty, TaskRevision
from webapp.scenarios.references import read_consistency

KNOB_TITLES = {
    "walk_steps": "Walk length",
    "weak_share": "Weak steps",
    "independent_share": "Independent steps",
    "unique_tools": "Unique tools",
    "invocations": "Invocations",
    "branches": "Branches",
    "aggregations": "Aggregations",
}
KNOB_MEANINGS = {
    "walk_steps": "Calls of the walk on the graph of tools that the task was made from.",
    "weak_share": "Share of the walk's steps that go along a weak edge.",
    "independent_share": "Share of the walk's steps between tools that hand nothing on.",
    "unique_tools": "Different tools that the reference calls.",
    "invocations": "Calls of the reference.",
    "branches": "Conditions in the solution script.",
    "aggregations": "Sums, counts, extremes, orders and running totals in the solution script.",
}
SHARES = frozenset({"weak_share", "independent_share"})
MOST_POLICIES = 5


@dataclass(frozen=True)
class PassFact:
    """Plain attempts of a policy at a task: `solved` of `tried`, limited to the first ten if there are as many."""

    policy: str
    solved: int
    tried: int

    @property
    def is_whole(self) -> bool:
        """True if it is a Pass@10."""
        return self.tried == PASS_AT

    @property
    def rate(self) -> float:
        return self.solved / self.tried

    @property
    def missing(self) -> int:
        return PASS_AT - self.tried


def list_passes(rows: Iterable[PolicyPass]) -> list[PassFact]:
    """Return the policies with ten attempts first, then by name."""
    facts = [
        PassFact(row.policy, row.solved, row.tried) if row.ten is None else PassFact(row.policy, row.ten, PASS_AT)
        for row in rows
    ]
    return sorted(facts, key=lambda fact: (not fact.is_whole, fact.policy))


def attach_passes(tasks: Iterable[Task]) -> None:
    """Set on the tasks of a list the passes of their current revisions, in one query."""
    rows = list(tasks)
    passes_by_revision: dict[int, list[PolicyPass]] = {}
    for row in PolicyPass.objects.filter(revision__in=[task.current_id for task in rows if task.current_id]):
        passes_by_revision.setdefault(row.revision_id, []).append(row)
    for task in rows:
        task.passes = list_passes(passes_by_revision.get(task.current_id or 0, []))  # type: ignore[attr-defined]


def list_knobs(row: TaskDifficulty | None) -> list[tuple[str, str, Any]]:
    """Return (label, meaning, value) of each knob that a task has; a share as a number from 0 to 1."""
    values = [(name, getattr(row, name, None)) for name in KNOBS]
    return [(KNOB_TITLES[name], KNOB_MEANINGS[name], value) for name, value in values if value is not None]


def describe_knob(wanted: Mapping[str, Any]) -> str:
    """Describe a list's filter by a knob."""
    low, high = wanted.get("knob_from"), wanted.get("knob_to")
    ends = [f"from {low:g}"] if low is not None else []
    ends += [f"below {high:g}"] if high is not None else []
    return ", ".join(ends) or "any"


def describe_turns(found: Consistency) -> str:
    """Return the turns of a task's solver runs, such as "4 to 9 of at most 36"; empty if they were not counted."""
    if not found.turns:
        return ""
    low, high = min(found.turns), max(found.turns)
    return f"{low if low == high else f'{low} to {high}'} of at most {found.turn_limit} turns"


def build_measures_context(revision: TaskRevision) -> dict[str, Any]:
    """Build the context of a revision's measures for a task's page."""
    consistency = read_consistency(revision)
    passes = list_passes(revision.passes.all())
    return {
        "made_by": VARIANT_TITLES.get(revision.variant, revision.variant),
        "consistency": consistency,
        "solver_turns": describe_turns(consistency) if consistency is not None else "",
        "knobs": list_knobs(TaskDifficulty.objects.filter(revision=revision).first()),
        "shares": [KNOB_TITLES[name] for name in SHARES],
        "passes": passes[:MOST_POLICIES],
        "more_passes": len(passes) - MOST_POLICIES if len(passes) > MOST_POLICIES else 0,
    }
