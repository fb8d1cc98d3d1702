"""Trajectories without an environment: read from ATIF files, stored for reading and search, never executed."""

from __future__ import annotations

import io
import json
from typing import Any

from django.db import IntegrityError, transaction

from synthesis.formats.atif_reader import MOST_BYTES, read_atif_records, read_atif_run
from synthesis.formats.files import Entry, UnreadableFile
from synthesis.formats.records import ForeignRun, ForeignStep
from synthesis.formats.values import clean_text
from synthesis.parser import ReadLimits, read_in_process
from webapp.common.content_store import content_hash
from webapp.scenarios.importer import Progress, run_guarded
from webapp.trajectories.models import ReplayState, Step, Trajectory
from webapp.trajectories.text_search.text_rows import write_text

SOURCE = "atif"
LIMITS = ReadLimits(
    memory_mib=2_048, cpu_s=300, wall_s=3_600, output_bytes=1 << 30, item_bytes=MOST_BYTES + (1 << 20), small_bytes=0
)
"""The file is read while its trajectories are written, so the wall time is the writing's too."""
MOST_FAILED = 1_000
"""Number of failures that are listed; the others are counted in the last one."""
SEARCHED = 4_000
"""Characters of what the user asked that a search looks in."""


def import_foreign_runs(
    content: bytes,
    name: str,
    limit: int,
    progress: Progress = lambda done, total, note: None,
    source: str = SOURCE,
    others: list[Entry] | None = None,
) -> dict[str, Any]:
    """Store the trajectories of a file's bytes. `progress` is called before each and may raise to stop. `others` gets
    the records in this site's own export format; without it they are failures.

    The file is read in a process of its own; entries that are no trajectory are listed as failures, and the rest is
    stored. Raises UnreadableFile, TooCostly, InfrastructureError.
    """
    tally: dict[str, Any] = {"created": 0, "unchanged": 0, "failed": []}
    arguments = {"name": name, "limit": limit}
    read = 0
    for item in read_in_process(
        f"{read_atif_records.__module__}:{read_atif_records.__name__}", io.BytesIO(content), arguments, LIMITS
    ):
        progress(read, read + 1, f"Trajectory {item['place']}")
        read += 1
        if "other" in item and others is not None:
            others.append(Entry(item["place"], item["other"]))
            continue
        if "other" in item:
            _add_failure(tally, f"{item['place']}.schema_version", "missing: this is no ATIF trajectory")
            continue
        if "reason" in item:
            _add_failure(tally, item["at"], item["reason"])
            continue

        def save_record(item: dict[str, Any] = item) -> None:
            tally[
                "created" if _save_if_new(read_atif_run(Entry(item["place"], item["record"])), source) else "unchanged"
            ] += 1

        failure = run_guarded(item["place"], save_record)
        if failure:
            _add_failure(tally, failure.place, failure.reason)
    if not read:
        raise UnreadableFile(f"{name}: no trajectory: the list in it is empty. Nothing was imported.")
    progress(read, read, "")
    return tally


def _add_failure(tally: dict[str, Any], place: str, reason: str) -> None:
    failed = tally["failed"]
    if len(failed) < MOST_FAILED:
        failed.append({"place": clean_text(place), "reason": clean_text(reason)})
        return
    tally["more_failed"] = tally.get("more_failed", 0) + 1


def _save_if_new(record: ForeignRun, source: str) -> bool:
    """Store a record and return whether it is new; one that is stored already is left alone."""
    digest = content_hash([source, json.dumps(record.raw, sort_keys=True)])
    if Trajectory.objects.filter(content_hash=digest).exists():
        return False
    try:
        _create_rows(record, source, digest)
    except IntegrityError:  # a concurrent import may have stored the same record
        if Trajectory.objects.filter(content_hash=digest).exists():
            return False
        raise
    return True


@transaction.atomic
def _create_rows(record: ForeignRun, source: str, digest: str) -> None:
    user_text = "\n".join(step.content for step in record.steps if step.kind == "user")
    names = (record.title, record.policy, str(record.about.get("agent", "")), str(record.about.get("session_id", "")))
    row = Trajectory.objects.create(
        title=record.title,
        words="\n".join((*names, user_text[:SEARCHED])),
        source=source,
        content_hash=digest,
        policy=record.policy,
        conversational=record.conversational,
        replay=ReplayState.NO_ENVIRONMENT,
        answer=record.answer,
        step_count=len(record.steps),
        call_count=sum(step.kind == "call" for step in record.steps),
        provenance=record.about,
        record=record.raw,
    )
    steps = (_build_step(row, index, step) for index, step in enumerate(record.steps))
    write_text(row, Step.objects.bulk_create(steps, batch_size=200))


def _build_step(row: Trajectory, index: int, step: ForeignStep) -> Step:
    """Return a step, not saved yet. The result of a call is the recorded one: nothing was executed here."""
    return Step(
        trajectory=row,
        index=index,
        turn=step.turn,
        kind=step.kind,
        content=step.content,
        reasoning=step.reasoning,
        tool=step.tool,
        arguments=step.arguments if step.kind == "call" else None,
        recorded=step.recorded or "",
        details=step.details,
    )
