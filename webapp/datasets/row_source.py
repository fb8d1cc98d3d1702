"""Source of a dataset's rows: read from the database a few at a time, with reasons for those left out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Exists, F, Func, IntegerField, OuterRef, QuerySet
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from synthesis.contracts import Reference
from synthesis.errors import FormatError, InputError
from synthesis.formats.sft import Conversation
from training.config import SettingName
from training.dataset import (
    Names,
    Row,
    RowOrigin,
    TaskRow,
    UploadLimits,
    behaviour_of,
    names_of_row,
    trajectory_rows,
)
from webapp.datasets.choice.resolved import ResolvedSelection
from webapp.datasets.row_names import NAMED_BY, named, names_of
from webapp.datasets.selection import DatasetSelection
from webapp.scenarios.models import Check, Task, TaskRevision
from webapp.scenarios.references import as_reference, references_of
from webapp.trajectories.export.filters import CHUNK, NO_ENVIRONMENT, SOLVER_RUN, FilterCounts
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
    "user_fault": "A judge found that the simulated user erred",
    "invalid_format": "A turn of the agent was not well formed",
    "cut_turn": "A turn of the agent was broken off",
    "impossible_task": "A judge called the task impossible when the attempt was made",
    "not_solved": "Earned less than the least reward",
    "action_range": "Fewer or more actions than wanted",
}


@dataclass(frozen=True)
class RevisionSource:
    """Where rows of a revision come from, and why it makes no task to be attempted (`obstacle`; empty: it does).

    `reference` is what is known to solve it, `approval` its review state."""

    origin: RowOrigin
    obstacle: str
    reference: Reference | None
    approval: str


@dataclass(frozen=True)
class SourcedRows:
    """The rows that one task or one trajectory gives, with what it takes to execute it again.

    `ident` is `revision:PK` or `trajectory:PK`, `pk` that number; a trajectory gives one row, or one a turn."""

    ident: str
    pk: int
    rows: tuple[Row, ...]
    reference: Reference | None
    approval: str


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
    """Places by revision, in two queries. Names are the environment's own, so that they mean the same at another
    site."""
    revisions = list(revisions)
    references = references_of(revisions)
    columns = (
        "instruction",
        "review_state",
        "criteria",
        "judged",
        "superseded",
        "task__environment__category",
        "scenario__initial_id",
    )
    rows = (
        TaskRevision.objects.filter(pk__in=revisions)
        .annotate(judged=Exists(Check.objects.filter(revision=OuterRef("pk"))))
        .values_list("pk", *columns, *(f"task__{name}" for name in NAMED_BY))
    )
    by_pk = {}
    for pk, instruction, approval, criteria, judged, superseded, category, *told in rows:
        environment, scenario, task, _ = names_of(*told)
        reference = as_reference(references[pk]) if pk in references else None
        origin = RowOrigin(
            id=f"revision:{pk}",
            environment=environment,
            scenario=scenario,
            task=task,
            category=named(category),
            behaviour=_behaviour(instruction, reference),
            setting=setting,
        )
        by_pk[pk] = RevisionSource(origin, unjudged(bool(criteria) or judged, superseded), reference, approval)
    return by_pk


def _behaviour(instruction: str, reference: Reference | None) -> str:
    if reference is None:
        return ""
    return behaviour_of(instruction, [(call.tool, call.arguments) for call in reference.calls])


def first_tasks(tasks: QuerySet[Task], most: int, *, behaviours: bool = False) -> Iterator[tuple[int, str, Names]]:
    """Tasks in the order of their numbers: why each makes no row (empty: it does), and its names; one query for all,
    another one where their behaviours are wanted too."""
    criteria = Func(F("current__criteria"), function="json_array_length", output_field=IntegerField())
    asked = ("current__instruction",) if behaviours else ()
    columns = (
        "pk", "current_id", "criteria", "check_count", "current__superseded", "current__scenario__initial_id",
        *NAMED_BY, *asked,
    )  # fmt: skip
    rows = list(tasks.order_by("pk").annotate(criteria=criteria).values_list(*columns)[:most])
    references = references_of(row[1] for row in rows if row[1]) if behaviours else {}
    for pk, revision, by_rubric, checks, superseded, *told in rows:
        if revision is None:
            yield pk, NO_CONTENT, Names()
            continue
        names = names_of(*told[: len(NAMED_BY) + 1])
        if revision in references:
            names = names._replace(behaviour=_behaviour(told[-1], as_reference(references[revision])))
        yield pk, unjudged(bool(by_rubric or checks), superseded), names


def rows_of(
    found: ResolvedSelection, left_out: LeftOut, seen: Callable[[int], None] = lambda number: None
) -> Iterator[SourcedRows]:
    """Every row of a selection, in the order of their numbers. `seen` is told how many were looked at; it may raise."""
    of_kind = _task_rows if found.choice.kind == "tasks" else _trajectory_rows
    for sourced in of_kind(found, left_out, seen):
        fit = tuple(row for row in sourced.rows if _is_fit(row, found, left_out))
        if fit:
            yield sourced if len(fit) == len(sourced.rows) else _fewer(sourced, fit)


def _fewer(sourced: SourcedRows, fit: tuple[Row, ...]) -> SourcedRows:
    return SourcedRows(sourced.ident, sourced.pk, fit, sourced.reference, sourced.approval)


def _is_fit(row: Row, found: ResolvedSelection, left_out: LeftOut) -> bool:
    why = found.rules.why_not(names_of_row(row)) or _why_unwritable(row)
    if why:
        left_out.note(why)
    return not why


def _why_unwritable(row: Row) -> str:
    try:
        written = json.dumps(row.trl(), ensure_ascii=False).encode()
    except (UnicodeEncodeError, PydanticSerializationError, RecursionError):
        return "Holds half a surrogate pair, or is nested too deeply to be written"
    return f"Longer than {LINE_BYTES >> 20} MiB" if len(written) >= LINE_BYTES else ""


def chunks(rows: QuerySet[Any], size: int) -> Iterator[list[Any]]:
    last = 0
    while part := list(rows.filter(pk__gt=last).order_by("pk")[:size]):
        yield part
        last = part[-1].pk


def _task_rows(found: ResolvedSelection, left_out: LeftOut, seen: Callable[[int], None]) -> Iterator[SourcedRows]:
    done = 0
    for tasks in chunks(found.tasks().only("current_id"), TASKS):
        known = places([task.current_id for task in tasks if task.current_id], found.choice.setting or "task")
        yield from _attemptable(tasks, known, left_out)
        done += len(tasks)
        seen(done)


def _attemptable(tasks: list[Task], known: dict[int, RevisionSource], left_out: LeftOut) -> Iterator[SourcedRows]:
    fit = {pk for pk, place in known.items() if not place.obstacle}
    whole = TaskRevision.objects.select_related("scenario__version").prefetch_related("scenario__version__tools")
    revisions = whole.defer("record", "scenario__version__record").in_bulk(fit)
    for task in tasks:
        pk = task.current_id or 0
        place = known.get(pk)
        if place is None or place.obstacle:
            left_out.note(place.obstacle if place else NO_CONTENT)
            continue
        try:
            row = _task_row(revisions[pk], place.origin)
        except (InputError, ValidationError) as error:
            left_out.note(f"Cannot be read: {_why(error)}")
            continue
        yield SourcedRows(row.id, pk, (row,), place.reference, place.approval)


def _task_row(revision: TaskRevision, origin: RowOrigin) -> TaskRow:
    """The task exactly as rollouts here attempt it, under the row's name."""
    rollout = task_of(revision).model_copy(update={"key": origin.id})
    return TaskRow(**origin.model_dump(), rollout=rollout)


