"""Ingest of trainers' records: metrics, events and progress. Known records are ignored, gaps refused."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from synthesis.formats.values import clean_text
from training.metrics import Event, Record, Values
from webapp.common.errors import Unusable
from webapp.runs.alerts import watch
from webapp.runs.models import (
    Checkpoint,
    MetricKey,
    MetricPoint,
    RolloutFile,
    TrainingAttempt,
    TrainingEvent,
    TrainingJob,
)
from webapp.runs.rollouts.reported_keys import require_known_keys
from webapp.runs.rollouts.reported_means import compare_means
from webapp.runs.topics import publish_job
from webapp.runs.transitions import log_event
from webapp.workers import claims
from webapp.workers.errors import RecordGap, TooManyKeys

KEY_CHARS = 300
MOST_KEYS = 50_000
"""Keys of a job. Each part of a dataset has seven numbers."""
MOST_STEPS = 2**31 - 1
LARGEST = 1e100
"""Numbers beyond it are none: PostgreSQL refuses a mean whose squares overflow, and no curve could be drawn."""
MESSAGE_CHARS = 4_000
DATA_CHARS = 16_000
MOST_TOLD = 5
"""Number of values reported again that are named in one event."""
ROWS_AT_ONCE = 5_000

Point = tuple[str, int]
"""Key and step."""


def take_records(public_id: str, number: int, records: Sequence[Record], user: Any = None) -> int:
    """Write the records of an attempt that are new; return the number that has to follow.

    Raises as `claims.held`; RecordGap; Unusable for what no trainer would record.
    """
    _require_order(records)
    with transaction.atomic():
        job, attempt = claims.require_attempt(public_id, number, user, lock=True)
        fresh = [record for record in records if record.seq >= attempt.next_seq]
        if not fresh:
            return attempt.next_seq
        if fresh[0].seq != attempt.next_seq:
            raise RecordGap(fresh[0].seq, attempt.next_seq)
        if attempt.next_seq == 1 and number > 1:
            supersede_records(job, number, attempt.from_step)
        require_known_keys(job, fresh)
        _write_records(job, attempt, fresh)
        attempt.next_seq = fresh[-1].seq + 1
        attempt.save(update_fields=["next_seq", "from_step"])
        compare_means(job, number, {record.step for record in fresh if isinstance(record, Values)})
        publish_job(job.pk)
    return attempt.next_seq


def supersede_records(job: TrainingJob, number: int, step: int) -> None:
    """Mark what attempts before `number` recorded behind `step` as superseded. Call with the job locked."""
    points = MetricPoint.objects.filter(key__job=job, attempt__lt=number, step__gt=step, superseded=False)
    lost = _count_tokens(points)
    if points.update(superseded=True):
        _correct_newest_values(job, step)
    behind = {"job": job, "attempt__lt": number, "step__gt": step, "superseded": False}
    RolloutFile.objects.filter(**behind).update(superseded=True)
    Checkpoint.objects.filter(**behind, final=False).update(superseded=True)
    TrainingJob.objects.filter(pk=job.pk).update(step=step, trained_tokens=F("trained_tokens") - lost)


def _require_order(records: Sequence[Record]) -> None:
    for before, record in pairwise(records):
        if record.seq != before.seq + 1:
            raise RecordGap(record.seq, before.seq + 1)
    for record in records:
        if record.step > MOST_STEPS or record.seq >= MOST_STEPS:
            raise Unusable(f"records: number {record.seq} names a step or number above {MOST_STEPS:,}.")


def _write_records(job: TrainingJob, attempt: TrainingAttempt, records: Sequence[Record]) -> None:
    values: dict[Point, float | None] = {}
    events: list[Event] = []
    for record in records:
        if isinstance(record, Values):
            reported = {
                (_clean_key(key), record.step): _drop_huge_number(value) for key, value in record.values.items()
            }
            _note_rewritten(
                job, record.step, {point: values[point] for point in reported.keys() & values.keys()}, reported
            )
            values.update(reported)
        elif isinstance(record, Event):
            events.append(record)
    for event in events:
        _note_resumed(job, attempt, event)
    tokens = _write_points(job, attempt, values) if values else 0
    TrainingEvent.objects.bulk_create(
        [_build_event(job, attempt, event) for event in events],
        ignore_conflicts=True,
    )
    lost = sum(_parse_count(event.data.get("lost")) for event in events if event.level == "warn")
    reached = [record.step for record in records if not isinstance(record, Event)]
    behind = TrainingJob.objects.filter(pk=job.pk)
    ended = sum(_parse_count(event.data.get("program_errors")) for event in events if event.level == "warn")
    behind.update(
        infra_errors=F("infra_errors") + lost,
        program_errors=F("program_errors") + ended,
        trained_tokens=F("trained_tokens") + tokens,
    )
    if reached:
        behind.filter(step__lt=max(reached)).update(step=max(reached))
    if values:
        behind.update(advanced_at=timezone.now())
        job.step = max(job.step, *reached)
        watch.judge_steps(job, sorted({step for _, step in values}))


def _note_rewritten(
    job: TrainingJob, step: int, before: Mapping[Point, float | None], after: Mapping[Point, float | None]
) -> None:
    """Log which numbers of a step were reported before with other values: the later ones count."""
    changed = [
        f"{key[:80]} was {_format_value(before[key, at])} and is {_format_value(after[key, at])}"
        for key, at in sorted(before)
        if before[key, at] != after[key, at]
    ]
    if changed:
        more = f" {len(changed) - MOST_TOLD} more numbers." if len(changed) > MOST_TOLD else ""
        message = f"The worker reported numbers of step {step} again: {'; '.join(changed[:MOST_TOLD])}.{more}"
        log_event(job, "warn", message, kind="rewritten")


def _compare_earlier_reports(
    job: TrainingJob, attempt: TrainingAttempt, keys: Mapping[str, int], values: Mapping[Point, float | None]
) -> None:
    """Compare the numbers that an attempt reports with those that it reported before for the same steps."""
    least = min(step for _, step in values)
    if least > job.step:
        return
    stored = MetricPoint.objects.filter(key__in=keys.values(), attempt=attempt.number, step__gte=least)
    names = {pk: name for name, pk in keys.items()}
    before: dict[int, dict[Point, float | None]] = defaultdict(dict)
    for key, step, value in stored.values_list("key", "step", "value"):
        if (names[key], step) in values:
            before[step][names[key], step] = value
    for step, known in sorted(before.items()):
        _note_rewritten(job, step, known, values)


def _format_value(value: float | None) -> str:
    return "no number" if value is None else f"{value:g}"


def _note_resumed(job: TrainingJob, attempt: TrainingAttempt, event: Event) -> None:
    """Store the step that the trainer itself says it resumed from: never later than the assigned one, possibly
    earlier."""
    step = event.data.get("resumed")
    if type(step) is int and 0 <= step < attempt.from_step:
        attempt.from_step = step
        supersede_records(job, attempt.number, step)


def _clean_key(name: str) -> str:
    if not 0 < len(name) <= KEY_CHARS:
        raise Unusable(f"records: a key has 1 to {KEY_CHARS} characters, this one {len(name)}: {name[:60]!r}.")
    return clean_text(name)


def _drop_huge_number(value: float | None) -> float | None:
    return value if value is not None and abs(value) <= LARGEST else None


def _parse_count(value: Any) -> int:
    return value if type(value) is int and 0 < value < 1_000_000 else 0


def _build_event(job: TrainingJob, attempt: TrainingAttempt, event: Event) -> TrainingEvent:
    data = event.data
    if len(json.dumps(data)) > DATA_CHARS:
        data = {"left_out": f"More than {DATA_CHARS} characters of data."}
    return TrainingEvent(
        job=job,
        attempt=attempt.number,
        seq=event.seq,
        step=event.step,
        level=event.level,
        message=clean_text(event.message)[:MESSAGE_CHARS],
        data=data,
        at=_parse_time(event.time, attempt.started_at),
    )


def _parse_time(seconds: float, started: datetime) -> datetime:
    """Return when a record was written by the worker's clock; now if that clock cannot be right."""
    now = timezone.now()
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return now
    return moment if started - timedelta(hours=1) <= moment <= now + timedelta(minutes=5) else now


