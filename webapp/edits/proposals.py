"""Results of a draft: the program as a record, and each task that it affects with its verifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from synthesis.assessment.environments import build_view, read_findings
from synthesis.contracts import CheckRecord, Finding, Frame, GoldenVerifier, Program, Reference, ReferenceCall, State
from synthesis.errors import FormatError, InputError, ProgramError
from synthesis.formats.answer_form import drop_field_checks, serialize_form
from synthesis.formats.criteria import format_criterion_line, read_criterion_line, require_fields
from synthesis.formats.records import EnvironmentRecord, TaskRecord, ToolRecord
from synthesis.formats.values import clean_text
from synthesis.runtime import restrict_program
from synthesis.runtime.method_source import get_method_source, read_docstring, replace_method, require_editable_length
from webapp.edits.answer_forms.form_parts import read_drafted_form
from webapp.edits.models import Edit, EditKind
from webapp.edits.verifier_part import (
    build_drafted_verifier,
    get_drafted_kind,
    read_equality,
    require_sound_script,
    serialize_verifier_part,
)
from webapp.environments.models import Version
from webapp.environments.services import build_record
from webapp.scenarios.answers.answer_form import read_form_and_expected
from webapp.scenarios.models import Task, TaskReference, TaskRevision
from webapp.scenarios.references import (
    build_offered_program,
    find_reference,
    read_frame,
    read_withheld,
    to_reference,
)
from webapp.scenarios.revision_record import RevisionChanges, build_task_record, list_own_checks
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import read_criteria

PROGRAM_FIELD = "env_class_code"


@dataclass(frozen=True)
class ProposedProgram:
    """A program that is not saved. `findings` are those of reading it; with a fatal one it cannot be saved."""

    record: EnvironmentRecord
    program: Program
    findings: tuple[Finding, ...] = ()

    @property
    def fatal(self) -> tuple[str, ...]:
        return tuple(found.message for found in self.findings if found.severity == "fatal")


@dataclass(frozen=True)
class ProposedTask:
    """A task after the edit: its record without a state, its state, program, frame and reference."""

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


def get_editable_source(version: Version, tool: str) -> tuple[str, int]:
    """Return (the text that a person edits, the line of the program at which it begins). Raises ProgramError."""
    if not tool:
        return version.source, 1
    method = get_method_source(version.source, version.class_name, tool)
    return method.text, method.first


def build_drafted_source(edit: Edit, version: Version | None = None) -> str:
    """Return the whole program of the draft. Raises ProgramError if the tool is no longer in the program."""
    base = version or edit.version
    if "source" in edit.body:
        return str(edit.body["source"])
    if "tool_source" in edit.body:
        return replace_method(base.source, base.class_name, edit.tool, str(edit.body["tool_source"]))
    return base.source


def propose_program(edit: Edit) -> ProposedProgram:
    """Return the version that saving a draft of a program would make, read but not run. Raises ProgramError."""
    source, version = build_drafted_source(edit), edit.version
    require_editable_length(source)
    tools = tuple(_build_tool_record(row, edit) for row in version.tools.all())
    raw = dict(version.record)
    if PROGRAM_FIELD in raw:
        raw[PROGRAM_FIELD] = source
    record = build_record(version).model_copy(update={"source": source, "raw": raw, "tools": tools})
    view = build_view(record)
    return ProposedProgram(record, view.program, tuple(read_findings(record, view)))


def _build_tool_record(row: Any, edit: Edit) -> ToolRecord:
    """Return a tool of the manifest. A description that equals the old docstring becomes the new one."""
    description = row.description
    if row.name == edit.tool and "tool_source" in edit.body:
        before = read_docstring(row.source, row.name).strip()
        after = read_docstring(str(edit.body["tool_source"]), row.name).strip()
        if before and after and before == description.strip():
            description = after
    return ToolRecord(name=row.name, description=description, kind=row.kind, raw_schema=row.raw_schema)


def require_readable(proposed: ProposedProgram) -> None:
    """Raise InputError with the reason if the program cannot run at all."""
    if proposed.fatal:
        raise InputError(f"The program cannot be saved: {' '.join(proposed.fatal)}")


def touched_tasks(edit: Edit) -> Sequence[Task]:
    """Return the tasks that an edit affects: its own, or all on the program's version or on an earlier one."""
    rows = Task.objects.select_related("environment", "current__scenario__version", "current__scenario__initial")
    rows = rows.defer("current__scenario__version__record", "current__scenario__version__introduction")
    if edit.kind == EditKind.TASK:
        return list(rows.filter(pk=edit.task_id or 0, current__isnull=False))
    versions = Version.objects.filter(environment=edit.environment_id, number__lte=edit.version.number)
    return list(rows.filter(scenario__version__in=versions, current__isnull=False).order_by("pk"))


def propose_task(edit: Edit, task: Task, program: Program | None) -> ProposedTask:
    """Return a task after the edit; with `program` on that one instead of its version's. Raises InputError."""
    revision = task.current
    if revision is None:
        raise InputError("This task has no revision any more.")
    revision.task = task
    stored, frame = find_reference(revision), read_frame(revision)
    used = build_offered_program(revision) if program is None else restrict_program(program, read_withheld(revision))
    stored_reference = to_reference(stored) if stored is not None else None
    base = ProposedTask(
        task,
        revision,
        stored,
        build_task_record(revision, frame),
        used,
        load_state(revision.scenario.initial_id),
        stored_reference,
        frame,
        new_program=program is not None,
    )
    return base if edit.kind == EditKind.PROGRAM else _apply_changes(edit, base)


