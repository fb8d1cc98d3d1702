"""Group of a training step: the attempts at a task side by side, aligned by what they did, with their checks.

Contents come from the step's file as the trainer wrote it: bounded, and believed no further than a list of attempts is.
A replay of one executes its calls again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from synthesis.contracts import Attempt, TrajectoryStep, is_refusal
from webapp.runs.models import RolloutFile, RunRollout
from webapp.runs.rollouts import rollout_file
from webapp.runs.rollouts.step_summary import AttemptFilter, list_groups
from webapp.scenarios.models import Check
from webapp.scenarios.verifiers import list_criteria_lines, name_verdict
from webapp.trajectories.side_by_side.alignment import AlignedRow, ComparedStep, Likeness, align_steps, group_stretches
from webapp.trajectories.side_by_side.call_texts import format_call, shorten_text

MOST_ATTEMPTS = 16
MOST_STEPS = 400
MOST_ROWS = 300
MOST_CHECKS = 60
NAMED = 6
SAID = 120


@dataclass(frozen=True)
class GroupAttempt:
    """Head of an attempt: its row in the list, how it ended, and its advantage as a bar from the middle of 100."""

    rollout: RunRollout
    words: str
    left: float
    width: float


@dataclass(frozen=True)
class GroupCell:
    """Steps `first` to `last` of one attempt: a call or words; `refused` if the environment did not do it."""

    first: int
    last: int
    text: str
    speaker: str = ""
    refused: str = ""

    @property
    def times(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class GroupLine:
    """Line of the table: a cell of each attempt, or (`same`) what all of them do alike, folded."""

    cells: tuple[GroupCell | None, ...]
    same: tuple[str, ...] = ()
    more: int = 0


@dataclass(frozen=True)
class CheckLine:
    """Check with its verdict on each attempt's end: True, False, or None if nothing was judged."""

    label: str
    verdicts: tuple[bool | None, ...]

    @property
    def parts_them(self) -> bool:
        return len(set(self.verdicts)) > 1


@dataclass(frozen=True)
class AttemptGroup:
    """Attempts at one task in one step. `left_out` counts attempts and `cut` steps that are not shown."""

    attempts: tuple[GroupAttempt, ...]
    lines: tuple[GroupLine, ...]
    checks: tuple[CheckLine, ...]
    kind: str
    """The kind of verifier that judges them; empty if their revision is gone."""
    mean: float | None
    deviation: float | None
    left_out: int = 0
    cut: bool = False


def build_group(file: RolloutFile, row: str, setting: str) -> AttemptGroup | None:
    """Return the attempts at a row of the dataset in a setting; None if the step has none.

    Raises InputError (the file is gone) and FormatError (a line of it cannot be read).
    """
    rollouts = (
        RunRollout.objects.filter(file=file, row=row).select_related("task", "revision").defer("revision__record")
    )
    rows = list((rollouts.filter(setting=setting) if setting else rollouts).order_by("index"))
    if not rows:
        return None
    shown_rollouts = rows[:MOST_ATTEMPTS]
    attempts_by_index = {
        index: line.attempt for index, line in rollout_file.read_file_lines(file, [one.index for one in shown_rollouts])
    }
    attempts = [attempts_by_index[one.index] for one in shown_rollouts]
    rewards = [one.reward for one in rows if one.reward is not None]
    lines, cut = _build_lines(attempts)
    kind = shown_rollouts[0].revision.verifier_kind if shown_rollouts[0].revision is not None else ""
    return AttemptGroup(
        attempts=tuple(
            _build_head(one, attempt, shown_rollouts, kind)
            for one, attempt in zip(shown_rollouts, attempts, strict=True)
        ),
        lines=tuple(lines),
        checks=tuple(_list_check_lines(shown_rollouts[0], attempts, kind)),
        kind=kind,
        mean=fmean(rewards) if rewards else None,
        deviation=stdev(rewards) if len(rewards) > 1 else None,
        left_out=len(rows) - len(shown_rollouts),
        cut=cut,
    )


def find_neighbours(file: RolloutFile, row: str, setting: str) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
    """Return (row, setting) of the groups before and after, in the order of the step's list of groups."""
    names = [(group.row, group.setting) for group in list_groups(file, AttemptFilter())[0]]
    here = next((place for place, name in enumerate(names) if name[0] == row and setting in ("", name[1])), None)
    if here is None:
        return None, names[0] if names else None
    return names[here - 1] if here else None, names[here + 1] if here + 1 < len(names) else None


def _build_head(rollout: RunRollout, attempt: Attempt, rows: Sequence[RunRollout], kind: str) -> GroupAttempt:
    widest = max((abs(one.advantage) for one in rows if one.advantage is not None), default=0.0) or 1.0
    reach = 46 * (rollout.advantage or 0.0) / widest
    return GroupAttempt(
        rollout, _describe_ending(rollout, attempt, kind), round(50 + min(reach, 0.0), 1), round(abs(reach), 1)
    )


