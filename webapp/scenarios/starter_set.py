"""The starter set's environments and tasks in the database, through the importers' services, with references."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synthesis.formats.records import EnvironmentRecord, TaskRecord
from synthesis.runtime import Sandbox
from synthesis.starter import SOURCE
from webapp.environments.importer import import_environment
from webapp.environments.models import Version
from webapp.environments.services import program_of
from webapp.scenarios.importer import import_task
from webapp.scenarios.services import find_unchanged, keep_reference

Note = Callable[[str, str], None]
"""Told of every record: its kind, and what became of it."""


def load_starter(
    sandbox: Sandbox,
    environments: Sequence[EnvironmentRecord],
    tasks: Sequence[TaskRecord],
    note: Note = lambda kind, saved: None,
) -> None:
    """Store the bundled records. A second call changes nothing and starts no process. Raises SandboxUnavailable."""
    versions = {record.key: _environment(sandbox, record, tasks, note) for record in environments}
    for record in tasks:
        version = versions[record.environment_key]
        known = find_unchanged(record, version, SOURCE)
        if known is not None:
            keep_reference(known, record, SOURCE)
            note("tasks", "unchanged")
            continue
        note("tasks", import_task(sandbox, record, version, program_of(version), SOURCE).task)


def _environment(sandbox: Sandbox, record: EnvironmentRecord, tasks: Sequence[TaskRecord], note: Note) -> Version:
    states = [task.initial_state for task in tasks if task.environment_key == record.key]
    saved, version = import_environment(sandbox, record, SOURCE, states)
    note("environments", saved)
    return version
