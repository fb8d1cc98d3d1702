"""What a draft would make: the program as a record, and each task that it touches with its verifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from synthesis.assessment.environments import read_findings, view_of
from synthesis.contracts import CheckRecord, Finding, Frame, GoldenVerifier, Program, Reference, ReferenceCall, State
from synthesis.errors import FormatError, InputError, ProgramError
from synthesis.formats.answer_form import form_record, read_submission, without_field_checks
from synthesis.formats.criteria import criterion_line, read_criterion_line, require_fields
from synthesis.formats.former_answers import find_gone_helpers
from synthesis.formats.records import EnvironmentRecord, TaskRecord, ToolRecord
from synthesis.formats.values import clean
from synthesis.json_reader import read_json
from synthesis.runtime import offered
from synthesis.runtime.method_source import docstring_of, method_source, require_short, with_method
from webapp.edits.answer_forms.form_parts import drafted_form
from webapp.edits.models import Edit, EditKind
from webapp.edits.verifier_part import (
    drafted_kind,
    drafted_verifier,
    find_kind_problem,
    list_script_faults,
    read_equality,
    require_sound_script,
    spell_verifier,
)
from webapp.environments.models import Version
from webapp.environments.services import record_of
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.models import Task, TaskReference, TaskRevision
from webapp.scenarios.references import (
    as_reference,
    frame_of_revision,
    offered_program,
    reference_of,
    withheld_of,
)
from webapp.scenarios.revision_record import RevisionChanges, own_checks, task_record
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import read_criteria

PROGRAM_FIELD = "env_class_code"
KEPT_REFERENCE = (
    "A revision keeps the reference that it has, and this edit changes nothing else. Write another in its place, or "
    "change what is asked too: the further revision then has none."
)


@dataclass(frozen=True)
class ProposedProgram:
    """A program that is not saved. `findings` are what reading it finds; with a fatal one it cannot be saved."""

    record: EnvironmentRecord
    program: Program
    findings: tuple[Finding, ...] = ()

    @property
    def fatal(self) -> tuple[str, ...]:
        return tuple(found.message for found in self.findings if found.severity == "fatal")


@dataclass(frozen=True)
class ProposedTask:
    """A task as it would be: its record without a state, its state, program, frame and reference."""

    task: Task
    revision: TaskRevision
    """What it is now."""
    stored: TaskReference | None
    """The reference that it has now."""
    record: TaskRecord
    program: Program
    initial: State
    reference: Reference | None
    frame: Frame | None
    new_reference: bool = False
    """Whether the edit brings the reference."""
    new_frame: bool = False
    """Whether what a right way may change has to be found anew."""
    new_golden: bool = False
    """Whether the golden state that judges the task has to be made anew."""
    new_program: bool = False
    """Whether the edit brings the program."""


def editable_source(version: Version, tool: str) -> tuple[str, int]:
    """(the text that a person edits, the line of the program that it begins at). Raises ProgramError."""
    if not tool:
        return version.source, 1
    found = method_source(version.source, version.class_name, tool)
    return found.text, found.first


def drafted_source(edit: Edit, version: Version | None = None) -> str:
    """The whole program that the draft would make. Raises ProgramError: the tool is not in the program any more."""
    base = version or edit.version
    if "source" in edit.body:
        return str(edit.body["source"])
    if "tool_source" in edit.body:
        return with_method(base.source, base.class_name, edit.tool, str(edit.body["tool_source"]))
    return base.source


def proposed_program(edit: Edit) -> ProposedProgram:
    """The version that saving a draft of a program would make, read but not run. Raises ProgramError."""
    source, version = drafted_source(edit), edit.version
    require_short(source)
    tools = tuple(_tool(row, edit) for row in version.tools.all())
    raw = dict(version.record)
    if PROGRAM_FIELD in raw:
        raw[PROGRAM_FIELD] = source
    record = record_of(version).model_copy(update={"source": source, "raw": raw, "tools": tools})
    view = view_of(record)
    return ProposedProgram(record, view.program, tuple(read_findings(record, view)))


def _tool(row: Any, edit: Edit) -> ToolRecord:
    """A tool of the manifest. A description that was its docstring follows the docstring."""
    description = row.description
    if row.name == edit.tool and "tool_source" in edit.body:
        before = docstring_of(row.source, row.name).strip()
        after = docstring_of(str(edit.body["tool_source"]), row.name).strip()
        if before and after and before == description.strip():
            description = after
    return ToolRecord(name=row.name, description=description, kind=row.kind, raw_schema=row.raw_schema)


def require_readable(proposed: ProposedProgram) -> None:
    """Raises InputError: the program cannot run at all, and why."""
    if proposed.fatal:
        raise InputError(f"The program cannot be saved: {' '.join(proposed.fatal)}")


def touched_tasks(edit: Edit) -> Sequence[Task]:
    """The tasks that an edit touches: its own, or all that stand on the program's version or on an earlier one."""
    rows = Task.objects.select_related("environment", "current__scenario__version", "current__scenario__initial")
    rows = rows.defer("current__scenario__version__record", "current__scenario__version__introduction")
    if edit.kind == EditKind.TASK:
        return list(rows.filter(pk=edit.task_id or 0, current__isnull=False))
    versions = Version.objects.filter(environment=edit.environment_id, number__lte=edit.version.number)
    return list(rows.filter(scenario__version__in=versions, current__isnull=False).order_by("pk"))


