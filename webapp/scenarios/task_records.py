"""Stored revisions as records in EnvScaler's form, which an import reads back as the same revisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import QuerySet

from synthesis.formats.envscaler import read_scenario
from synthesis.formats.envscaler_export import scenario_to_envscaler
from synthesis.formats.files import Entry
from synthesis.formats.own_parts import add_parts
from synthesis.formats.records import TaskParts, TaskRecord
from synthesis.formats.values import clean_text, read_or_fail
from synthesis.runtime.encoding import decode_state
from webapp.common.content_store import unpack_value
from webapp.scenarios.models import StateBody, Task, TaskRevision
from webapp.scenarios.references import map_references, to_reference
from webapp.scenarios.services import SOURCE, compute_task_hash

CHUNK = 50


def iterate_exported_scenarios(rows: QuerySet[Task]) -> Iterator[dict[str, Any]]:
    """Yield the current records of some tasks, in the order of their creation."""
    for _, record in iterate_task_records(rows):
        yield record


def iterate_task_records(rows: QuerySet[Task]) -> Iterator[tuple[TaskRevision, dict[str, Any]]]:
    """Yield the current revisions of some tasks with their records, in the order of their creation; a few in memory."""
    rows, last = rows.select_related(None).filter(current__isnull=False).order_by("pk"), 0
    while chunk := list(rows.filter(pk__gt=last).values_list("pk", "current_id")[:CHUNK]):
        last = chunk[-1][0]
        yield from iterate_revision_records([current for _, current in chunk])


def iterate_revision_records(revisions: Sequence[int]) -> Iterator[tuple[TaskRevision, dict[str, Any]]]:
    """Yield revisions by their primary keys, in this order, with their records."""
    columns = ("scenario__version", "scenario__initial", "golden", "task__environment")
    row_by_pk = TaskRevision.objects.select_related(*columns).in_bulk(revisions)
    references = map_references(row_by_pk)
    for pk in revisions:
        if (row := row_by_pk.get(pk)) is not None:
            yield row, _build_record(row, to_reference(references[pk]) if pk in references else None)


def _build_record(row: TaskRevision, reference: Any) -> dict[str, Any]:
    """Return the record of a revision, which names its task by the key.

    The parts of a task that was split have one record, and are different tasks.
    """
    task, raw = row.task, row.record
    if clean_text(str(raw.get("task_id", task.key))) != task.key:
        raw = {**raw, "task_id": task.key}
    state = decode_state(_unpack_state(row.scenario.initial))
    raw = scenario_to_envscaler(raw, state, _unpack_state(row.golden) if row.golden is not None else None)
    return add_parts(raw, _build_parts(row, raw, reference))


def _unpack_state(body: StateBody) -> Any:
    return unpack_value(StateBody, body.pk, body.body)


def _build_parts(row: TaskRevision, raw: dict[str, Any], reference: Any) -> TaskParts:
    """Return the parts of a revision that reading the record alone would lose."""
    task, version = row.task, row.scenario.version
    read = read_or_fail(read_scenario, Entry("record", raw))
    if not isinstance(read, TaskRecord):  # an earlier version accepted it; the import reports the fault
        return TaskParts()
    rule = row.score_rule if row.verifier_kind == "checks" and row.score_rule == "goals" else "proportion"
    parts = {
        "source": _omit_default(SOURCE, task.source),
        "environment_source": _omit_default(SOURCE, task.environment.source),
        "version": "" if version.pk == task.environment.current_id else version.content_hash,
        "current": row.pk == task.current_id,
        "title": _omit_default(read.title, task.title),
        # A state that tasks of EnvScaler share is named after the first of them.
        "scenario": "" if task.source == SOURCE else _omit_default(read.scenario_name, row.scenario.name),
        "score_rule": rule,
        "reference": reference,
        "variant": row.variant,
        "consistency": row.consistency,
    }
    return TaskParts(
        **parts, **_build_hash_parts(row, read.model_copy(update={"verifier": _set_score_rule(read, rule)}))
    )


def _omit_default(known: str, told: str) -> str:
    return "" if told == known else told


def _set_score_rule(read: TaskRecord, rule: str) -> Any:
    return read.verifier.model_copy(update={"rule": rule}) if read.verifier.kind == "checks" else read.verifier


def _build_hash_parts(row: TaskRevision, read: TaskRecord) -> dict[str, Any]:
    """Return how the content hash is made: of the record with its state or without it, else the hash itself."""
    version = row.scenario.version
    if compute_task_hash(read, version) == row.content_hash:
        return {}
    apart = read.model_copy(update={"raw": {**read.raw, "init_config": None}})
    revision_part = {} if compute_task_hash(apart, version) == row.content_hash else {"revision": row.content_hash}
    return {"state_apart": True, **revision_part}
