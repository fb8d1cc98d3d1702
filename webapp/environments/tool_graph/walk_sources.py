"""Chains of tools that tasks were made from, for the graph of tools; the app of tasks registers its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from webapp.environments.models import Version

MOST_WALKS = 200


@dataclass(frozen=True)
class TaskWalk:
    """The walk that a task was written from: its calls in order, and the pairs of tools that values or walks pass
    along. `page` is the address of that task's own part."""

    task: int
    title: str
    chain: tuple[str, ...]
    pairs: frozenset[tuple[str, str]]
    page: str


ListTasks = Callable[[Version], Sequence[tuple[int, str]]]
FindWalk = Callable[[Version, int], TaskWalk | None]
_SOURCES: list[tuple[ListTasks, FindWalk]] = []


def register_walks(list_tasks: ListTasks, find_walk: FindWalk) -> None:
    """Register a source of tasks that were written from walks: one function lists a version's newest ones as (key,
    title), the other finds the walk of one."""
    _SOURCES.append((list_tasks, find_walk))


def list_walked_tasks(version: Version) -> list[tuple[int, str]]:
    """Return the newest tasks of a version that were written from walks, by key and title."""
    return [task for list_tasks, _ in _SOURCES for task in list_tasks(version)][:MOST_WALKS]


def find_walk(version: Version, task: int) -> TaskWalk | None:
    """Return the walk of a task of `list_walked_tasks`; None if no source has it."""
    return next((walk for _, find in _SOURCES if (walk := find(version, task)) is not None), None)