def proposed_task(edit: Edit, task: Task, program: Program | None) -> ProposedTask:
    """A task with what the edit makes of it; with `program` that one instead of its version's. Raises InputError."""
    revision = task.current
    if revision is None:
        raise InputError("This task has no revision any more.")
    revision.task = task
    stored, frame = reference_of(revision), frame_of_revision(revision)
    used = offered_program(revision) if program is None else offered(program, withheld_of(revision))
    known = as_reference(stored) if stored is not None else None
    base = ProposedTask(
        task,
        revision,
        stored,
        task_record(revision, frame),
        used,
        load_state(revision.scenario.initial_id),
        known,
        frame,
        new_program=program is not None,
    )
    return base if edit.kind == EditKind.PROGRAM else _changed_task(edit, base)


def _changed_task(edit: Edit, base: ProposedTask) -> ProposedTask:
    body = edit.body
    new_state = edit.initial_id is not None and edit.initial_id != base.revision.scenario.initial_id
    reference = drafted_reference(edit) if "reference" in body else base.reference
    new_reference = "reference" in body and reference != base.reference
    new_frame = base.frame is not None and reference is not None and (new_state or new_reference)
    record = task_record(base.revision, base.frame, changes_of(edit, base.revision, new_state))
    require_sound_script(record.verifier)
    is_golden = isinstance(record.verifier, GoldenVerifier)
    new_golden = is_golden and (new_state or new_reference or "equality" in body)
    require_fields(record.verifier.criteria, record.answer_form, record.expected_answer, "The task")
    initial = load_state(edit.initial_id) if new_state and edit.initial_id else base.initial
    return replace(
        base,
        record=record,
        initial=initial,
        reference=reference,
        new_reference=new_reference,
        new_frame=new_frame,
        new_golden=new_golden,
    )


def changes_of(edit: Edit, revision: TaskRevision, new_state: bool) -> RevisionChanges:
    """What a draft changes of a task's revision: parts that came out as they are now are none."""
    body, form_now, expected_now = edit.body, *read_form_and_expected(revision)
    instruction = body.get("instruction")
    if instruction is not None and instruction == revision.instruction:
        instruction = None
    checks = None
    if "checks" in body and drafted_kind(body, revision) == "checks":
        drafted = without_field_checks(
            [CheckRecord(label=one["label"], source=one["source"]) for one in body["checks"]], form_now, expected_now
        )
        checks = drafted if drafted != own_checks(revision) else None
    criteria = None
    if "criteria" in body and body["criteria"] != spell_criteria(revision):
        criteria = tuple(map(read_criterion_line, body["criteria"]))
    form, expected = drafted_form(body, form_now, expected_now)
    return RevisionChanges(
        title=body.get("title"),
        instruction=instruction,
        checks=checks,
        criteria=criteria,
        verifier=drafted_verifier(body, revision),
        answer_form=form if form != form_now else None,
        expected_answer=expected if expected != expected_now else None,
        state_changes=new_state,
    )


