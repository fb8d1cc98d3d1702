"""The comparison of attempts as pages and the API show it: lines of an aligned table, the sentence, the checks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from django.urls import reverse

from webapp.trajectories.matrix import is_fresh
from webapp.trajectories.models import StepKind, Trajectory
from webapp.trajectories.replay.matrix_grid import Flip
from webapp.trajectories.side_by_side import queries
from webapp.trajectories.side_by_side.alignment import AlignedRow, ComparedStep, Likeness, align_steps, group_stretches
from webapp.trajectories.side_by_side.call_texts import (
    CallPiece,
    build_call_pieces,
    format_call,
    parse_stored_arguments,
    shorten_text,
)
from webapp.trajectories.side_by_side.check_grid import CheckGrid, build_check_grid, list_check_flips, load_labels
from webapp.trajectories.side_by_side.parting_point import Parting, build_sentence, find_parting

MOST_LINES = 300
"""Number of lines of the table that are shown at once."""
MOST_NAMED = 4
"""Number of steps of a folded line that are named."""
SAID = 160
LIKENESS = {
    Likeness.SAME: ("=", "the same"),
    Likeness.WORDS: ("~", "other words"),
    Likeness.RESULT: ("≠", "another result"),
    Likeness.STATE: ("≠", "another change of the state"),
    Likeness.ARGUMENTS: ("≠", "other arguments"),
    Likeness.MISSING: ("±", "not in all"),
}


@dataclass(frozen=True)
class StepCell:
    """A step of one attempt as a line shows it; for a folded line the steps `step` to `last`."""

    trajectory: int
    step: int
    last: int
    kind: str
    pieces: tuple[CallPiece, ...]
    error: str = ""
    result: str = ""
    changes: int = 0
    rises: tuple[int, ...] = ()
    falls: tuple[int, ...] = ()
    by: str = "agent"

    @property
    def url(self) -> str:
        return build_step_url(self.trajectory, self.step)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)

    @property
    def speaker(self) -> str:
        """The speaker of a message; empty for a call."""
        return {StepKind.USER: "user", StepKind.MESSAGE: "agent"}.get(self.kind, "")  # type: ignore[call-overload]


@dataclass(frozen=True)
class TableLine:
    """One line: a step of each attempt, or a run of steps that are equal in all (`count` of them, folded)."""

    likeness: Likeness
    cells: tuple[StepCell | None, ...]
    count: int = 1
    named: tuple[StepCell, ...] = ()
    first: bool = False
    """Whether the attempts part here."""

    @property
    def sign(self) -> str:
        return LIKENESS[self.likeness][0]

    @property
    def words(self) -> str:
        return LIKENESS[self.likeness][1]

    @property
    def calls(self) -> bool:
        return any(cell is not None and not cell.speaker for cell in self.cells)

    @property
    def more(self) -> int:
        return self.count - len(self.named)


@dataclass(frozen=True)
class SentencePart:
    """A piece of the sentence about the parting; `url` is an address of a replay, or empty."""

    text: str
    url: str = ""


@dataclass(frozen=True)
class Comparison:
    """Two to four attempts side by side.

    `lines` begin at line `start` of the table; `hidden` counts those after them, `uncompared` the steps left out.
    """

    attempts: tuple[Trajectory, ...]
    sentence: tuple[SentencePart, ...]
    lines: tuple[TableLine, ...]
    start: int
    parted: int
    """Start of the page of lines on which they diverge."""
    hidden: int
    uncompared: int
    checks: CheckGrid
    parting: Parting | None

    @property
    def earlier(self) -> int:
        """The first line of the previous page of lines."""
        return max(0, self.start - MOST_LINES)

    @property
    def later(self) -> int:
        return self.start + len(self.lines)

    @property
    def revisions(self) -> list[int]:
        """The numbers of the revisions that were attempted."""
        return sorted({row.attempted_revision.number for row in self.attempts})

    @property
    def unfollowed(self) -> list[int]:
        """Attempts without ▲ and ▼: their checks were not evaluated after each step, or were other checks then."""
        return [row.pk for row in self.attempts if not is_fresh(row)]

    @property
    def answers_differ(self) -> bool:
        return len({row.answer for row in self.attempts}) > 1


def build_step_url(pk: int, step: int) -> str:
    return f"{reverse('trajectories:detail', args=[pk])}?step={step}"


def compare_attempts(attempts: Sequence[Trajectory], start: int = 0) -> Comparison:
    """Align the attempts and compare their checks. `start` is the first line that is shown."""
    steps = [queries.load_steps(row) for row in attempts]
    rows = align_steps([one.compared for one in steps])
    parting_found = find_parting(rows)
    scores = queries.load_newest_scores(attempts)
    labels = load_labels(
        {row.attempted_revision.pk for row in attempts} | {score.revision_id for score in scores.values()}
    )
    turned = [list_check_flips(row, labels) for row in attempts]
    folded = list(group_stretches(rows))
    start = min(start, max(0, len(folded) - 1)) // MOST_LINES * MOST_LINES
    page = folded[start : start + MOST_LINES]
    results = queries.load_results(_list_needed_results(attempts, steps, page, parting_found))
    writer = _CellWriter(attempts, steps, turned, results)
    firsts = list(accumulate(map(len, folded), initial=0))
    parting_line = bisect_right(firsts, parting_found.row) - 1 if parting_found is not None else 0
    lines, number = [], firsts[start]
    for run in page:
        lines.append(writer.line(run, parting_found is not None and number == parting_found.row))
        number += len(run)
    names = [row.pk for row in attempts]
    phrases = build_sentence(
        rows, names, writer.said, lambda place, step: shorten_text(writer.result(place, step), 60) or "nothing"
    )
    return Comparison(
        attempts=tuple(attempts),
        sentence=tuple(
            SentencePart(one.text, "" if one.place is None else build_step_url(names[one.place], one.step or 0))
            for one in phrases
        ),
        lines=tuple(lines),
        start=start,
        parted=parting_line // MOST_LINES * MOST_LINES,
        hidden=len(folded) - start - len(page),
        uncompared=sum(max(0, row.step_count - queries.MOST_STEPS) for row in attempts),
        checks=build_check_grid(attempts, scores, labels, turned),
        parting=parting_found,
    )


def _list_needed_results(
    attempts: Sequence[Trajectory],
    steps: Sequence[queries.AttemptSteps],
    shown: Sequence[Sequence[AlignedRow]],
    found: Parting | None,
) -> dict[int, list[int]]:
    """Return for each attempt the steps whose result a line or the sentence shows."""
    indexes_by_attempt: dict[int, list[int]] = {row.pk: [] for row in attempts}
    for [row, *_] in shown:
        for place, step in enumerate(row.steps):
            if step and step.tool and row.likeness != Likeness.SAME:
                failed = steps[place].brief[step.index].failed
                if failed or row.likeness == Likeness.RESULT:
                    indexes_by_attempt[attempts[place].pk].append(step.index)
    for place, step in enumerate(found.steps if found and found.likeness == Likeness.RESULT else ()):
        if step:
            indexes_by_attempt[attempts[place].pk].append(step.index)
    return {pk: indexes for pk, indexes in indexes_by_attempt.items() if indexes}


class _CellWriter:
    """Writer of the cells of lines, from the data of the attempts."""

    def __init__(
        self,
        attempts: Sequence[Trajectory],
        steps: Sequence[queries.AttemptSteps],
        turned: Sequence[Sequence[Flip]],
        results: dict[tuple[int, int], str],
    ) -> None:
        self._attempts, self._steps, self._results = attempts, steps, results
        self._turns: list[dict[int, list[Flip]]] = []
        for turns in turned:
            by_step: dict[int, list[Flip]] = {}
            for flip in turns:
                by_step.setdefault(flip.step, []).append(flip)
            self._turns.append(by_step)

    def result(self, place: int, step: ComparedStep) -> str:
        return self._results.get((self._attempts[place].pk, step.index), "")

    def said(self, place: int, step: ComparedStep) -> str:
        """Return a call, or a message in quotation marks."""
        brief = self._steps[place].brief[step.index]
        if brief.tool:
            return format_call(brief.tool, parse_stored_arguments(brief.arguments))
        return f"“{shorten_text(brief.content, SAID // 2)}”"

    def line(self, run: Sequence[AlignedRow], first: bool) -> TableLine:
        row, likeness = run[0], run[0].likeness
        if likeness == Likeness.SAME:
            cells = [
                self.cell(place, step, row, last=run[-1].steps[place])
                for place, step in enumerate(row.steps)
                if step is not None
            ]
            named = [self.cell(0, one.steps[0], one) for one in run[:MOST_NAMED] if one.steps[0] is not None]
            return TableLine(likeness, tuple(cells), len(run), tuple(named))
        cells_shown = [self.cell(place, step, row) if step else None for place, step in enumerate(row.steps)]
        return TableLine(likeness, tuple(cells_shown), first=first)

    def cell(self, place: int, step: ComparedStep, row: AlignedRow, last: ComparedStep | None = None) -> StepCell:
        brief = self._steps[place].brief[step.index]
        turns = self._turns[place].get(step.index, [])
        told_result = row.likeness == Likeness.RESULT or (brief.failed and row.likeness != Likeness.SAME)
        return StepCell(
            trajectory=self._attempts[place].pk,
            step=step.index,
            last=last.index if last else step.index,
            kind=brief.kind,
            pieces=tuple(self._pieces(place, step, row)),
            error=brief.failed,
            result=shorten_text(self.result(place, step), SAID) if told_result else "",
            changes=brief.changes,
            rises=tuple(flip.label.number for flip in turns if flip.rises),
            falls=tuple(flip.label.number for flip in turns if flip.falls),
            by=brief.by,
        )

    def _pieces(self, place: int, step: ComparedStep, row: AlignedRow) -> list[CallPiece]:
        brief = self._steps[place].brief[step.index]
        if not brief.tool:
            return [CallPiece(shorten_text(brief.content, SAID))]
        others = [
            parse_stored_arguments(self._steps[other].brief[one.index].arguments)
            for other, one in enumerate(row.steps)
            if one is not None and other != place and row.likeness != Likeness.SAME
        ]
        return build_call_pieces(brief.tool, parse_stored_arguments(brief.arguments), others)
