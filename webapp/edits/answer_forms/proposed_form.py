"""Answer form that is proposed for a superseded task, as a draft of the person who edits it."""

from __future__ import annotations

from typing import Any

from synthesis.formats.answer_form import serialize_form
from webapp.edits.answer_forms.form_parts import follow_form
from webapp.edits.models import Edit
from webapp.edits.proposals import keep_changed_parts
from webapp.scenarios.answers.answer_form import propose_answer_form
from webapp.scenarios.models import TaskRevision


def fill_in_proposal(edit: Edit, revision: TaskRevision) -> None:
    """Fill a draft with the answer form proposed for a superseded task, and with the reference's answer."""
    proposed = propose_answer_form(revision)
    if proposed is None:
        return
    form = proposed.answer_form
    body: dict[str, Any] = {
        "instruction": proposed.instruction,
        "checks": [{"label": check.label, "source": check.source} for check in proposed.checks],
        "answer_form": serialize_form(form, {})["answer_form"],
        "expected_answer": proposed.expected_answer,
    }
    if edit.reference is not None:
        body["reference"] = {
            "calls": edit.reference.calls, "answer": follow_form("", form, proposed.expected_answer),
        }  # fmt: skip
    edit.body, edit.serial, edit.why = (
        keep_changed_parts(edit, body),
        1,
        "Proposed: the answer as data, in an answer form.",
    )
