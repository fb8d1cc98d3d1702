"""Problems of a draft: why it cannot be saved as it is."""

from __future__ import annotations

from synthesis.errors import FormatError, InputError, ProgramError
from synthesis.formats.answer_form import read_submission
from synthesis.formats.criteria import read_criterion_line, require_fields
from synthesis.formats.former_answers import find_gone_helpers
from synthesis.json_reader import read_json
from webapp.edits.answer_forms.form_parts import read_drafted_form
from webapp.edits.models import Edit, EditKind
from webapp.edits.proposals import find_changes, get_base_parts, propose_program, read_drafted_reference
from webapp.edits.verifier_part import find_kind_problem, get_drafted_kind, list_script_faults
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.revision_record import list_own_checks

KEPT_REFERENCE = (
    "A revision keeps the reference that it has, and this edit changes nothing else. Write another in its place, or "
    "change what is asked too: the further revision then has none."
)


def only_drops_reference(edit: Edit) -> bool:
    """Return whether a draft removes a task's reference and does not change what is asked."""
    if edit.revision is None or edit.reference is None or edit.body.get("reference", edit) is not None:
        return False
    new_state = edit.initial_id is not None and edit.initial_id != edit.revision.scenario.initial_id
    changes = find_changes(edit, edit.revision, new_state)
    return (
        not new_state and not changes.has_verifier_changes and changes.instruction is None and changes.criteria is None
    )


def find_form_problem(edit: Edit) -> str:
    """Return why a task cannot be judged by the checks and the answer form of a draft; empty if it can."""
    if edit.revision is None:
        return ""
    kind, problem = get_drafted_kind(edit.body, edit.revision), find_kind_problem(edit.body, edit.revision)
    if problem or kind == "rubric":
        return problem
    if kind == "golden" and edit.body.get("checks"):
        return "A golden state judges this task, without checks. Leave the checks out."
    if kind != "golden" and edit.body.get("equality"):
        return "No golden state judges this task, so there is no equality to choose."
    form, expected = read_form_and_expected(edit.revision)
    try:
        form, expected = read_drafted_form(edit.body, form, expected)
    except FormatError as error:
        return f"The expected values do not fit the answer form: {error}."
    drafted_checks = edit.body["checks"] if "checks" in edit.body else list_own_checks(edit.revision)
    judging = {"checks", "verifier", "answer_form", "expected_answer"} & edit.body.keys()
    if kind == "checks" and not drafted_checks and not expected and judging:
        return "Nothing judges the task: write a check, or the expected value of a field of the answer form."
    reference = read_drafted_reference(edit) if "reference" in edit.body else None
    if form and reference is not None and reference.answer:
        try:
            read_submission(form, read_json(reference.answer, "the answer"))
        except InputError as error:
            return f"The reference's answer is no answer in the form of the task. {error}"
    return ""


def _find_gone_helpers(edit: Edit) -> str:
    """Return why the checks of a draft cannot be run; empty if they can."""
    if edit.revision is None or get_drafted_kind(edit.body, edit.revision) != "checks":
        return ""
    drafted_checks = edit.body["checks"] if "checks" in edit.body else get_base_parts(edit)["checks"]
    for number, check in enumerate(drafted_checks, 1):
        names = find_gone_helpers([check["source"]])
        if names:
            return (
                f"Check {number} calls {names[0]}(), which reads the words of an answer: there is no such helper. "
                'Compare a field of the answer form instead, or read it by answer_value(answer, "name").'
            )
    return ""


def list_draft_problems(edit: Edit) -> tuple[str, ...]:
    """Return why a draft cannot be saved as it is: the faults of its program, or of the parts of its task."""
    if edit.kind == EditKind.TASK:
        problem = find_form_problem(edit) or _find_gone_helpers(edit)
        if problem:
            return (problem,)
        faults = list_script_faults(edit.body["verifier"]) if "source" in edit.body.get("verifier", ()) else {}
        dropped = (KEPT_REFERENCE,) if only_drops_reference(edit) else ()
        return (*dropped, *faults.values(), *_read_rubric_faults(edit))
    try:
        return propose_program(edit).fatal
    except ProgramError as error:
        return (str(error),)


def _read_rubric_faults(edit: Edit) -> tuple[str, ...]:
    """Return why the criteria of a draft cannot be decided by the task's answer form."""
    if edit.revision is None or "criteria" not in edit.body:
        return ()
    form, expected = read_form_and_expected(edit.revision)
    try:
        require_fields(tuple(map(read_criterion_line, edit.body["criteria"])), form, expected, "The task")
    except FormatError as error:
        return (str(error),)
    return ()