def _write_points(job: TrainingJob, attempt: TrainingAttempt, values: dict[Point, float | None]) -> int:
    """Write points and the newest values of their keys; return the tokens that were trained according to them."""
    keys = _get_key_ids(job, {key for key, _ in values})
    _compare_earlier_reports(job, attempt, keys, values)
    _supersede_points(attempt, keys, values)
    rows = [
        MetricPoint(key_id=keys[key], attempt=attempt.number, step=step, value=value)
        for (key, step), value in values.items()
    ]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        MetricPoint.objects.bulk_create(
            rows[start : start + ROWS_AT_ONCE],
            update_conflicts=True,
            unique_fields=["key", "step", "attempt"],
            update_fields=["value"],
        )
    newest: dict[str, int] = {}
    for key, step in values:
        newest[key] = max(step, newest.get(key, 0))
    _write_newest([(keys[key], step, values[key, step]) for key, step in newest.items()])
    return count_trained_tokens((step, key, value) for (key, step), value in values.items())


def _get_key_ids(job: TrainingJob, names: set[str]) -> dict[str, int]:
    known = dict(MetricKey.objects.filter(job=job, name__in=names).values_list("name", "pk"))
    missing = sorted(names - known.keys())
    if missing:
        if MetricKey.objects.filter(job=job).count() + len(missing) > MOST_KEYS:
            raise TooManyKeys(f"records: more than {MOST_KEYS:,} keys in one job.")
        MetricKey.objects.bulk_create(MetricKey(job=job, name=name) for name in missing)
        known |= dict(MetricKey.objects.filter(job=job, name__in=missing).values_list("name", "pk"))
    return known