def _describe_ending(rollout: RunRollout, attempt: Attempt, kind: str) -> str:
    """Describe in a few words how an attempt ended."""
    if attempt.reward is None:
        return shorten_text(attempt.note or "nothing could be judged", SAID)
    failed = [str(number) for number, verdict in enumerate(attempt.reward.verdicts, 1) if not verdict.passed]
    turns = f"{rollout.turns} turn{'' if rollout.turns == 1 else 's'}"
    end = f"out of turns at {rollout.horizon}; " if attempt.outcome == "truncated" else ""
    if failed:
        named = f"{', '.join(failed[:8])}{' …' if len(failed) > 8 else ''}"
        return f"{end}{name_verdict(kind, len(failed))} {named} {'not met' if kind == 'rubric' else 'failed'}, {turns}"
    count, passed = len(attempt.reward.verdicts), "met" if kind == "rubric" else "passed"
    if not count:
        return f"{end}no {name_verdict(kind)} to pass, {turns}"
    every = ("its", "both")[count - 1] if count <= 2 else f"all {count}"
    return f"{end}{every} {name_verdict(kind, count)} {passed}, {turns}"


def _list_check_lines(rollout: RunRollout, attempts: Sequence[Attempt], kind: str) -> Iterator[CheckLine]:
    count = max((len(one.reward.verdicts) for one in attempts if one.reward), default=0)
    labels: dict[int, str] = {}
    if rollout.revision_id is not None:
        labels = dict(Check.objects.filter(revision=rollout.revision_id).values_list("position", "label"))
        if not labels:
            labels = dict(enumerate(list_criteria_lines([rollout.revision_id]).get(rollout.revision_id, ())))
    for place in range(min(count, MOST_CHECKS)):
        verdicts = tuple(
            one.reward.verdicts[place].passed if one.reward and place < len(one.reward.verdicts) else None
            for one in attempts
        )
        yield CheckLine(labels.get(place) or f"{name_verdict(kind)} {place + 1}", verdicts)


def _list_compared_steps(attempt: Attempt) -> list[ComparedStep]:
    return [
        ComparedStep(
            index=number,
            kind=step.kind,
            tool=step.tool,
            said=json.dumps(step.arguments, sort_keys=True, default=str) if step.tool else step.content,
            result=_hash_result(step),
            by=step.by,
        )
        for number, step in enumerate(attempt.steps[:MOST_STEPS], 1)
    ]


def _hash_result(step: TrajectoryStep) -> str:
    if step.result is None:
        return ""
    result_json = json.dumps([step.result.ok, step.result.result], sort_keys=True, default=str)
    return hashlib.sha256(result_json.encode()).hexdigest()


def _build_lines(attempts: Sequence[Attempt]) -> tuple[list[GroupLine], bool]:
    cut = any(len(one.steps) > MOST_STEPS for one in attempts)
    lines: list[GroupLine] = []
    for rows in group_stretches(align_steps([_list_compared_steps(one) for one in attempts])):
        if rows[0].likeness == Likeness.SAME and len(attempts) > 1:
            lines.append(_build_same_line(rows, attempts))
            continue
        cells = _build_cells(rows[0], attempts)
        if not lines or not _join_repeated_call(lines, cells):
            lines.append(GroupLine(cells))
        if len(lines) > MOST_ROWS:
            return lines[:MOST_ROWS], True
    return lines, cut


def _build_same_line(rows: Sequence[AlignedRow], attempts: Sequence[Attempt]) -> GroupLine:
    cells = [GroupCell(first.index, last.index, "") for first, last in zip(rows[0].there, rows[-1].there, strict=True)]
    steps = [attempts[0].steps[row.there[0].index - 1] for row in rows]
    named = tuple(step.tool or shorten_text(step.content, 40) or step.kind for step in steps[:NAMED])
    return GroupLine(tuple(cells), named, len(steps) - len(named))


def _build_cells(row: AlignedRow, attempts: Sequence[Attempt]) -> tuple[GroupCell | None, ...]:
    return tuple(
        None if step is None else _build_cell(step, attempts[place].steps[step.index - 1])
        for place, step in enumerate(row.steps)
    )


def _build_cell(step: ComparedStep, told: TrajectoryStep) -> GroupCell:
    if not told.tool:
        speaker = "user" if told.kind == "user" else "agent"
        return GroupCell(step.index, step.index, shorten_text(told.content or told.reasoning, SAID), speaker)
    refused = ""
    if told.result is not None and is_refusal(told.result.ok, told.result.result):
        refused = shorten_text(str(told.result.error.message if told.result.error else "refused"), SAID)
    whose = "the user: " if told.by == "user" else ""
    return GroupCell(step.index, step.index, whose + format_call(told.tool, told.arguments), "", refused)


def _join_repeated_call(lines: list[GroupLine], cells: Sequence[GroupCell | None]) -> bool:
    """Put a call that only one attempt repeats into the line before: `4 to 18 list_free_slots(...), 15 times`. Return
    whether it was joined."""
    before = lines[-1]
    filled_places = [place for place, cell in enumerate(cells) if cell is not None]
    if before.same or len(filled_places) != 1 or len(cells) < 2:
        return False
    place = filled_places[0]
    old, new = before.cells[place], cells[place]
    alone = all(cell is None for at, cell in enumerate(before.cells) if at != place)
    if old is None or new is None or not alone or old.speaker or new.speaker or old.refused != new.refused:
        return False
    if old.text.partition("(")[0] != new.text.partition("(")[0] or new.first != old.last + 1:
        return False
    merged = GroupCell(old.first, new.last, old.text, "", old.refused)
    lines[-1] = GroupLine(tuple(merged if at == place else cell for at, cell in enumerate(before.cells)))
    return True
