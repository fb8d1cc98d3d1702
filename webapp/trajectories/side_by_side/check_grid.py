"""Checks side by side: what the verifier says of each attempt, those first on which the attempts differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from synthesis.verifiers.check_reads import reads_answer
from webapp.scenarios.models import Check
from webapp.scenarios.verifiers import name_criteria
from webapp.templatetags.show import NOTHING
from webapp.trajectories.matrix import NOT_PASSED, PASSED, RAISED
from webapp.trajectories.models import Score, Trajectory
from webapp.trajectories.replay.matrix_grid import Flip, Label, flips
from webapp.trajectories.replay.queries import followed_matrix

WORDS = {
    PASSED: ("✓", "holds", "good"),
    NOT_PASSED: ("✕", "does not hold", "bad"),
    RAISED: ("!", "raised an error", "warn"),
    None: (NOTHING, "not judged", "muted"),
}


@dataclass(frozen=True)
class CheckCell:
    """What a check says of one attempt; `since` is the step at which it came to say so, if known."""

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
    """A check and its cells, one an attempt. Of several revisions, the same label, mark and source are one check."""

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
        """Of each attempt the cells of the first checks."""
        columns = zip(*(line.cells for line in self.lines[:most]), strict=True)
        return [(cells[0].trajectory, list(cells)) for cells in columns]


Identity = tuple[str, str, str]
Labels = dict[int, list[tuple[Label, Identity]]]


def labels_of(revisions: set[int]) -> Labels:
    """By revision its checks or criteria in order, each with what makes it the same one in another revision."""
    found: Labels = {}
    rows = Check.objects.filter(revision__in=revisions).order_by("revision", "position")
    for revision, position, label, mark, source in rows.values_list(
        "revision_id", "position", "label", "mark", "source"
    ):
        checks = found.setdefault(revision, [])
        text = label.strip() or next((line.strip() for line in source.splitlines() if line.strip()), "")
        named = Label(len(checks) + 1, position, text[:300], mark, reads_answer(source))
        checks.append((named, (label, mark, source)))
    for pk, lines in name_criteria(revisions - found.keys()).items():
        found[pk] = [(Label(place + 1, place, line[:300], ""), (line, "", "")) for place, line in enumerate(lines)]
    return found


def check_flips(attempt: Trajectory, labels: Labels) -> list[Flip]:
    """What the checks did along an attempt, as its replay shows it; nothing if its matrix is not fresh."""
    names = [label for label, _ in labels.get(attempt.attempted.pk, ())]
    return flips(followed_matrix(attempt, names), names)


def check_grid(
    attempts: Sequence[Trajectory], scores: Mapping[int, Score], labels: Labels, turned: Sequence[Sequence[Flip]]
) -> CheckGrid:
    """`turned` are the flips of each attempt."""
    known: dict[Identity, Label] = {}
    said: list[dict[Identity, CheckCell]] = []
    for attempt, turns in zip(attempts, turned, strict=True):
        score = scores.get(attempt.pk)
        own = labels.get(score.revision_id if score else attempt.attempted.pk, [])
        since = {flip.label.position: flip for flip in turns}
        if score is None or score.revision_id != attempt.revision_id:
            since = {}
        verdicts = score.verdicts if score else []
        cells = {}
        for place, (label, identity) in enumerate(own):
            known.setdefault(identity, label)
            value = _value(verdicts[place]) if place < len(verdicts) else None
            last = since.get(label.position)
            agreed = last is not None and last.value == value
            cells[identity] = CheckCell(attempt.pk, value, last.step if last and agreed else None)
        said.append(cells)
    return CheckGrid(
        tuple(
            CheckLine(
                label,
                tuple(cells.get(one, CheckCell(row.pk, None)) for row, cells in zip(attempts, said, strict=True)),
            )
            for one, label in known.items()
        )
    )


def _value(verdict: Mapping[str, Any]) -> int:
    if verdict.get("passed"):
        return PASSED
    return RAISED if verdict.get("error") and not verdict.get("non_boolean") else NOT_PASSED
