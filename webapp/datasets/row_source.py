"""Source of a dataset's rows: read from the database a few at a time, with reasons for those left out."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, F, Func, IntegerField, OuterRef, QuerySet
from pydantic import ValidationError

from synthesis.errors import FormatError, InputError
from synthesis.formats.sft import Conversation
from training.config import SettingName
from training.dataset import Names, Row, RowOrigin, TaskRow, UploadLimits, trajectory_rows
from webapp.datasets.selection import DatasetSelection, tasks_of, trajectories_of
from webapp.scenarios.models import Check, Task, TaskRevision
from webapp.trajectories.export.filters import CHUNK, FilterCounts
from webapp.trajectories.export.record_source import COLUMNS
from webapp.trajectories.models import Trajectory
from webapp.trajectories.rollouts.plans import task_of
from webapp.trajectories.rollouts.services import NO_CONTENT, unjudged

TASKS = 50
"""So many tasks are read at once; their programs and states one after another."""
LINE_BYTES = UploadLimits().line_bytes
REASONS = 50
WORDS = {
    "infra_error": "Not finished, or something of ours failed",
    "program_error": "Ended by the environment's program",
    "user_error": "The simulated user spoilt it",
    "invalid_format": "A turn of the agent was not well formed",
    "cut_turn": "A turn of the agent was broken off",
    "impossible_task": "A judge called the task impossible when the attempt was made",
    "not_solved": "Earned less than the least reward",
    "action_range": "Fewer or more actions than wanted",
}
IDENTITY = 200
UNPRINTABLE = re.compile("[\x00-\x1f\ud800-\udfff]")
NAMED_BY = ("source", "key", "environment__source", "environment__key")
"""Columns of a task that its rows are named by."""


@dataclass(frozen=True)
class RevisionSource:
    """Where rows of a revision come from, and why it makes no task to be attempted (`obstacle`; empty: it does)."""

    origin: RowOrigin
    obstacle: str


@dataclass
class LeftOut:
    """Rows left out by reason; reasons with many spellings stand alone only the first few times."""

    reasons: Counter[str] = field(default_factory=Counter)

    def note(self, reason: str, number: int = 1) -> None:
        known = reason in self.reasons or len(self.reasons) < REASONS
        self.reasons[reason if known else "Another reason"] += number

    def told(self) -> dict[str, int]:
        return dict(self.reasons.most_common())


def places(revisions: Iterable[int], setting: SettingName = "task") -> dict[int, RevisionSource]:
    """Places by revision, in one query. Names are the environment's own, so that they mean the same at another site."""
    columns = ("criteria", "judged", "task__environment__category", "scenario__initial_id")
    rows = (
        TaskRevision.objects.filter(pk__in=list(revisions))
        .annotate(judged=Exists(Check.objects.filter(revision=OuterRef("pk"))))
        .values_list("pk", *columns, *(f"task__{name}" for name in NAMED_BY))
    )
    by_pk = {}
    for pk, criteria, judged, category, *told in rows:
        environment, scenario, task = names_of(*told)
        origin = RowOrigin(
            id=f"revision:{pk}",
            environment=environment,
            scenario=scenario,
            task=task,
            category=named(category),
            setting=setting,
        )
        by_pk[pk] = RevisionSource(origin, unjudged(bool(criteria), judged))
    return by_pk


def first_tasks(tasks: QuerySet[Task], most: int) -> Iterator[tuple[int, str, Names]]:
    """Tasks in the order of their numbers: why each makes no row (empty: it does), and its names; one query for all."""
    criteria = Func(F("current__criteria"), function="json_array_length", output_field=IntegerField())
    columns = ("pk", "current_id", "criteria", "check_count", "current__scenario__initial_id", *NAMED_BY)
    rows = tasks.order_by("pk").annotate(criteria=criteria).values_list(*columns)[:most]
    for pk, revision, by_rubric, checks, *told in rows.iterator(chunk_size=most):
        if revision is None:
            yield pk, NO_CONTENT, ("", "", "")
        else:
            yield pk, unjudged(bool(by_rubric), bool(checks)), names_of(*told)


def names_of(initial: str, source: str, key: str, owner: str, environment: str) -> Names:
    return named(f"{owner}:{environment}"), initial[:16], named(f"{source}:{key}")


