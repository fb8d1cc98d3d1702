"""The starter set's environments and tasks in the database, through the importers' services, with references."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synthesis.formats.records import EnvironmentRecord, TaskRecord
from synthesis.runtime import Sandbox
from synthesis.starter import SOURCE
from webapp.environments.importer import import_environment
from webapp.environments.models import Version
from webapp.environments.services import program_of, record_hash
from webapp.scenarios.importer import import_task
from webapp.scenarios.models import TaskReference
from webapp.scenarios.services import came_in, find_unchanged, keep_reference

Note = Callable[[str, str], None]
"""Told of every record: its kind, and what became of it."""


def load_starter(
    sandbox: Sandbox,
    environments: Sequence[EnvironmentRecord],
    tasks: Sequence[TaskRecord],
    note: Note = lambda kind, saved: None,
) -> None:
    """Store the bundled records. A second call changes nothing and starts no process: what people have made of a record
    since it came in (a fix of a tool, an edit, another reference) stays. Raises SandboxUnavailable."""
    versions = {record.key: _environment(sandbox, record, tasks, note) for record in environments}
    for record in tasks:
        version = versions[record.environment_key]
        known = find_unchanged(record, version, SOURCE)
        if known is not None or came_in(record, version, SOURCE):
            if known is not None and not TaskReference.objects.filter(revision=known.current).exclude(source=SOURCE):
                keep_reference(known, record, SOURCE)
            note("tasks", "unchanged")
            continue
        note("tasks", import_task(sandbox, record, version, program_of(version), SOURCE).task)


def _environment(sandbox: Sandbox, record: EnvironmentRecord, tasks: Sequence[TaskRecord], note: Note) -> Version:
    known = Version.objects.select_related("environment").filter(environment__source=SOURCE)
    before = known.filter(environment__key=record.key, content_hash=record_hash(record)).first()
    if before is not None and before.environment.current_id != before.pk:
        note("environments", "unchanged")
        return before
    states = [task.initial_state for task in tasks if task.environment_key == record.key]
    saved, version = import_environment(sandbox, record, SOURCE, states)
    note("environments", saved)
    return version
