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
    build_trajectory_rows,
    get_row_names,
    hash_behaviour,
)
from webapp.datasets.choice.resolved import ResolvedSelection
from webapp.datasets.row_names import NAMED_BY, build_row_names, to_row_name
from webapp.datasets.selection import DatasetSelection
from webapp.scenarios.models import Check, Task, TaskRevision
from webapp.scenarios.references import map_references, to_reference
from webapp.trajectories.export.filters import CHUNK, NO_ENVIRONMENT, SOLVER_RUN, FilterCounts
from webapp.trajectories.export.record_source import COLUMNS
from webapp.trajectories.models import Trajectory
from webapp.trajectories.rollouts.plans import build_rollout_task
from webapp.trajectories.rollouts.services import NO_CONTENT, find_judging_obstacle

TASKS = 50
"""Number of tasks that are read at once; their programs and states one after another."""
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
    """The origin of the rows of a revision, and why it makes no task to be attempted (`obstacle`; empty if it does).

    `reference` is the known solution, `approval` its review state.
    """

    origin: RowOrigin
    obstacle: str
    reference: Reference | None
    approval: str


@dataclass(frozen=True)
class SourcedRows:
    """The rows that one task or one trajectory gives, with what it takes to execute it again.

    `ident` is `revision:PK` or `trajectory:PK`, `pk` that number; a trajectory gives one row, or one for each turn.
    """

    ident: str
    pk: int
    rows: tuple[Row, ...]
    reference: Reference | None
    approval: str


@dataclass
class LeftOut:
    """Rows left out by reason; only the first `REASONS` different reasons are counted separately."""

    reasons: Counter[str] = field(default_factory=Counter)

    def note(self, reason: str, number: int = 1) -> None:
        known = reason in self.reasons or len(self.reasons) < REASONS
        self.reasons[reason if known else "Another reason"] += number

    def count_by_reason(self) -> dict[str, int]:
        return dict(self.reasons.most_common())


def load_revision_sources(revisions: Iterable[int], setting: SettingName = "task") -> dict[int, RevisionSource]:
    """Return sources by revision, in two queries. Names are the environment's own, so that they mean the same at
    another site."""
    revisions = list(revisions)
    references = map_references(revisions)
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
    for pk, instruction, approval, criteria, has_checks, superseded, category, *name_columns in rows:
        environment, scenario, task, _ = build_row_names(*name_columns)
        reference = to_reference(references[pk]) if pk in references else None
        origin = RowOrigin(
            id=f"revision:{pk}",
            environment=environment,
            scenario=scenario,
            task=task,
            category=to_row_name(category),
            behaviour=_name_behaviour(instruction, reference),
            setting=setting,
        )
        by_pk[pk] = RevisionSource(
            origin, find_judging_obstacle(bool(criteria) or has_checks, superseded), reference, approval
        )
    return by_pk


def _name_behaviour(instruction: str, reference: Reference | None) -> str:
    if reference is None:
        return ""
    return hash_behaviour(instruction, [(call.tool, call.arguments) for call in reference.calls])


def iter_first_tasks(tasks: QuerySet[Task], most: int, *, behaviours: bool = False) -> Iterator[tuple[int, str, Names]]:
    """Yield tasks in the order of their numbers: why each makes no row (empty if it does), and its names; one query
    for all, another one if their behaviours are needed too."""
    criteria = Func(F("current__criteria"), function="json_array_length", output_field=IntegerField())
    behaviour_columns = ("current__instruction",) if behaviours else ()
    columns = (
        "pk", "current_id", "criteria", "check_count", "current__superseded", "current__scenario__initial_id",
        *NAMED_BY, *behaviour_columns,
    )  # fmt: skip
    rows = list(tasks.order_by("pk").annotate(criteria=criteria).values_list(*columns)[:most])
    references = map_references(row[1] for row in rows if row[1]) if behaviours else {}
    for pk, revision, by_rubric, checks, superseded, *name_columns in rows:
        if revision is None:
            yield pk, NO_CONTENT, Names()
            continue
        names = build_row_names(*name_columns[: len(NAMED_BY) + 1])
        if revision in references:
            names = names._replace(behaviour=_name_behaviour(name_columns[-1], to_reference(references[revision])))
        yield pk, find_judging_obstacle(bool(by_rubric or checks), superseded), names


