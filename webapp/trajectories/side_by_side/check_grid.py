"""Checks side by side: the verdict on each attempt, with the checks on which the attempts differ first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from synthesis.verifiers.check_reads import reads_answer
from webapp.common.templatetags.show import NOTHING
from webapp.scenarios.models import Check
from webapp.scenarios.verifiers import list_criteria_lines
from webapp.trajectories.matrix import NOT_PASSED, PASSED, RAISED
from webapp.trajectories.models import Score, Trajectory
from webapp.trajectories.replay.matrix_grid import Flip, Label, list_flips
from webapp.trajectories.replay.queries import build_followed_matrix

WORDS = {
    PASSED: ("✓", "holds", "good"),
    NOT_PASSED: ("✕", "does not hold", "bad"),
    RAISED: ("!", "raised an error", "warn"),
    None: (NOTHING, "not judged", "muted"),
}


@dataclass(frozen=True)
class CheckCell:
    """The verdict of a check on one attempt; `since` is the step since which it holds, if known."""

    trajectory: int
    value: int | None
    since: int | None = None

    @property
    def icon(self) -> str:
        return WORDS[self.value][0]

    @property
    def word(self) -> str:
        return WORDS[self.value][1]

    @property
    def tone(self) -> str:
        return WORDS[self.value][2]

    @property
    def url(self) -> str:
        return f"{reverse('trajectories:detail', args=[self.trajectory])}?step={self.since}"


@dataclass(frozen=True)
class CheckLine:
    """A check and its cells, one for each attempt. The same label, mark and source in several revisions are one
    check."""

    label: Label
    cells: tuple[CheckCell, ...]

    @property
    def differs(self) -> bool:
        return len({cell.value for cell in self.cells}) > 1


@dataclass(frozen=True)
class CheckGrid:
    lines: tuple[CheckLine, ...] = ()

    @property
    def differing(self) -> list[CheckLine]:
        return [line for line in self.lines if line.differs]

    @property
    def equal(self) -> list[CheckLine]:
        return [line for line in self.lines if not line.differs]

    def by_attempt(self, most: int) -> list[tuple[int, list[CheckCell]]]:
        """Return for each attempt the cells of the first checks."""
        columns = zip(*(line.cells for line in self.lines[:most]), strict=True)
        return [(cells[0].trajectory, list(cells)) for cells in columns]


Identity = tuple[str, str, str]
Labels = dict[int, list[tuple[Label, Identity]]]


def load_labels(revisions: set[int]) -> Labels:
    """Return by revision its checks or criteria in order, each with its identity across revisions."""
    by_revision: Labels = {}
    rows = Check.objects.filter(revision__in=revisions).order_by("revision", "position")
    for revision, position, label, mark, source in rows.values_list(
        "revision_id", "position", "label", "mark", "source"
    ):
        checks = by_revision.setdefault(revision, [])
        text = label.strip() or next((line.strip() for line in source.splitlines() if line.strip()), "")
        numbered_label = Label(len(checks) + 1, position, text[:300], mark, reads_answer(source))
        checks.append((numbered_label, (label, mark, source)))
    for pk, lines in list_criteria_lines(revisions - by_revision.keys()).items():
        by_revision[pk] = [
            (Label(place + 1, place, line[:300], ""), (line, "", "")) for place, line in enumerate(lines)
        ]
    return by_revision


def list_check_flips(attempt: Trajectory, labels: Labels) -> list[Flip]:
    """Return the flips of the checks along an attempt, as its replay shows them; empty if its matrix is not fresh."""
    names = [label for label, _ in labels.get(attempt.attempted_revision.pk, ())]
    return list_flips(build_followed_matrix(attempt, names), names)


def build_check_grid(
    attempts: Sequence[Trajectory], scores: Mapping[int, Score], labels: Labels, turned: Sequence[Sequence[Flip]]
) -> CheckGrid:
    """Return the grid of verdicts; `turned` are the flips of each attempt."""
    label_by_identity: dict[Identity, Label] = {}
    cells_by_attempt: list[dict[Identity, CheckCell]] = []
    for attempt, turns in zip(attempts, turned, strict=True):
        score = scores.get(attempt.pk)
        own = labels.get(score.revision_id if score else attempt.attempted_revision.pk, [])
        since = {flip.label.position: flip for flip in turns}
        if score is None or score.revision_id != attempt.revision_id:
            since = {}
        verdicts = score.verdicts if score else []
        cells = {}
        for place, (label, identity) in enumerate(own):
            label_by_identity.setdefault(identity, label)
            value = _to_cell_value(verdicts[place]) if place < len(verdicts) else None
            last = since.get(label.position)
            agreed = last is not None and last.value == value
            cells[identity] = CheckCell(attempt.pk, value, last.step if last and agreed else None)
        cells_by_attempt.append(cells)
    return CheckGrid(
        tuple(
            CheckLine(
                label,
                tuple(
                    cells.get(one, CheckCell(row.pk, None))
                    for row, cells in zip(attempts, cells_by_attempt, strict=True)
                ),
            )
            for one, label in label_by_identity.items()
        )
    )


def _to_cell_value(verdict: Mapping[str, Any]) -> int:
    if verdict.get("passed"):
        return PASSED
    return RAISED if verdict.get("error") and not verdict.get("non_boolean") else NOT_PASSED
