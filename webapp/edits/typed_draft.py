"""Bodies of drafts, made from what was typed into a form."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import State
from webapp.edits.answer_forms.form_parts import follow_form, read_drafted_form
from webapp.edits.answer_forms.form_rows import build_form
from webapp.edits.draft_body import read_calls, read_state
from webapp.edits.models import Edit, EditKind
from webapp.scenarios.answers.answer_form import read_form_and_expected


def build_draft_body(edit: Edit, given: dict[str, Any]) -> tuple[dict[str, Any], State | None]:
    """Return (a draft's body, another initial state or None) from what was typed. Raises InputError with the faulty
    part."""
    if edit.kind == EditKind.PROGRAM:
        return {name: given[name] for name in ("tool_source", "source") if name in given}, None
    body: dict[str, Any] = {
        name: given[name] for name in ("title", "instruction", "checks", "criteria", "equality") if name in given
    }
    verifier = given.get("verifier")
    if verifier is not None:
        body["verifier"] = verifier if verifier["kind"] == "script" else {"kind": verifier["kind"]}
    elif "verifier" in edit.body:  # a page without this choice does not change it
        body["verifier"] = edit.body["verifier"]
    if "form_rows" in given:
        body["answer_form"], body["expected_answer"] = build_form(given["form_rows"])
    calls, answer = read_calls(given["calls_text"]), given["answer"]
    if calls or answer:
        body["reference"] = {"calls": calls, "answer": _follow_changed_form(edit, body, answer)}
    elif edit.reference is not None:
        body["reference"] = None
    return body, read_state(given["state_text"]) if "state_text" in given else None


def _follow_changed_form(edit: Edit, body: dict[str, Any], answer: str) -> str:
    """Return the reference's answer: one that the person did not change follows their changes of the form."""
    if "answer_form" not in body or edit.revision is None:
        return answer
    former_answer = (
        edit.body["reference"]["answer"] if edit.body.get("reference") else edit.reference and edit.reference.answer
    )
    form, expected = read_drafted_form(edit.body, *read_form_and_expected(edit.revision))
    drafted_fields, values = read_drafted_form(body, form, expected)
    if answer != former_answer or (drafted_fields, values) == (form, expected):
        return answer
    return follow_form(answer, drafted_fields, values)