def standing_parts(edit: Edit) -> dict[str, Any]:
    """The parts of the task that a draft stands on, as a draft's body spells them."""
    revision, task = edit.revision, edit.task
    if revision is None or task is None:
        return {}
    stands = {"title": edit.base_title or task.title, "reference": spelled_reference(edit.reference)}
    return {**stands, **spell_parts(revision), "verifier": spell_verifier(revision)}


def spell_parts(revision: TaskRevision) -> dict[str, Any]:
    """What a revision asks and the parts of what judges it, as a draft's body spells them."""
    form, expected = read_form_and_expected(revision)
    return {
        "instruction": revision.instruction,
        "checks": [{"label": check.label, "source": check.source} for check in own_checks(revision)],
        "criteria": spell_criteria(revision),
        **({"equality": equality} if (equality := read_equality(revision)) else {}),
        "answer_form": form_record(form, {}).get("answer_form", []),
        "expected_answer": expected,
    }


def spell_criteria(revision: TaskRevision) -> list[str]:
    """The criteria of a revision as a draft's body spells them, one line each."""
    return [criterion_line(one) for one in read_criteria(revision.criteria)]


def spelled_reference(row: TaskReference | None) -> dict[str, Any] | None:
    """A stored reference as a draft's body spells it."""
    if row is None:
        return None
    known = as_reference(row)
    return {"calls": [call.model_dump() for call in known.calls], "answer": known.answer}


def own_parts(edit: Edit, body: dict[str, Any]) -> dict[str, Any]:
    """The parts of a body that differ from what the draft stands on: a form sends all of them, and what a person left
    as it was must not take back what somebody else saves meanwhile."""
    stands = standing_parts(edit)
    return {name: value for name, value in body.items() if name not in stands or _typed(value) != _typed(stands[name])}


def merged_checks(before: list[Any], mine: list[Any], now: list[Any]) -> list[Any]:
    """Checks of a draft put on what is current now: those that it left as they were are the current ones. A draft that
    added checks or took some away keeps its own."""
    if not len(before) == len(mine) == len(now):
        return mine
    return [new if _typed(own) == _typed(old) else own for old, own, new in zip(before, mine, now, strict=True)]


def _typed(value: Any) -> Any:
    """A part as it comes back from a form: cleaned, without blanks around it."""
    if isinstance(value, str):
        return clean(value).replace("\r\n", "\n").strip()
    if isinstance(value, dict):
        return {name: _typed(inner) for name, inner in value.items()}
    return [_typed(inner) for inner in value] if isinstance(value, list) else value


def changes_anything(edit: Edit) -> bool:
    """Whether a draft differs from what it stands on."""
    if edit.kind == EditKind.PROGRAM:
        try:
            return drafted_source(edit) != edit.version.source
        except ProgramError:
            return True
    if edit.revision is None or edit.task is None:
        return False
    new_state = edit.initial_id is not None and edit.initial_id != edit.revision.scenario.initial_id
    try:
        changes = changes_of(edit, edit.revision, new_state)
    except FormatError:
        return True
    if (
        new_state
        or changes.judges_otherwise
        or any(part is not None for part in (changes.instruction, changes.criteria))
    ):
        return True
    known = as_reference(edit.reference) if edit.reference is not None else None
    renamed = changes.title is not None and changes.title != (edit.base_title or edit.task.title)
    return renamed or ("reference" in edit.body and drafted_reference(edit) != known)


