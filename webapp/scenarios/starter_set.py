"""Storage of the starter set's environments and tasks through the importers' services, with references."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synthesis.formats.records import EnvironmentRecord, TaskRecord
from synthesis.runtime import Sandbox
from synthesis.starter import SOURCE
from webapp.environments.importer import import_environment
from webapp.environments.models import Version
from webapp.environments.services import build_program, compute_record_hash
from webapp.scenarios.importer import import_task
from webapp.scenarios.models import TaskReference
from webapp.scenarios.services import find_unchanged, is_stored_content, keep_reference

Note = Callable[[str, str], None]
"""Called for every record with its kind and its outcome."""


def load_starter(
    sandbox: Sandbox,
    environments: Sequence[EnvironmentRecord],
    tasks: Sequence[TaskRecord],
    note: Note = lambda kind, saved: None,
) -> None:
    """Store the bundled records. A second call changes nothing and starts no process: what people made of a record
    since then (a fix of a tool, an edit, another reference) is kept. Raises SandboxUnavailable."""
    versions = {record.key: _load_environment(sandbox, record, tasks, note) for record in environments}
    for record in tasks:
        version = versions[record.environment_key]
        unchanged_task = find_unchanged(record, version, SOURCE)
        if unchanged_task is not None or is_stored_content(record, version, SOURCE):
            if unchanged_task is not None and not TaskReference.objects.filter(revision=unchanged_task.current).exclude(
                source=SOURCE
            ):
                keep_reference(unchanged_task, record, SOURCE)
            note("tasks", "unchanged")
            continue
        note("tasks", import_task(sandbox, record, version, build_program(version), SOURCE).task)


def _load_environment(sandbox: Sandbox, record: EnvironmentRecord, tasks: Sequence[TaskRecord], note: Note) -> Version:
    starter_versions = Version.objects.select_related("environment").filter(environment__source=SOURCE)
    before = starter_versions.filter(environment__key=record.key, content_hash=compute_record_hash(record)).first()
    if before is not None and before.environment.current_id != before.pk:
        note("environments", "unchanged")
        return before
    states = [task.initial_state for task in tasks if task.environment_key == record.key]
    saved, version = import_environment(sandbox, record, SOURCE, states)
    note("environments", saved)
    return version