def iter_selection_rows(
    found: ResolvedSelection, left_out: LeftOut, seen: Callable[[int], None] = lambda number: None
) -> Iterator[SourcedRows]:
    """Yield every row of a selection, in the order of their numbers. `seen` is called with how many were read; it
    may raise."""
    of_kind = _iter_task_rows if found.choice.kind == "tasks" else _iter_trajectory_rows
    for sourced in of_kind(found, left_out, seen):
        fit = tuple(row for row in sourced.rows if _is_fit(row, found, left_out))
        if fit:
            yield sourced if len(fit) == len(sourced.rows) else _replace_rows(sourced, fit)


def _replace_rows(sourced: SourcedRows, fit: tuple[Row, ...]) -> SourcedRows:
    return SourcedRows(sourced.ident, sourced.pk, fit, sourced.reference, sourced.approval)


def _is_fit(row: Row, found: ResolvedSelection, left_out: LeftOut) -> bool:
    why = found.rules.why_not(get_row_names(row)) or _find_write_problem(row)
    if why:
        left_out.note(why)
    return not why


def _find_write_problem(row: Row) -> str:
    try:
        written = json.dumps(row.trl(), ensure_ascii=False).encode()
    except (UnicodeEncodeError, PydanticSerializationError, RecursionError):
        return "Holds half a surrogate pair, or is nested too deeply to be written"
    return f"Longer than {LINE_BYTES >> 20} MiB" if len(written) >= LINE_BYTES else ""


def iter_chunks(rows: QuerySet[Any], size: int) -> Iterator[list[Any]]:
    last = 0
    while part := list(rows.filter(pk__gt=last).order_by("pk")[:size]):
        yield part
        last = part[-1].pk


def _iter_task_rows(found: ResolvedSelection, left_out: LeftOut, seen: Callable[[int], None]) -> Iterator[SourcedRows]:
    done = 0
    for tasks in iter_chunks(found.tasks().only("current_id"), TASKS):
        known = load_revision_sources(
            [task.current_id for task in tasks if task.current_id], found.choice.setting or "task"
        )
        yield from _iter_attemptable(tasks, known, left_out)
        done += len(tasks)
        seen(done)


def _iter_attemptable(tasks: list[Task], known: dict[int, RevisionSource], left_out: LeftOut) -> Iterator[SourcedRows]:
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
            row = _build_task_row(revisions[pk], place.origin)
        except (InputError, ValidationError) as error:
            left_out.note(f"Cannot be read: {_format_error(error)}")
            continue
        yield SourcedRows(row.id, pk, (row,), place.reference, place.approval)


def _build_task_row(revision: TaskRevision, origin: RowOrigin) -> TaskRow:
    """Return the task exactly as rollouts here attempt it, under the row's name."""
    rollout = build_rollout_task(revision).model_copy(update={"key": origin.id})
    return TaskRow(**origin.model_dump(), rollout=rollout)


def _iter_trajectory_rows(
    found: ResolvedSelection, left_out: LeftOut, seen: Callable[[int], None]
) -> Iterator[SourcedRows]:
    sieve, done = FilterCounts(found.choice.sifting), 0
    for rows in iter_chunks(found.trajectories().only(*COLUMNS), CHUNK):
        yield from sift_trajectories(rows, found.choice, sieve)
        done += len(rows)
        seen(done)
    note_sieve_counts(sieve, left_out)


def sift_trajectories(rows: list[Trajectory], choice: DatasetSelection, sieve: FilterCounts) -> Iterator[SourcedRows]:
    """Yield the rows that a chunk of trajectories gives."""
    sources = load_revision_sources({row.revision_id for row in rows if row.revision_id is not None})

    def write_rows(row: Trajectory, conversation: Conversation) -> tuple[Row, ...]:
        setting = "conversation" if row.conversational else "task"
        identity = {"id": f"trajectory:{row.pk}", "setting": setting}
        origin = sources[row.revision_id or 0].origin.model_copy(update=identity)
        try:
            result_rows = tuple[Row, ...](build_trajectory_rows(conversation, choice.shape, origin))
        except ValidationError as error:
            raise FormatError("conversation", _format_error(error)) from error
        if not result_rows:
            raise FormatError("conversation", "the agent said nothing in it")
        return result_rows

    for row, written_rows in sieve.passed(rows, write_rows):
        place = sources[row.revision_id or 0]
        yield SourcedRows(f"trajectory:{row.pk}", row.pk, written_rows, place.reference, place.approval)


def note_sieve_counts(sieve: FilterCounts, left_out: LeftOut) -> None:
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


def _format_error(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return error.errors(include_url=False, include_input=False)[0]["msg"].removeprefix("Value error, ")[:200]
    return str(error)[:200]