def drafted_reference(edit: Edit) -> Reference | None:
    """The calls and the answer that a draft names; None where it takes the reference away."""
    told = edit.body.get("reference")
    if told is None:
        return None
    calls = tuple(ReferenceCall(tool=call["tool"], arguments=call["arguments"]) for call in told["calls"])
    return Reference(calls=calls, answer=told["answer"])


def only_drops_reference(edit: Edit) -> bool:
    """Whether a draft takes a task's reference away and leaves what is asked as it is."""
    if edit.revision is None or edit.reference is None or edit.body.get("reference", edit) is not None:
        return False
    new_state = edit.initial_id is not None and edit.initial_id != edit.revision.scenario.initial_id
    changes = changes_of(edit, edit.revision, new_state)
    return not new_state and not changes.judges_otherwise and changes.instruction is None and changes.criteria is None


def find_form_problem(edit: Edit) -> str:
    """Return why a task cannot be judged by the checks and the answer form that a draft makes; empty if it can."""
    if edit.revision is None:
        return ""
    kind, problem = drafted_kind(edit.body, edit.revision), find_kind_problem(edit.body, edit.revision)
    if problem or kind == "rubric":
        return problem
    if kind == "golden" and edit.body.get("checks"):
        return "A golden state judges this task, and no checks beside it. Leave the checks out."
    if kind != "golden" and edit.body.get("equality"):
        return "No golden state judges this task, so there is no equality to choose."
    form, expected = read_form_and_expected(edit.revision)
    try:
        form, expected = drafted_form(edit.body, form, expected)
    except FormatError as error:
        return f"The expected values do not fit the answer form: {error}."
    own = edit.body["checks"] if "checks" in edit.body else own_checks(edit.revision)
    judging = {"checks", "verifier", "answer_form", "expected_answer"} & edit.body.keys()
    if kind == "checks" and not own and not expected and judging:
        return "Nothing judges the task: write a check, or the expected value of a field of the answer form."
    told = drafted_reference(edit) if "reference" in edit.body else None
    if form and told is not None and told.answer:
        try:
            read_submission(form, read_json(told.answer, "the answer"))
        except InputError as error:
            return f"The reference's answer is no answer in the form of the task. {error}"
    return ""


def _find_gone_helpers(edit: Edit) -> str:
    """Return why the checks of a draft cannot be run; empty if they can."""
    if edit.revision is None or drafted_kind(edit.body, edit.revision) != "checks":
        return ""
    own = edit.body["checks"] if "checks" in edit.body else standing_parts(edit)["checks"]
    for number, check in enumerate(own, 1):
        names = find_gone_helpers([check["source"]])
        if names:
            return (
                f"Check {number} calls {names[0]}(), which reads the words of an answer: there is no such helper. "
                'Compare a field of the answer form instead, or read it by answer_value(answer, "name").'
            )
    return ""


def reading(edit: Edit) -> tuple[str, ...]:
    """Why a draft cannot be saved as it is: what is wrong with its program, or with what it takes away of a task."""
    if edit.kind == EditKind.TASK:
        problem = find_form_problem(edit) or _find_gone_helpers(edit)
        if problem:
            return (problem,)
        faults = list_script_faults(edit.body["verifier"]) if "source" in edit.body.get("verifier", ()) else {}
        dropped = (KEPT_REFERENCE,) if only_drops_reference(edit) else ()
        return (*dropped, *faults.values(), *_read_rubric_faults(edit))
    try:
        return proposed_program(edit).fatal
    except ProgramError as error:
        return (str(error),)


def _read_rubric_faults(edit: Edit) -> tuple[str, ...]:
    """Why the criteria of a draft cannot be decided by the task's answer form."""
    if edit.revision is None or "criteria" not in edit.body:
        return ()
    form, expected = read_form_and_expected(edit.revision)
    try:
        require_fields(tuple(map(read_criterion_line, edit.body["criteria"])), form, expected, "The task")
    except FormatError as error:
        return (str(error),)
    return ()
