"""Reads for the replay page: the step list, one step, search over the text, and the changes at a path."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import Http404

from synthesis.contracts import OutsideChange
from synthesis.verifiers.check_reads import reads_answer
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.scenarios.models import Check
from webapp.scenarios.state_tree import split_pointer
from webapp.trajectories.matrix import is_fresh
from webapp.trajectories.models import Step, StepKind, Trajectory
from webapp.trajectories.replay.matrix_grid import Label, hold_back_answers
from webapp.trajectories.replay.value_text import format_compact

MOST_HITS = 200
AROUND = 70
ICONS = {
    StepKind.USER: "◦",
    StepKind.MESSAGE: "✎",
    StepKind.QUERY: "○",
    StepKind.CHANGE: "●",
    StepKind.ANSWER: "✓",
    StepKind.SYSTEM: "▪",
}


def list_outside_changes(trajectory: Trajectory) -> list[OutsideChange]:
    """Return the changes outside the task's frame, or the differences from its golden state, by the newest score."""
    revision = trajectory.revision
    if revision is None or (revision.frame is None and revision.verifier_kind != "golden"):
        return []
    stored_changes = (
        trajectory.scores.exclude(source="recorded").order_by("-id").values_list("outside", flat=True).first()
    )
    return [OutsideChange.model_validate(change) for change in stored_changes or ()]


def get_trajectory(pk: int) -> Trajectory:
    trajectory = _TRAJECTORY.first(pk=pk)
    if trajectory is None:
        raise Http404("There is no such trajectory.")
    return trajectory


_TRAJECTORY = KeptQuery[Trajectory](
    lambda: (
        Trajectory.objects.select_related("task", "environment", "revision__scenario__version")
        .annotate(has_forks=Exists(Trajectory.objects.filter(parent=OuterRef("pk"))))
        .defer(
            "record",
            "revision__record",
            "revision__instruction",
            "revision__scenario__version__source",
            "revision__scenario__version__record",
            "revision__scenario__version__introduction",
            "revision__scenario__version__rules",
            "revision__scenario__version__state_schema",
            "environment__summary",
        )
        .filter(pk=Given("pk"))
    )
)


def get_light_trajectory(pk: int) -> Trajectory:
    """Return a trajectory for fragments, with the columns that moving by a step needs."""
    rows = Trajectory.objects.select_related("revision").defer("record", "revision__record", "revision__instruction")
    row = rows.filter(pk=pk).first()
    if row is None:
        raise Http404("There is no such trajectory.")
    return row


def list_labels(trajectory: Trajectory) -> list[Label]:
    """Return the checks of the revision, as short as a row needs them."""
    rows = Check.objects.filter(revision_id=trajectory.revision_id).order_by("position")
    short_labels = []
    for number, (position, label, mark, source) in enumerate(
        rows.values_list("position", "label", "mark", "source"), start=1
    ):
        text = label.strip() or next((line.strip() for line in source.splitlines() if line.strip()), "")
        short_labels.append(Label(number, position, text[:300], mark, reads_answer(source)))
    return short_labels


def build_followed_matrix(trajectory: Trajectory, names: list[Label]) -> dict[str, Any] | None:
    """Return the matrix as a reader follows the run, None if it is not fresh; `names` are the run's checks.

    A check on the answer has no verdict before the step that gives the answer. If no step gives one, the last step
    counts.
    """
    if not is_fresh(trajectory) or trajectory.matrix is None:
        return None
    if not any(name.reads_answer for name in names):
        return trajectory.matrix
    return hold_back_answers(trajectory.matrix, names, find_answer_step(trajectory))


def find_answer_step(trajectory: Trajectory) -> int:
    """Return the step that submits the answer, or for a task without an answer form states it; the last one if no step
    does."""
    submitted, messages = trajectory.steps.filter(kind=StepKind.ANSWER), trajectory.steps.filter(kind=StepKind.MESSAGE)
    rows = submitted if trajectory.answer and submitted.exists() else messages.exclude(content="")
    answer_index = rows.order_by("-index").values_list("index", flat=True).first() if trajectory.answer else None
    return max(trajectory.step_count - 1, 0) if answer_index is None else answer_index


