"""An environment's counts and, through its place in the tree, those of the taxonomy.

What an environment adds to its node is exactly what stands in its row, so that it can move to another node whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.db.models import F

from webapp.environments.models import Environment
from webapp.taxonomy import services as taxonomy
from webapp.taxonomy.changes.hung import HungKind

COLUMNS = {
    "tools": "tool_count",
    "tasks": "task_count",
    "green": "green_count",
    "red": "red_count",
    "trajectories": "trajectory_count",
    "scored": "scored_count",
    "solved": "solved_count",
}
"""Which column of an environment holds what the tree counts under that name."""
HUNG = HungKind("environments", "environment", Environment, COLUMNS)


@dataclass(frozen=True)
class EnvironmentCounts:
    """Where an environment hangs and what it adds there."""

    node: int | None
    numbers: dict[str, int]


def lock_environment(pk: int) -> None:
    """What every writer of an environment's counts does first, so that no two wait for each other."""
    Environment.objects.select_for_update(of=("self",)).only("pk").get(pk=pk)


@transaction.atomic
def count(environment_id: int, **changes: int) -> None:
    """Add to an environment's counts and to the tree's: `count(7, tasks=1)`, `count(7, scored=1, solved=-1)`.

    Names are those of `COLUMNS`. Call it last in the transaction that writes what is counted.
    """
    changes = {name: change for name, change in changes.items() if change}
    if not changes:
        return
    row = Environment.objects.filter(pk=environment_id)
    row.update(**{COLUMNS[name]: F(COLUMNS[name]) + change for name, change in changes.items()})
    taxonomy.count({row.values_list("node", flat=True).get(): changes})


def standing(environment: Environment) -> EnvironmentCounts:
    """Of a row that this transaction has locked."""
    numbers = {name: getattr(environment, column) for name, column in COLUMNS.items()}
    return EnvironmentCounts(environment.node_id, {"environments": 1, **numbers})


def settle(before: EnvironmentCounts, environment: Environment) -> None:
    """Tell the tree what an environment's row says now, and where, against what it said `before`."""
    after = standing(environment)
    if before.node == after.node:
        names = after.numbers
        taxonomy.count({after.node: {name: after.numbers[name] - before.numbers[name] for name in names}})
        return
    taxonomy.count({before.node: {name: -number for name, number in before.numbers.items()}, after.node: after.numbers})
