"""Reads for a comparison: the attempts that were chosen, their steps as digests and short texts, results of few."""

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

from webapp.errors import NotFound, Unusable
from webapp.frequencies import rank_by_count
from webapp.paging import COUNTED_TO
from webapp.query_params import whole_number
from webapp.trajectories.failure_reason import tell_reasons
from webapp.trajectories.models import CallBy, Score, Step, Trajectory, no_environment
from webapp.trajectories.side_by_side.alignment import ComparedStep
from webapp.trajectories.side_by_side.call_texts import short
from webapp.trajectories.trajectory_list import read_filters, rows_of

FEWEST, MOST = 2, 4
"""So many attempts are compared."""
MOST_STEPS = 5_000
"""So many steps of each are aligned, from the first on."""
READ_ARGUMENTS, READ_CONTENT, READ_RESULT = 4_000, 300, 600
"""So many characters are read of each; longer ones are compared by their digest."""
MOST_IDS = 50
NO_PATCH = md5(b"[]", usedforsecurity=False).hexdigest()
LARGEST_ID = 2**63 - 1
HEAVY = ("record", "provenance", "replay_note", "environment__summary", "revision__record", "revision__instruction")


@dataclass(frozen=True)
class BriefStep:
    """What a line shows of a step. `arguments` is their stored text, cut; `failed` is the kind of its error."""

    kind: str
    tool: str
    arguments: str
    content: str
    failed: str
    changes: int
    by: str = CallBy.AGENT


@dataclass
class AttemptSteps:
    """The steps of one attempt, for alignment and by index for what is shown."""

    compared: list[ComparedStep] = field(default_factory=list)
    brief: dict[int, BriefStep] = field(default_factory=dict)


def read_ids(texts: Sequence[str]) -> list[int]:
    """Primary keys out of `12,15`, or out of a parameter that is given once for each; each once, in their order."""
    parts = ",".join(texts).split(",")[: 4 * MOST_IDS]
    keys = (whole_number(part.strip(), 1, LARGEST_ID) for part in parts)
    return list(dict.fromkeys(key for key in keys if key is not None))[:MOST_IDS]


def attempts_at(task: int) -> QuerySet[Trajectory]:
    return Trajectory.objects.filter(task=task).order_by("-id")


@dataclass(frozen=True)
class ChosenAttempts:
    """What is known of chosen attempts; `problem`: why several cannot be compared, empty where they can."""

    outcomes: list[tuple[str, int]]
    problem: str


def chosen_attempts(ids: Sequence[int]) -> ChosenAttempts:
    """How chosen attempts ended and whether they can be compared, in one query: for who is still choosing."""
    rows = list(Trajectory.objects.filter(pk__in=ids).values_list("pk", "task_id", "outcome").order_by("pk"))
    outcomes = rank_by_count(Counter(outcome for _, _, outcome in rows))
    refusal = _wrong_number(len(rows)) or _wrong_tasks([(pk, task) for pk, task, _ in rows])
    return ChosenAttempts(outcomes, str(refusal) if refusal is not None and len(rows) > 1 else "")


def filtered_attempts(query: QueryDict) -> ChosenAttempts:
    """How the attempts that the list's filters leave ended; nothing if they are too many to be counted at once."""
    rows = rows_of(read_filters(query)).order_by()
    outcomes = Counter(rows.values_list("outcome", flat=True)[: COUNTED_TO + 1])
    return ChosenAttempts(rank_by_count(outcomes) if outcomes.total() <= COUNTED_TO else [], "")


def _wrong_number(count: int) -> Unusable | None:
    if FEWEST <= count <= MOST:
        return None
    chosen = "none is" if not count else "1 is" if count == 1 else f"{count} are"
    return Unusable(f"Choose two to four attempts at one task; {chosen} chosen.", code="wrong_number")