def _apply_changes(edit: Edit, base: ProposedTask) -> ProposedTask:
    body = edit.body
    new_state = edit.initial_id is not None and edit.initial_id != base.revision.scenario.initial_id
    reference = read_drafted_reference(edit) if "reference" in body else base.reference
    new_reference = "reference" in body and reference != base.reference
    new_frame = base.frame is not None and reference is not None and (new_state or new_reference)
    record = build_task_record(base.revision, base.frame, find_changes(edit, base.revision, new_state))
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


def find_changes(edit: Edit, revision: TaskRevision, new_state: bool) -> RevisionChanges:
    """Return the changes of a draft to a task's revision; parts equal to the present ones are None."""
    body, form_now, expected_now = edit.body, *read_form_and_expected(revision)
    instruction = body.get("instruction")
    if instruction is not None and instruction == revision.instruction:
        instruction = None
    checks = None
    if "checks" in body and get_drafted_kind(body, revision) == "checks":
        drafted = drop_field_checks(
            [CheckRecord(label=one["label"], source=one["source"]) for one in body["checks"]], form_now, expected_now
        )
        checks = drafted if drafted != list_own_checks(revision) else None
    criteria = None
    if "criteria" in body and body["criteria"] != format_criteria(revision):
        criteria = tuple(map(read_criterion_line, body["criteria"]))
    form, expected = read_drafted_form(body, form_now, expected_now)
    return RevisionChanges(
        title=body.get("title"),
        instruction=instruction,
        checks=checks,
        criteria=criteria,
        verifier=build_drafted_verifier(body, revision),
        answer_form=form if form != form_now else None,
        expected_answer=expected if expected != expected_now else None,
        state_changes=new_state,
    )


def get_base_parts(edit: Edit) -> dict[str, Any]:
    """Return the parts of the task that a draft is based on, as a draft's body holds them."""
    revision, task = edit.revision, edit.task
    if revision is None or task is None:
        return {}
    base_parts = {"title": edit.base_title or task.title, "reference": serialize_reference(edit.reference)}
    return {**base_parts, **serialize_parts(revision), "verifier": serialize_verifier_part(revision)}


def serialize_parts(revision: TaskRevision) -> dict[str, Any]:
    """Return the instruction of a revision and the parts of its verifier, as a draft's body holds them."""
    form, expected = read_form_and_expected(revision)
    return {
        "instruction": revision.instruction,
        "checks": [{"label": check.label, "source": check.source} for check in list_own_checks(revision)],
        "criteria": format_criteria(revision),
        **({"equality": equality} if (equality := read_equality(revision)) else {}),
        "answer_form": serialize_form(form, {}).get("answer_form", []),
        "expected_answer": expected,
    }


def format_criteria(revision: TaskRevision) -> list[str]:
    """Return the criteria of a revision as a draft's body holds them, one line each."""
    return [format_criterion_line(one) for one in read_criteria(revision.criteria)]


def serialize_reference(row: TaskReference | None) -> dict[str, Any] | None:
    """Return a stored reference as a draft's body holds it."""
    if row is None:
        return None
    reference = to_reference(row)
    return {"calls": [call.model_dump() for call in reference.calls], "answer": reference.answer}


def keep_changed_parts(edit: Edit, body: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a body that differ from the base of the draft.

    A form sends all parts, and those that the person did not change must not revert what another person saves
    meanwhile.
    """
    base_parts = get_base_parts(edit)
    return {
        name: value
        for name, value in body.items()
        if name not in base_parts or _normalize_typed(value) != _normalize_typed(base_parts[name])
    }


def merge_checks(before: list[Any], mine: list[Any], now: list[Any]) -> list[Any]:
    """Merge the checks of a draft with the current ones: checks that the draft did not change are the current ones.

    A draft that added or removed checks keeps its own.
    """
    if not len(before) == len(mine) == len(now):
        return mine
    return [
        new if _normalize_typed(own) == _normalize_typed(old) else own
        for old, own, new in zip(before, mine, now, strict=True)
    ]


def _normalize_typed(value: Any) -> Any:
    """Return a part as it comes back from a form: cleaned, without surrounding whitespace."""
    if isinstance(value, str):
        return clean_text(value).replace("\r\n", "\n").strip()
    if isinstance(value, dict):
        return {name: _normalize_typed(inner) for name, inner in value.items()}
    return [_normalize_typed(inner) for inner in value] if isinstance(value, list) else value


def has_changes(edit: Edit) -> bool:
    """Return whether a draft differs from its base."""
    if edit.kind == EditKind.PROGRAM:
        try:
            return build_drafted_source(edit) != edit.version.source
        except ProgramError:
            return True
    if edit.revision is None or edit.task is None:
        return False
    new_state = edit.initial_id is not None and edit.initial_id != edit.revision.scenario.initial_id
    try:
        changes = find_changes(edit, edit.revision, new_state)
    except FormatError:
        return True
    if (
        new_state
        or changes.has_verifier_changes
        or any(part is not None for part in (changes.instruction, changes.criteria))
    ):
        return True
    base_reference = to_reference(edit.reference) if edit.reference is not None else None
    renamed = changes.title is not None and changes.title != (edit.base_title or edit.task.title)
    return renamed or ("reference" in edit.body and read_drafted_reference(edit) != base_reference)


def read_drafted_reference(edit: Edit) -> Reference | None:
    """Return the calls and the answer that a draft names; None if it removes the reference."""
    drafted = edit.body.get("reference")
    if drafted is None:
        return None
    calls = tuple(ReferenceCall(tool=call["tool"], arguments=call["arguments"]) for call in drafted["calls"])
    return Reference(calls=calls, answer=drafted["answer"])