def _trajectory_rows(found: ResolvedSelection, left_out: LeftOut, seen: Callable[[int], None]) -> Iterator[SourcedRows]:
    sieve, done = FilterCounts(found.choice.sifting), 0
    for rows in chunks(found.trajectories().only(*COLUMNS), CHUNK):
        yield from sifted(rows, found.choice, sieve)
        done += len(rows)
        seen(done)
    note_sieve(sieve, left_out)


def sifted(rows: list[Trajectory], choice: DatasetSelection, sieve: FilterCounts) -> Iterator[SourcedRows]:
    """The rows that a chunk of trajectories gives."""
    known = places({row.revision_id for row in rows if row.revision_id is not None})

    def write(row: Trajectory, conversation: Conversation) -> tuple[Row, ...]:
        setting = "conversation" if row.conversational else "task"
        named = {"id": f"trajectory:{row.pk}", "setting": setting}
        origin = known[row.revision_id or 0].origin.model_copy(update=named)
        try:
            written = tuple[Row, ...](trajectory_rows(conversation, choice.shape, origin))
        except ValidationError as error:
            raise FormatError("conversation", _why(error)) from error
        if not written:
            raise FormatError("conversation", "the agent said nothing in it")
        return written

    for row, written in sieve.passed(rows, write):
        place = known[row.revision_id or 0]
        yield SourcedRows(f"trajectory:{row.pk}", row.pk, written, place.reference, place.approval)


def note_sieve(sieve: FilterCounts, left_out: LeftOut) -> None:
    """Count what the filters left out, and why conversations were not written."""
    for count in sieve.tally.counts():
        if count.dropped and count.name in WORDS:
            left_out.note(WORDS[count.name], count.dropped)
    if sieve.foreign:
        left_out.note(NO_ENVIRONMENT, sieve.foreign)
    if sieve.solvers:
        left_out.note(SOLVER_RUN, sieve.solvers)
    for reason, number in sieve.reasons.most_common():
        left_out.note(f"Its conversation: {reason}", number)


def _why(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return error.errors(include_url=False, include_input=False)[0]["msg"].removeprefix("Value error, ")[:200]
    return str(error)[:200]
