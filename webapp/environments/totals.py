"""An environment's counts and, through its place in the tree, those of the taxonomy.

What an environment adds to its node is exactly what its row holds, so that it can move to another node as a whole.
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
    """The node of an environment and the numbers that it adds there."""

    node: int | None
    numbers: dict[str, int]


def lock_environment(pk: int) -> None:
    """Lock the environment's row. Every writer of its counts does this first, so that no two deadlock."""
    Environment.objects.select_for_update(of=("self",)).only("pk").get(pk=pk)


@transaction.atomic
def add_counts(environment_id: int, **changes: int) -> None:
    """Add to an environment's counts and to the tree's, for example `tasks=1`, or `scored=1, solved=-1`.

    Names are those of `COLUMNS`. Call it last in the transaction that writes what is counted.
    """
    changes = {name: change for name, change in changes.items() if change}
    if not changes:
        return
    row = Environment.objects.filter(pk=environment_id)
    row.update(**{COLUMNS[name]: F(COLUMNS[name]) + change for name, change in changes.items()})
    taxonomy.add_counts({row.values_list("node", flat=True).get(): changes})


def get_current_counts(environment: Environment) -> EnvironmentCounts:
    """Return the counts of a row that this transaction has locked."""
    numbers = {name: getattr(environment, column) for name, column in COLUMNS.items()}
    return EnvironmentCounts(environment.node_id, {"environments": 1, **numbers})


def update_tree_counts(before: EnvironmentCounts, environment: Environment) -> None:
    """Update the tree by the difference between an environment's row now and its counts `before`, on both nodes if it
    moved."""
    after = get_current_counts(environment)
    if before.node == after.node:
        names = after.numbers
        taxonomy.add_counts({after.node: {name: after.numbers[name] - before.numbers[name] for name in names}})
        return
    taxonomy.add_counts(
        {before.node: {name: -number for name, number in before.numbers.items()}, after.node: after.numbers}
    )
