"""Reads for a comparison: the chosen attempts, their steps as digests and short texts, and results of a few steps."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Any

from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import MD5, Cast, Left
from django.http import QueryDict

from webapp.common.errors import NotFound, Unusable
from webapp.common.frequencies import rank_by_count
from webapp.common.paging import COUNTED_TO
from webapp.common.query_params import parse_whole_number
from webapp.trajectories.failure_reason import attach_reasons
from webapp.trajectories.models import CallBy, Score, Step, Trajectory, format_no_environment
from webapp.trajectories.side_by_side.alignment import ComparedStep
from webapp.trajectories.side_by_side.call_texts import shorten_text
from webapp.trajectories.trajectory_list import filter_trajectories, read_filters

FEWEST, MOST = 2, 4
"""Number of attempts that are compared."""
MOST_STEPS = 5_000
"""Number of steps of each that are aligned, from the first on."""
READ_ARGUMENTS, READ_CONTENT, READ_RESULT = 4_000, 300, 600
"""Number of characters that are read of each; longer ones are compared by their digest."""
MOST_IDS = 50
NO_PATCH = md5(b"[]", usedforsecurity=False).hexdigest()
LARGEST_ID = 2**63 - 1
HEAVY = ("record", "provenance", "replay_note", "environment__summary", "revision__record", "revision__instruction")


@dataclass(frozen=True)
class BriefStep:
    """The parts of a step that a line shows. `arguments` is their stored text, cut; `failed` is the kind of its
    error."""

    kind: str
    tool: str
    arguments: str
    content: str
    failed: str
    changes: int
    by: str = CallBy.AGENT


@dataclass
class AttemptSteps:
    """The steps of one attempt, for alignment, and by index for display."""

    compared: list[ComparedStep] = field(default_factory=list)
    brief: dict[int, BriefStep] = field(default_factory=dict)


def read_ids(texts: Sequence[str]) -> list[int]:
    """Return primary keys from `12,15`, or from a repeated parameter; each once, in their order."""
    parts = ",".join(texts).split(",")[: 4 * MOST_IDS]
    keys = (parse_whole_number(part.strip(), 1, LARGEST_ID) for part in parts)
    return list(dict.fromkeys(key for key in keys if key is not None))[:MOST_IDS]


def list_task_attempts(task: int) -> QuerySet[Trajectory]:
    return Trajectory.objects.filter(task=task).order_by("-id")


@dataclass(frozen=True)
class ChosenAttempts:
    """Facts about chosen attempts; `problem` is why several cannot be compared, empty if they can."""

    outcomes: list[tuple[str, int]]
    problem: str


def summarize_chosen_attempts(ids: Sequence[int]) -> ChosenAttempts:
    """Return the outcomes of chosen attempts and whether they can be compared, in one query, while a person still
    chooses."""
    rows = list(Trajectory.objects.filter(pk__in=ids).values_list("pk", "task_id", "outcome").order_by("pk"))
    outcomes = rank_by_count(Counter(outcome for _, _, outcome in rows))
    refusal = _find_number_problem(len(rows)) or _find_task_problem([(pk, task) for pk, task, _ in rows])
    return ChosenAttempts(outcomes, str(refusal) if refusal is not None and len(rows) > 1 else "")


def summarize_filtered_attempts(query: QueryDict) -> ChosenAttempts:
    """Return the outcomes of the attempts that the list's filters leave; empty if they are too many to be counted at
    once."""
    rows = filter_trajectories(read_filters(query)).order_by()
    outcomes = Counter(rows.values_list("outcome", flat=True)[: COUNTED_TO + 1])
    return ChosenAttempts(rank_by_count(outcomes) if outcomes.total() <= COUNTED_TO else [], "")


def _find_number_problem(count: int) -> Unusable | None:
    if FEWEST <= count <= MOST:
        return None
    chosen = "none is" if not count else "1 is" if count == 1 else f"{count} are"
    return Unusable(f"Choose two to four attempts at one task; {chosen} chosen.", code="wrong_number")


def _find_task_problem(attempts: Sequence[tuple[int, int | None]]) -> Unusable | None:
    """Return why attempts, each with its task, cannot be compared; None if they can."""
    foreign = [pk for pk, task in attempts if task is None]
    if foreign:
        return Unusable(format_no_environment(foreign[0]), code="no_task")
    if len({task for _, task in attempts}) == 1:
        return None
    places = ", ".join(f"attempt {pk} at task {task}" for pk, task in attempts)
    return Unusable(f"Only attempts at one task can be compared: {places}.", code="several_tasks")


def require_attempts(ids: Sequence[int]) -> list[Trajectory]:
    """Return the attempts with their reasons, in the order of the ids. Raises NotFound, or Unusable if they cannot be
    compared: fewer than two, more than four, or at several tasks."""
    if refusal := _find_number_problem(len(ids)):
        raise refusal
    rows = Trajectory.objects.select_related("task", "environment", "revision").defer(*HEAVY).in_bulk(list(ids))
    missing_ids = [str(pk) for pk in ids if pk not in rows]
    if missing_ids:
        raise NotFound(f"There is no attempt {' and none '.join(missing_ids)}.")
    attempts = [rows[pk] for pk in ids]
    if refusal := _find_task_problem([(row.pk, row.task_id) for row in attempts]):
        raise refusal
    attach_reasons(attempts)
    return attempts


def load_steps(trajectory: Trajectory) -> AttemptSteps:
    """Return steps with digests of long values: no result and no patch leaves the database for an alignment."""
    arguments = Cast("arguments", TextField())
    rows = Step.objects.filter(trajectory=trajectory).order_by("index").values_list(
        "index", "kind", "tool", "ok", "error_kind", "change_count", "snapshot_id", "by",
        Left(arguments, READ_ARGUMENTS + 1), MD5(arguments), Left("content", READ_CONTENT + 1), MD5("content"),
        MD5(Cast("result", TextField())), MD5("recorded"), MD5(Cast("patch", TextField())),
    )  # fmt: skip
    attempt_steps = AttemptSteps()
    for row in rows[:MOST_STEPS]:
        index, kind, tool, ok, error, changes, snapshot, by = row[:8]
        arguments_text, arguments_digest, content, content_digest, result, recorded, patch = row[8:]
        outcome = f"{ok} {error} {result}" if ok is not None else recorded
        changed = f"{changes} {snapshot if patch == NO_PATCH else patch}" if changes else ""
        identity = _normalize_arguments(arguments_text or "", arguments_digest) if tool else content_digest
        attempt_steps.compared.append(ComparedStep(index, kind, tool, identity, outcome if tool else "", changed, by))
        failed = (error or "error") if ok is False else ""
        attempt_steps.brief[index] = BriefStep(
            kind, tool, arguments_text or "", shorten_text(content, READ_CONTENT), failed, changes, by
        )
    return attempt_steps


def _normalize_arguments(text: str, digest: str) -> str:
    """Return arguments as text independent of their order; their digest if they are too long."""
    try:
        return json.dumps(json.loads(text), sort_keys=True) if len(text) <= READ_ARGUMENTS else digest
    except (ValueError, RecursionError):
        return digest


def load_results(wanted: Mapping[int, Sequence[int]]) -> dict[tuple[int, int], str]:
    """Return the beginning of the results of calls, by trajectory and step: the message of an error, text, or JSON."""
    where = Q()
    for pk, indexes in wanted.items():
        where |= Q(trajectory=pk, index__in=list(indexes))
    if not where:
        return {}
    result = Left(Cast("result", TextField()), READ_RESULT + 1)
    rows = Step.objects.filter(where).values_list(
        "trajectory_id", "index", "ok", result, Left("recorded", READ_RESULT + 1)
    )
    return {
        (pk, index): _shorten_result(given if ok is not None else recorded) for pk, index, ok, given, recorded in rows
    }


def _shorten_result(text: str | None) -> str:
    try:
        value: Any = json.loads(text or '""')
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, dict) and {"kind", "message"} <= value.keys():
        value = value["message"]
    return shorten_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), READ_RESULT)


def load_newest_scores(attempts: Sequence[Trajectory]) -> dict[int, Score]:
    """Return the newest score of each attempt that is not from a record, as the reason of a failure takes it."""
    rows = Score.objects.filter(trajectory__in=attempts).exclude(source="recorded").order_by("trajectory", "-id")
    return {score.trajectory_id: score for score in rows.distinct("trajectory")}
