"""Spelling of stored revisions as records in EnvScaler's form, which an import reads back as the same revisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db.models import QuerySet

from synthesis.formats.envscaler import scenario
from synthesis.formats.envscaler_export import scenario_to_envscaler
from synthesis.formats.files import Entry
from synthesis.formats.own_parts import spell_parts
from synthesis.formats.records import TaskParts, TaskRecord
from synthesis.formats.values import clean, read_or_fail
from synthesis.runtime.encoding import decode_state
from webapp.content_store import unpack
from webapp.scenarios.models import StateBody, Task, TaskRevision
from webapp.scenarios.references import as_reference, references_of
from webapp.scenarios.services import SOURCE, task_hash

CHUNK = 50


def exported_scenarios(rows: QuerySet[Task]) -> Iterator[dict[str, Any]]:
    """The current records of some tasks, in the order they came in."""
    for _, record in spelled_tasks(rows):
        yield record


def spelled_tasks(rows: QuerySet[Task]) -> Iterator[tuple[TaskRevision, dict[str, Any]]]:
    """The current revisions of some tasks with their records, in the order they came in; a few in memory."""
    rows, last = rows.select_related(None).filter(current__isnull=False).order_by("pk"), 0
    while chunk := list(rows.filter(pk__gt=last).values_list("pk", "current_id")[:CHUNK]):
        last = chunk[-1][0]
        yield from spell_revisions([current for _, current in chunk])


def spell_revisions(revisions: Sequence[int]) -> Iterator[tuple[TaskRevision, dict[str, Any]]]:
    """Revisions by their primary keys, in this order, with their records."""
    columns = ("scenario__version", "scenario__initial", "golden", "task__environment")
    known = TaskRevision.objects.select_related(*columns).in_bulk(revisions)
    references = references_of(known)
    for pk in revisions:
        if (row := known.get(pk)) is not None:
            yield row, _spell(row, as_reference(references[pk]) if pk in references else None)


def _spell(row: TaskRevision, reference: Any) -> dict[str, Any]:
    """A record names its task by the key: the parts of a task that was split have one record, and are different
    tasks."""
    task, raw = row.task, row.record
    if clean(str(raw.get("task_id", task.key))) != task.key:
        raw = {**raw, "task_id": task.key}
    state = decode_state(_unpack(row.scenario.initial))
    raw = scenario_to_envscaler(raw, state, _unpack(row.golden) if row.golden is not None else None)
    return spell_parts(raw, _parts(row, raw, reference))


def _unpack(body: StateBody) -> Any:
    return unpack(StateBody, body.pk, body.body)


def _parts(row: TaskRevision, raw: dict[str, Any], reference: Any) -> TaskParts:
    """What reading the record alone would lose."""
    task, version = row.task, row.scenario.version
    read = read_or_fail(scenario, Entry("record", raw))
    if not isinstance(read, TaskRecord):  # an earlier version took it; the import says what is wrong
        return TaskParts()
    rule = row.score_rule if row.verifier_kind == "checks" and row.score_rule == "goals" else "proportion"
    parts = {
        "source": _unless(SOURCE, task.source),
        "environment_source": _unless(SOURCE, task.environment.source),
        "version": "" if version.pk == task.environment.current_id else version.content_hash,
        "current": row.pk == task.current_id,
        "title": _unless(read.title, task.title),
        # A state that tasks of EnvScaler share is called after the first of them.
        "scenario": "" if task.source == SOURCE else _unless(read.scenario_name, row.scenario.name),
        "score_rule": rule,
        "reference": reference,
    }
    return TaskParts(**parts, **_hashed(row, read.model_copy(update={"verifier": _ruled(read, rule)})))


def _unless(known: str, told: str) -> str:
    return "" if told == known else told


def _ruled(read: TaskRecord, rule: str) -> Any:
    return read.verifier.model_copy(update={"rule": rule}) if read.verifier.kind == "checks" else read.verifier


def _hashed(row: TaskRevision, read: TaskRecord) -> dict[str, Any]:
    """How its content hash comes about: of the record with its state or without it, else said as it is."""
    version = row.scenario.version
    if task_hash(read, version) == row.content_hash:
        return {}
    apart = read.model_copy(update={"raw": {**read.raw, "init_config": None}})
    named = {} if task_hash(apart, version) == row.content_hash else {"revision": row.content_hash}
    return {"state_apart": True, **named}
