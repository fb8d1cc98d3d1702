"""The answers of attempts side by side: a row for each field of their answer form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from webapp.scenarios.answers.answer_form import FormRow, list_form_rows, prefetch_record_parts, read_form_and_expected
from webapp.trajectories.models import Trajectory


@dataclass
class AnswerLine:
    """One field and its value in each attempt; None for an attempt whose revision has no such field."""

    name: str
    description: str
    expected: list[str] = field(default_factory=list)
    """Expected values, as the revisions that were attempted have them; mostly one."""
    cells: list[FormRow | None] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        return len({cell.given if cell is not None else None for cell in self.cells}) > 1


def compare_answers(attempts: Sequence[Trajectory]) -> list[AnswerLine]:
    """Return the fields of the attempted forms; empty if no revision that was attempted has a form."""
    prefetch_record_parts([row.attempted_revision for row in attempts])
    forms = {row.attempted_revision.pk: read_form_and_expected(row.attempted_revision) for row in attempts}
    by_attempt = [
        {one.field.name: one for one in list_form_rows(*forms[row.attempted_revision.pk], row.answer)}
        for row in attempts
    ]
    lines: dict[str, AnswerLine] = {}
    for rows in by_attempt:
        for name, form_row in rows.items():
            line = lines.setdefault(name, AnswerLine(name, form_row.field.description))
            if form_row.expected and form_row.expected not in line.expected:
                line.expected.append(form_row.expected)
    for name, line in lines.items():
        line.cells = [rows.get(name) for rows in by_attempt]
    return list(lines.values())