def named(text: str) -> str:
    """A name as a row may hold it: one too long or not printable keeps its hash, so that names stay apart."""
    plain = UNPRINTABLE.sub(" ", text)
    if plain == text and len(text) <= IDENTITY:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{plain[: IDENTITY - 17]}-{digest}"


def rows_of(
    choice: DatasetSelection, left_out: LeftOut, seen: Callable[[int], None] = lambda number: None
) -> Iterator[Row]:
    """Every row of a choice, in the order of their numbers. `seen` is told how many were looked at; it may raise."""
    rows = _task_rows(choice, left_out, seen) if choice.kind == "tasks" else _trajectory_rows(choice, left_out, seen)
    for row in rows:
        if len(json.dumps(row.trl(), ensure_ascii=False).encode()) >= LINE_BYTES:
            left_out.note(f"Longer than {LINE_BYTES >> 20} MiB")
            continue
        yield row


def chunks(rows: QuerySet[Any], size: int) -> Iterator[list[Any]]:
    last = 0
    while part := list(rows.filter(pk__gt=last).order_by("pk")[:size]):
        yield part
        last = part[-1].pk


def _task_rows(choice: DatasetSelection, left_out: LeftOut, seen: Callable[[int], None]) -> Iterator[Row]:
    done = 0
    for tasks in chunks(tasks_of(choice).only("current_id"), TASKS):
        known = places([task.current_id for task in tasks if task.current_id], choice.setting or "task")
        yield from _attemptable(tasks, known, left_out)
        done += len(tasks)
        seen(done)


def _attemptable(tasks: list[Task], known: dict[int, RevisionSource], left_out: LeftOut) -> Iterator[Row]:
    fit = {pk for pk, place in known.items() if not place.obstacle}
    whole = TaskRevision.objects.select_related("scenario__version").prefetch_related("scenario__version__tools")
    revisions = whole.defer("record", "scenario__version__record").in_bulk(fit)
    for task in tasks:
        place = known.get(task.current_id or 0)
        if place is None or place.obstacle:
            left_out.note(place.obstacle if place else NO_CONTENT)
            continue
        try:
            yield _task_row(revisions[task.current_id or 0], place.origin)
        except (InputError, ValidationError) as error:
            left_out.note(f"Cannot be read: {_why(error)}")


def _task_row(revision: TaskRevision, origin: RowOrigin) -> TaskRow:
    """The task exactly as rollouts here attempt it, under the row's name."""
    rollout = task_of(revision).model_copy(update={"key": origin.id})
    return TaskRow(**origin.model_dump(), rollout=rollout)


def _trajectory_rows(choice: DatasetSelection, left_out: LeftOut, seen: Callable[[int], None]) -> Iterator[Row]:
    sieve, done = FilterCounts(choice.sifting), 0
    for rows in chunks(trajectories_of(choice).only(*COLUMNS), CHUNK):
        yield from sifted(rows, choice, sieve)
        done += len(rows)
        seen(done)
    note_sieve(sieve, left_out)


def sifted(rows: list[Trajectory], choice: DatasetSelection, sieve: FilterCounts) -> Iterator[Row]:
    """The rows that a chunk of trajectories gives."""
    known = places({row.revision_id for row in rows})

    def write(row: Trajectory, conversation: Conversation) -> list[Row]:
        setting = "conversation" if row.conversational else "task"
        named = {"id": f"trajectory:{row.pk}", "setting": setting}
        origin = known[row.revision_id].origin.model_copy(update=named)
        try:
            written = list[Row](trajectory_rows(conversation, choice.shape, origin))
        except ValidationError as error:
            raise FormatError("conversation", _why(error)) from error
        if not written:
            raise FormatError("conversation", "the agent said nothing in it")
        return written

    for _, written in sieve.passed(rows, write):
        yield from written


def note_sieve(sieve: FilterCounts, left_out: LeftOut) -> None:
    """Count what the filters left out, and why conversations were not written."""
    for count in sieve.tally.counts():
        if count.dropped and count.name in WORDS:
            left_out.note(WORDS[count.name], count.dropped)
    for reason, number in sieve.reasons.most_common():
        left_out.note(f"Its conversation: {reason}", number)


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return error.errors(include_url=False, include_input=False)[0]["msg"].removeprefix("Value error, ")[:200]
    return str(error)[:200]