def _supersede_points(attempt: TrainingAttempt, keys: dict[str, int], values: Iterable[Point]) -> None:
    """Supersede earlier attempts' points of the same keys and steps (evaluations are made again on resuming)."""
    again: dict[int, list[int]] = defaultdict(list)
    for key, step in values:
        if attempt.number > 1 and step <= attempt.from_step:
            again[step].append(keys[key])
    for step, of in again.items():
        MetricPoint.objects.filter(key__in=of, step=step, attempt__lt=attempt.number).update(superseded=True)


def _write_newest(newest: list[tuple[int, int, float | None]]) -> None:
    """Store the last step and value of each key, unless a later one is there."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {MetricKey._meta.db_table} AS k SET last_step = n.step, last_value = n.value "
            "FROM unnest(%s::bigint[], %s::integer[], %s::double precision[]) AS n(id, step, value) "
            "WHERE k.id = n.id AND k.last_step <= n.step",
            [list(column) for column in zip(*newest, strict=True)],
        )


def _correct_newest_values(job: TrainingJob, step: int) -> None:
    """Let keys whose newest point was superseded show the one before it."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {MetricKey._meta.db_table} AS k SET last_step = coalesce(n.step, 0), last_value = n.value "
            f"FROM {MetricKey._meta.db_table} AS own LEFT JOIN LATERAL ("
            f"SELECT p.step, p.value FROM {MetricPoint._meta.db_table} AS p "
            "WHERE p.key_id = own.id AND NOT p.superseded ORDER BY p.step DESC, p.attempt DESC LIMIT 1"
            ") AS n ON true WHERE own.id = k.id AND k.job_id = %s AND k.last_step > %s",
            [job.pk, step],
        )


def count_trained_tokens(values: Iterable[tuple[int, str, float | None]]) -> int:
    """Return the number of trained tokens, from pace and time of steps: (step, key, value)."""
    steps: dict[int, dict[str, float]] = defaultdict(dict)
    for step, key, value in values:
        if value is not None and key in ("tokens_per_s", "rollout_s", "step_s"):
            steps[step][key] = value
    tokens = 0.0
    for rates in steps.values():
        # RL's pace is that of its attempts.
        tokens += rates.get("tokens_per_s", 0.0) * rates.get("rollout_s", rates.get("step_s", 0.0))
    return round(min(max(tokens, 0.0), 1e15))


def _count_tokens(points: Any) -> int:
    named = points.filter(key__name__in=["tokens_per_s", "rollout_s", "step_s"])
    return count_trained_tokens(named.values_list("step", "key__name", "value"))
