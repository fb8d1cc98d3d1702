"""Reads for the replay page: the step list, one step, search over the text, and what touched a path."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import Http404
from django.shortcuts import get_object_or_404

from synthesis.contracts import OutsideChange
from synthesis.verifiers.check_reads import reads_answer
from webapp.database.kept_sql import Given, KeptQuery
from webapp.scenarios.models import Check
from webapp.scenarios.state_tree import parts_of
from webapp.trajectories.matrix import is_fresh
from webapp.trajectories.models import Step, StepKind, Trajectory
from webapp.trajectories.replay.matrix_grid import Label, hold_back_answers
from webapp.trajectories.replay.value_text import compact

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


def outside_changes(trajectory: Trajectory) -> list[OutsideChange]:
    """What the newest score says that changed outside the task's frame, or differs from its golden state."""
    revision = trajectory.revision
    if revision is None or (revision.frame is None and revision.verifier_kind != "golden"):
        return []
    told = trajectory.scores.exclude(source="recorded").order_by("-id").values_list("outside", flat=True).first()
    return [OutsideChange.model_validate(change) for change in told or ()]


def open_trajectory(pk: int) -> Trajectory:
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


def light_trajectory(pk: int) -> Trajectory:
    """For fragments: what moving by a step needs."""
    rows = Trajectory.objects.select_related("revision").defer("record", "revision__record", "revision__instruction")
    return get_object_or_404(rows, pk=pk)


def labels(trajectory: Trajectory) -> list[Label]:
    """The checks of the revision, as short as a row needs them."""
    rows = Check.objects.filter(revision_id=trajectory.revision_id).order_by("position")
    short_labels = []
    for number, (position, label, mark, source) in enumerate(
        rows.values_list("position", "label", "mark", "source"), start=1
    ):
        text = label.strip() or next((line.strip() for line in source.splitlines() if line.strip()), "")
        short_labels.append(Label(number, position, text[:300], mark, reads_answer(source)))
    return short_labels


def followed_matrix(trajectory: Trajectory, names: list[Label]) -> dict[str, Any] | None:
    """Return the matrix as a reader follows the run, None if it is not fresh; `names` are the run's checks.

    A check on the answer says nothing before the step that gives the answer. If no step gives one, the end does.
    """
    if not is_fresh(trajectory) or trajectory.matrix is None:
        return None
    if not any(name.reads_answer for name in names):
        return trajectory.matrix
    return hold_back_answers(trajectory.matrix, names, answer_step(trajectory))


def answer_step(trajectory: Trajectory) -> int:
    """The step that submits the answer, or of a task without an answer form says it; the last one if no step does."""
    submitted, said = trajectory.steps.filter(kind=StepKind.ANSWER), trajectory.steps.filter(kind=StepKind.MESSAGE)
    rows = submitted if trajectory.answer and submitted.exists() else said.exclude(content="")
    given = rows.order_by("-index").values_list("index", flat=True).first() if trajectory.answer else None
    return max(trajectory.step_count - 1, 0) if given is None else given


def step_pair(trajectory: Trajectory, index: int) -> tuple[Step, Step | None]:
    """A step and the one before it; `Step.DoesNotExist` where there is none."""
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


def _pattern(wanted: str) -> Q:
    """Text columns as they are; JSON columns also as their stored text spells what is not ASCII."""
    where = Q()
    for column in ("reasoning", "content", "tool", "recorded"):
        where |= Q(**{f"{column}__icontains": wanted})
    for spelled in {wanted, json.dumps(wanted)[1:-1]}:
        where |= Q(arguments_text__icontains=spelled) | Q(result_text__icontains=spelled)
    return where


def search(trajectory: Trajectory, wanted: str) -> tuple[list[Hit], bool]:
    """One hit a step and field where the text occurs, in order; true when there are more."""
    rows: QuerySet[Step] = Step.objects.filter(trajectory=trajectory).annotate(
        arguments_text=Cast("arguments", TextField()), result_text=Cast("result", TextField())
    )
    rows = rows.filter(_pattern(wanted)).order_by("index").defer("patch")
    hits: list[Hit] = []
    for step in rows[: MOST_HITS + 1]:
        hits += hits_of(step, wanted)
        if len(hits) > MOST_HITS:
            return hits[:MOST_HITS], True
    return hits, False


def hits_of(step: Step, wanted: str) -> list[Hit]:
    hits = []
    seen = [
        ("reasoning", step.reasoning),
        ("text", step.content),
        ("tool", step.tool),
        ("arguments", compact(step.arguments) if step.arguments else ""),
        ("result", step.result if isinstance(step.result, str) else compact(step.result) if step.tool else ""),
    ]
    if step.recorded and step.matches is not True:
        seen.append(("recorded", step.recorded))
    for field, text in seen:
        place = text.lower().find(wanted.lower())
        if place >= 0:
            end = place + len(wanted)
            before = ("…" if place > AROUND else "") + text[max(0, place - AROUND) : place]
            after = text[end : end + AROUND] + ("…" if end + AROUND < len(text) else "")
            hits.append(Hit(step.index, field, step.tool or step.kind, before, text[place:end], after))
    return hits


def touches(trajectory: Trajectory, pointer: str) -> list[tuple[int, str]]:
    """(step, operation) of every stored change at, below or above a path."""
    above = [""]
    for part in parts_of(pointer):
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
