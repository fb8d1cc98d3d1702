"""Records of runs and of their prerequisites, a few in memory at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from synthesis.formats.envscaler_export import run_to_envscaler, runs_to_jsonl
from synthesis.formats.own_parts import add_parts
from synthesis.formats.records import RunRecord, RunStep
from webapp.scenarios.exporter import RecordBatches
from webapp.trajectories.models import StepKind, Trajectory
from webapp.trajectories.services import build_exported_record
from webapp.trajectories.transfer.run_parts import REFUSED, find_run_parts

CHUNK = 50


class WrittenRecords:
    """Records in the order of a file: the prerequisites of a run come before it."""

    def __init__(self) -> None:
        self.batches = RecordBatches()
        self.revisions: set[int] = set()

    def spell(self, rows: QuerySet[Trajectory]) -> Iterator[dict[str, Any]]:
        columns = ("task__environment", "revision__scenario__version", "revision__task__environment")
        for row in rows.select_related(*columns).defer("matrix"):
            yield from self._foundation(row)
            yield build_run_record(row)

    def _foundation(self, row: Trajectory) -> Iterator[dict[str, Any]]:
        if row.revision is None or row.task is None:
            return
        revision_ids = dict.fromkeys(pk for pk in (row.revision.pk, row.task.current_id) if pk)
        missing = [pk for pk in revision_ids if pk not in self.revisions]
        self.revisions.update(missing)
        yield from self.batches.serialize_revisions(missing) if missing else ()


def build_run_record(row: Trajectory) -> dict[str, Any]:
    """Return the run as it was recorded, with the parts that the record has no field for. A run that was lost before
    its record was written is made from its steps; one without an environment stays as it was imported."""
    if row.revision is None:
        record: dict[str, Any] = row.record
        return record
    record = build_exported_record(row) or _build_record_from_steps(row)
    return add_parts(record, find_run_parts(row, row.revision, record))


def _build_record_from_steps(row: Trajectory) -> dict[str, Any]:
    kinds = {StepKind.USER: "user", StepKind.MESSAGE: "message"}
    steps = tuple(
        RunStep.model_validate(
            {
                "kind": kinds.get(StepKind(step.kind), "call"),
                "turn": step.turn,
                "content": step.content,
                "reasoning": step.reasoning,
                "tool": step.tool,
                "arguments": step.arguments or {},
                "recorded": step.recorded or None,
                "executed": step.kind != StepKind.ANSWER,
                "injected": step.injected,
                "by": step.by,
            }
        )
        for step in row.steps.exclude(error_kind__in=REFUSED).order_by("index")
    )
    task = row.attempted_task
    run = RunRecord(
        environment_key=task.environment.key,
        task_key=task.key,
        policy=row.policy,
        conversational=row.conversational,
        steps=steps,
        recorded_reward=row.reward,
        truncated=row.outcome == "truncated",
    )
    return run_to_envscaler(run)


def iterate_exported_lines(rows: QuerySet[Trajectory], order: Literal["id", "-id"] = "-id") -> Iterator[str]:
    """Yield the lines of a file, newest runs first or in the order of import. Runs that are being made are left out."""
    written, rows, last = WrittenRecords(), rows.filter(live=False), None
    while pks := _fetch_next_keys(rows, order, last):
        last = pks[-1]
        yield from runs_to_jsonl(written.spell(Trajectory.objects.filter(pk__in=pks).order_by(order)))


def _fetch_next_keys(rows: QuerySet[Trajectory], order: str, last: int | None) -> list[int]:
    after = {} if last is None else {"pk__lt" if order == "-id" else "pk__gt": last}
    return list(rows.filter(**after).order_by(order).values_list("pk", flat=True)[:CHUNK])


async def _stream_lines(rows: QuerySet[Trajectory]) -> AsyncIterator[str]:
    lines = iterate_exported_lines(rows)

    def get_next_line() -> str | None:
        return next(lines, None)

    while (line := await sync_to_async(get_next_line)()) is not None:
        yield line


def build_attachment(rows: QuerySet[Trajectory], name: str = "trajectories.jsonl") -> StreamingHttpResponse:
    response = StreamingHttpResponse(_stream_lines(rows), content_type="application/jsonl")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