def get_step_pair(trajectory: Trajectory, index: int) -> tuple[Step, Step | None]:
    """Return a step and the one before it. Raises `Step.DoesNotExist` if there is none."""
    rows = {step.index: step for step in trajectory.steps.filter(index__in=[index - 1, index])}
    if index not in rows:
        raise Step.DoesNotExist
    return rows[index], rows.get(index - 1)


@dataclass(frozen=True)
class Hit:
    index: int
    field: str
    name: str
    before: str
    match: str
    after: str


def _build_pattern(wanted: str) -> Q:
    """Return the condition of a search: text columns as they are; JSON columns also with non-ASCII characters as their
    stored text escapes them."""
    where = Q()
    for column in ("reasoning", "content", "tool", "recorded"):
        where |= Q(**{f"{column}__icontains": wanted})
    for spelled in {wanted, json.dumps(wanted)[1:-1]}:
        where |= Q(arguments_text__icontains=spelled) | Q(result_text__icontains=spelled)
    return where


def search_steps(trajectory: Trajectory, wanted: str) -> tuple[list[Hit], bool]:
    """Return one hit for each step and field with the text, in order, and whether there are more."""
    rows: QuerySet[Step] = Step.objects.filter(trajectory=trajectory).annotate(
        arguments_text=Cast("arguments", TextField()), result_text=Cast("result", TextField())
    )
    rows = rows.filter(_build_pattern(wanted)).order_by("index").defer("patch")
    hits: list[Hit] = []
    for step in rows[: MOST_HITS + 1]:
        hits += find_hits(step, wanted)
        if len(hits) > MOST_HITS:
            return hits[:MOST_HITS], True
    return hits, False


def find_hits(step: Step, wanted: str) -> list[Hit]:
    hits = []
    searched_texts = [
        ("reasoning", step.reasoning),
        ("text", step.content),
        ("tool", step.tool),
        ("arguments", format_compact(step.arguments) if step.arguments else ""),
        ("result", step.result if isinstance(step.result, str) else format_compact(step.result) if step.tool else ""),
    ]
    if step.recorded and step.matches is not True:
        searched_texts.append(("recorded", step.recorded))
    for field, text in searched_texts:
        place = text.lower().find(wanted.lower())
        if place >= 0:
            end = place + len(wanted)
            before = ("…" if place > AROUND else "") + text[max(0, place - AROUND) : place]
            after = text[end : end + AROUND] + ("…" if end + AROUND < len(text) else "")
            hits.append(Hit(step.index, field, step.tool or step.kind, before, text[place:end], after))
    return hits


def list_touches(trajectory: Trajectory, pointer: str) -> list[tuple[int, str]]:
    """Return (step, operation) of every stored change at, below or above a path."""
    above = [""]
    for part in split_pointer(pointer):
        above.append(f"{above[-1]}/{part.replace('~', '~0').replace('/', '~1')}")
    below = pointer + "/"
    sql = """
        SELECT s.index, min(op->>'op'), count(*), bool_or(op->>'path' = %s)
        FROM trajectories_step s, LATERAL json_array_elements(s.patch) op
        WHERE s.trajectory_id = %s AND s.change_count > 0 AND json_typeof(s.patch) = 'array'
          AND (op->>'path' = ANY(%s) OR left(op->>'path', %s) = %s)
        GROUP BY s.index ORDER BY s.index LIMIT 200
    """
    with connection.cursor() as cursor:
        cursor.execute(sql, [pointer, trajectory.pk, above, len(below), below])
        rows = cursor.fetchall()
    return [(index, op if exact or count == 1 else f"{count} changes") for index, op, count, exact in rows]