def _wrong_tasks(attempts: Sequence[tuple[int, int | None]]) -> Unusable | None:
    """Why attempts, each with its task, are not to be set beside each other; None where they are."""
    foreign = [pk for pk, task in attempts if task is None]
    if foreign:
        return Unusable(no_environment(foreign[0]), code="no_task")
    if len({task for _, task in attempts}) == 1:
        return None
    places = ", ".join(f"attempt {pk} at task {task}" for pk, task in attempts)
    return Unusable(f"Only attempts at one task can be compared: {places}.", code="several_tasks")


def require_attempts(ids: Sequence[int]) -> list[Trajectory]:
    """The attempts with their reasons, in the order of the ids. Raises NotFound, or Unusable where none are to be set
    beside each other: fewer than two, more than four, or at several tasks."""
    if refusal := _wrong_number(len(ids)):
        raise refusal
    rows = Trajectory.objects.select_related("task", "environment", "revision").defer(*HEAVY).in_bulk(list(ids))
    gone = [str(pk) for pk in ids if pk not in rows]
    if gone:
        raise NotFound(f"There is no attempt {' and none '.join(gone)}.")
    attempts = [rows[pk] for pk in ids]
    if refusal := _wrong_tasks([(row.pk, row.task_id) for row in attempts]):
        raise refusal
    tell_reasons(attempts)
    return attempts


def steps_of(trajectory: Trajectory) -> AttemptSteps:
    """Steps with digests of what is long: no result and no patch leaves the database for an alignment."""
    arguments = Cast("arguments", TextField())
    rows = Step.objects.filter(trajectory=trajectory).order_by("index").values_list(
        "index", "kind", "tool", "ok", "error_kind", "change_count", "snapshot_id", "by",
        Left(arguments, READ_ARGUMENTS + 1), MD5(arguments), Left("content", READ_CONTENT + 1), MD5("content"),
        MD5(Cast("result", TextField())), MD5("recorded"), MD5(Cast("patch", TextField())),
    )  # fmt: skip
    found = AttemptSteps()
    for row in rows[:MOST_STEPS]:
        index, kind, tool, ok, error, changes, snapshot, by = row[:8]
        given, given_digest, content, content_digest, result, recorded, patch = row[8:]
        came = f"{ok} {error} {result}" if ok is not None else recorded
        changed = f"{changes} {snapshot if patch == NO_PATCH else patch}" if changes else ""
        said = _canonical(given or "", given_digest) if tool else content_digest
        found.compared.append(ComparedStep(index, kind, tool, said, came if tool else "", changed, by))
        failed = (error or "error") if ok is False else ""
        found.brief[index] = BriefStep(kind, tool, given or "", short(content, READ_CONTENT), failed, changes, by)
    return found


def _canonical(text: str, digest: str) -> str:
    """Arguments whose order does not matter; those that are too long stand for themselves by their digest."""
    try:
        return json.dumps(json.loads(text), sort_keys=True) if len(text) <= READ_ARGUMENTS else digest
    except (ValueError, RecursionError):
        return digest


def results_of(wanted: Mapping[int, Sequence[int]]) -> dict[tuple[int, int], str]:
    """The beginning of what some calls gave, by trajectory and step: the message of an error, text, or JSON."""
    where = Q()
    for pk, indexes in wanted.items():
        where |= Q(trajectory=pk, index__in=list(indexes))
    if not where:
        return {}
    result = Left(Cast("result", TextField()), READ_RESULT + 1)
    rows = Step.objects.filter(where).values_list(
        "trajectory_id", "index", "ok", result, Left("recorded", READ_RESULT + 1)
    )
    return {(pk, index): _preview(given if ok is not None else recorded) for pk, index, ok, given, recorded in rows}


def _preview(text: str | None) -> str:
    try:
        value: Any = json.loads(text or '""')
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, dict) and {"kind", "message"} <= value.keys():
        value = value["message"]
    return short(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), READ_RESULT)


def newest_scores(attempts: Sequence[Trajectory]) -> dict[int, Score]:
    """The newest score of each that was not only recorded, as the reason of a failure takes it."""
    rows = Score.objects.filter(trajectory__in=attempts).exclude(source="recorded").order_by("trajectory", "-id")
    return {score.trajectory_id: score for score in rows.distinct("trajectory")}
