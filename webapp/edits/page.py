"""Contexts of the pages of edits: the draft, its changes, its cases, its forecast."""

from __future__ import annotations

import json
from typing import Any

from synthesis.contracts import CheckRecord, GoldenVerifier
from synthesis.errors import FormatError, ProgramError
from synthesis.formats.answer_form import build_field_checks
from synthesis.formats.criteria import format_criterion_line
from webapp.common.content_store import load_value
from webapp.edits.answer_forms.form_parts import read_drafted_form
from webapp.edits.answer_forms.form_rows import MOST_ROWS, TYPE_WORDS, list_rows
from webapp.edits.case_runs import find_assessment, list_cases, load_person_verdicts
from webapp.edits.draft_problems import list_draft_problems
from webapp.edits.forecasts import is_forecast_valid
from webapp.edits.models import Approval, Edit, EditKind, EditState, Forecast
from webapp.edits.proposals import (
    build_drafted_source,
    find_changes,
    format_criteria,
    get_base_parts,
    get_editable_source,
    serialize_reference,
)
from webapp.edits.services import (
    FORECAST_JOB,
    SAVE_JOB,
    can_change_draft,
    find_newest_forecast,
    get_job_subject,
    is_stale,
)
from webapp.edits.verifier_part import (
    EDITABLE,
    format_drafted_texts,
    get_drafted_kind,
    list_broken_checks,
    list_script_faults,
    read_equality,
    serialize_verifier_part,
)
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import find_default_model
from webapp.environments.case_groups import find_cited_lines
from webapp.environments.models import Tool
from webapp.environments.text_difference import DiffBudget
from webapp.environments.version_diff import DiffPart, build_diff_part, map_moved_lines
from webapp.jobs.models import JobState
from webapp.jobs.queries import find_open_job, list_subject_jobs
from webapp.review.assignments import find_hold
from webapp.review.models import Assignment
from webapp.scenarios.answers.answer_form import format_form_parts, read_form_and_expected
from webapp.scenarios.golden.page import EQUALITIES
from webapp.scenarios.models import StateBody, Task, TaskRevision
from webapp.scenarios.references import find_reference
from webapp.scenarios.revision_record import RevisionChanges, list_own_checks
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import VERIFIER_NAMES, VERIFIER_TITLES
from webapp.scenarios.verifiers.verifier_texts import format_verifier_texts, pair_texts

STATE_SHOWN = 200_000
"""Of a state as JSON that is typed in a page."""
CASES_SHOWN = 30
LINES_SHOWN = 30
TASKS_SHOWN = 200
"""Number of tasks that are listed under each heading; the others are counted."""


def build_edit_context(user: Any, edit: Edit, *, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """Build the context of every page of a draft; `given` is what was just sent and refused."""
    context: dict[str, Any] = {
        "edit": edit,
        "environment": edit.environment,
        "may_change": can_change_draft(user, edit),
        "is_author": edit.author_id == user.pk,
        "stale": edit.state == EditState.DRAFT and is_stale(edit),
        "changed": bool(edit.body) or edit.initial_id is not None,
        "save_job": find_open_job(SAVE_JOB, get_job_subject(edit)),
        "forecast_job": find_open_job(FORECAST_JOB, get_job_subject(edit)),
        "why": given.get("why", edit.why) if given else edit.why,
        "typed": bool(given),
    }
    context["hold"] = _find_hold(user, edit)
    last = list_subject_jobs(SAVE_JOB, get_job_subject(edit)).first() if edit.state == EditState.DRAFT else None
    failed = last is not None and last.state == JobState.FAILED
    # The reason of the failure applies only to the draft with that serial.
    context["last_save"] = last if last is not None and failed and last.payload.get("serial") == edit.serial else None
    forecast = find_newest_forecast(edit)
    context |= {"forecast": forecast, "forecast_holds": _is_valid_or_closed(forecast, edit)}
    more = build_program_context(edit, given) if edit.kind == EditKind.PROGRAM else build_task_context(edit, given)
    return context | more


def _find_hold(user: Any, edit: Edit) -> Assignment | None:
    """Return the person's hold of the changed object, to lead back to its item and to count the time spent here."""
    if edit.kind == EditKind.TASK:
        lookups: dict[str, Any] = {"item__task": edit.task_id}
    elif edit.tool:
        lookups = {"item__tool__version": edit.version_id, "item__tool__name": edit.tool}
    else:
        return None
    return find_hold(user, **lookups)


OTHERS_SHOWN = 20


def list_other_drafts(edit: Edit) -> list[Edit]:
    """Return the other open drafts of the same tool, program or task, by people and models, newest first."""
    rows = Edit.objects.filter(
        state=EditState.DRAFT, kind=edit.kind, environment=edit.environment_id, tool=edit.tool, task=edit.task_id
    )
    return list(rows.exclude(pk=edit.pk).select_related("author", "version").order_by("-id")[:OTHERS_SHOWN])


def build_draft_diff(edit: Edit, other: Edit) -> DiffPart | None:
    """Return the difference of a draft of a program from another one; None if one of them cannot be read."""
    try:
        return build_diff_part(
            f"From edit {other.pk} to this one", build_drafted_source(other), build_drafted_source(edit)
        )
    except ProgramError:
        return None


def _is_valid_or_closed(forecast: Forecast | None, edit: Edit) -> bool:
    if edit.state != EditState.DRAFT:
        return forecast is not None
    return is_forecast_valid(forecast, edit)


def build_program_context(edit: Edit, given: dict[str, Any] | None) -> dict[str, Any]:
    """Build the context of a program or tool: its text, its first line, its changes, and its faults."""
    name = "tool_source" if edit.tool else "source"
    try:
        base, first = get_editable_source(edit.version, edit.tool)
        draft = build_drafted_source(edit)
    except ProgramError as error:
        return {"field": name, "text": edit.body.get(name, ""), "problems": (str(error),), "parts": [], "first": 1}
    text = given.get(name) if given else edit.body.get(name)
    tool = Tool.objects.filter(version=edit.version_id, name=edit.tool).first() if edit.tool else None
    assessment = find_assessment(edit.version)
    people = load_person_verdicts(assessment.version_id if assessment is not None else 0, edit.tool)
    reasons: list[str] = []
    if assessment is not None and edit.tool:
        failing = assessment.cases.filter(tool=edit.tool).exclude(verdict="pass")
        reasons = list(failing.values_list("reason", flat=True)[:50])
    changed: list[DiffPart] = (
        [build_diff_part("Program", edit.version.source, draft)] if draft != edit.version.source else []
    )
    cited = sorted(find_cited_lines(reasons, base, first))
    return {
        "field": name,
        "text": base if text is None else text,
        "first": first,
        "tool_row": tool,
        "has_author": find_default_model(LLMRole.AUTHOR) is not None,
        "assessment": assessment,
        "failing_cases": list_cases(assessment, edit.tool, people, failing=True)[:CASES_SHOWN],
        "cited": cited,
        "marked": map_moved_lines(changed[0], cited) if changed else cited,
        "problems": list_draft_problems(edit) if edit.body else (),
        "parts": changed,
        "others": list_other_drafts(edit),
        "rules": edit.version.rules,
    }


def build_task_context(edit: Edit, given: dict[str, Any] | None) -> dict[str, Any]:
    """Build the context of a task: its parts as the draft has them, and the changes."""
    revision, task = edit.revision, edit.task
    if revision is None or task is None:
        return {}
    body = {**edit.body, **(given or {})}
    base_parts = get_base_parts(edit)
    drafted_reference = body.get("reference", base_parts["reference"])
    state = load_state(edit.initial_id or revision.scenario.initial_id)
    text = given.get("state_text") if given else None
    if text is None:
        text = json.dumps(state, indent=1, ensure_ascii=False)
    calls = json.dumps(drafted_reference["calls"] if drafted_reference else [], indent=1, ensure_ascii=False)
    rows = body.get("form_rows")
    if rows is None:
        rows = list_rows(*(body.get(name, base_parts[name]) for name in ("answer_form", "expected_answer")))
    return {
        "task": task,
        "revision": revision,
        **{name: body.get(name, base_parts[name]) for name in ("title", "instruction", "checks", "criteria")},
        **_build_verifier_context(revision, body),
        "equalities": [(name, *words) for name, words in EQUALITIES.items()],
        "equality": body.get("equality", read_equality(revision)),
        "form_rows": rows if len(rows) <= MOST_ROWS else None,
        "form_types": list(TYPE_WORDS.items()),
        "form_checks": _list_form_checks(edit, body),
        "state_text": text if len(text) <= STATE_SHOWN else None,
        "calls_text": body.get("calls_text", calls),
        "answer": body.get("answer", drafted_reference["answer"] if drafted_reference else ""),
        "no_reference": drafted_reference is None,
        "problems": list_draft_problems(edit),
        "broken_checks": list_broken_checks(edit.body, revision),
        "parts": build_task_diffs(edit, task),
        "others": list_other_drafts(edit),
    }


def _list_drafted_checks(edit: Edit, revision: TaskRevision, changes: RevisionChanges) -> tuple[CheckRecord, ...]:
    """Return the checks that people wrote, of a draft that changes them or the verifier."""
    if get_drafted_kind(edit.body, revision) != "checks":
        return ()
    return changes.checks if changes.checks is not None else list_own_checks(revision)


def _build_verifier_context(revision: TaskRevision, body: dict[str, Any]) -> dict[str, Any]:
    """Build the context of the drafted verifier: its kind, the kinds to choose from, and the faults of a script."""
    standing = serialize_verifier_part(revision)
    verifier = body.get("verifier", standing)
    if "source" not in verifier and standing["kind"] == "script":  # kept to be chosen again
        verifier = {**standing, **verifier}
    is_editable = revision.verifier_kind in EDITABLE and "revision" not in verifier
    return {
        "verifier": verifier,
        "verifier_name": VERIFIER_NAMES.get(verifier["kind"], ""),
        "assertions_text": "\n".join(verifier.get("assertions", ())),
        "verifier_choices": [(kind, VERIFIER_TITLES[kind]) for kind in EDITABLE] if is_editable else [],
        "script_faults": list_script_faults(verifier) if verifier["kind"] == "script" and is_editable else None,
    }


def build_task_diffs(edit: Edit, task: Task) -> list[DiffPart]:
    """Return the changes of a draft of a task, part by part."""
    revision = edit.revision
    if revision is None:
        return []
    new_state = edit.initial_id is not None and edit.initial_id != revision.scenario.initial_id
    changes = find_changes(edit, revision, new_state)
    budget = DiffBudget()
    parts: list[DiffPart] = []
    title = edit.base_title or task.title
    if changes.title is not None and changes.title != title:
        parts.append(build_diff_part("Title", title, changes.title, budget))
    if changes.instruction is not None:
        parts.append(build_diff_part("Instruction", revision.instruction, changes.instruction, budget))
    if new_state and edit.initial_id:
        before, after = load_state(revision.scenario.initial_id), load_value(StateBody, edit.initial_id)
        parts.append(build_diff_part("Initial state", _format_json(before), _format_json(after), budget))
    form, expected = read_form_and_expected(revision)
    new_form = form if changes.answer_form is None else changes.answer_form
    values = expected if changes.expected_answer is None else changes.expected_answer
    parts += [build_diff_part(*texts, budget) for texts in format_form_parts((form, expected), (new_form, values))]
    if isinstance(changes.verifier, GoldenVerifier) and "verifier" not in edit.body:
        old, new = (EQUALITIES[name][0] for name in (read_equality(revision), changes.verifier.equality))
        parts.append(build_diff_part("Golden state", old, new, budget))
    elif changes.verifier is not None:
        texts = format_verifier_texts(revision), format_drafted_texts(edit.body["verifier"], changes.verifier)
        parts += [build_diff_part(*three, budget) for three in pair_texts(*texts)]
    if changes.checks is not None or changes.verifier is not None:
        now = [(row.label, row.source) for row in list_own_checks(revision)]
        then = [(check.label, check.source) for check in _list_drafted_checks(edit, revision, changes)]
        for number in range(max(len(now), len(then))):
            old, new = (_format_check(side[number]) if number < len(side) else "" for side in (now, then))
            if old != new:
                parts.append(build_diff_part(f"Check {number + 1}", old, new, budget))
    if changes.criteria is not None:
        base_criteria = format_criteria(revision)
        parts.append(
            build_diff_part(
                "Criteria", "\n".join(base_criteria), "\n".join(map(format_criterion_line, changes.criteria)), budget
            )
        )
    if "reference" in edit.body:
        parts += build_reference_diffs(serialize_reference(find_reference(revision)), edit.body["reference"], budget)
    return [one for one in parts if one.rows or one.note]


def _list_form_checks(edit: Edit, body: dict[str, Any]) -> list[str]:
    """Return the labels of the checks that the draft's form makes; none as long as it is wrong."""
    if edit.revision is None:
        return []
    try:
        form = read_drafted_form(body, *read_form_and_expected(edit.revision))
    except FormatError:
        return []
    return [check.label for check in build_field_checks(*form)]


def build_reference_diffs(
    before: dict[str, Any] | None, after: dict[str, Any] | None, budget: DiffBudget | None = None
) -> list[DiffPart]:
    """Return the difference of a reference from another one; empty if there is none."""
    return [build_diff_part("Reference", _format_json(before), _format_json(after), budget)] if before != after else []


def _format_check(pair: tuple[str, str]) -> str:
    return f"# {pair[0]}\n{pair[1]}"


def _format_json(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=1, ensure_ascii=False)


def build_forecast_context(forecast: Forecast) -> dict[str, Any]:
    """Build the context of a forecast: attempts that flip, audits that change, approvals, datasets and training
    jobs."""
    rows = forecast.lines.select_related("task", "revision").defer("audit", "revision__record", "task__words")
    lines = list(rows.prefetch_related("runs").order_by("-flips_down", "-flips_up", "task_id"))
    moved = [(line, list(line.runs.all())) for line in lines]
    audits = [line for line in lines if line.audit_after != line.audit_before]
    return {
        "lines": [(line, runs[:LINES_SHOWN], max(0, len(runs) - LINES_SHOWN)) for line, runs in moved if runs][
            :TASKS_SHOWN
        ],
        "more_tasks": max(0, sum(bool(runs) for _, runs in moved) - TASKS_SHOWN),
        "most": f":{TASKS_SHOWN}",
        "flips": sum(line.flips_up + line.flips_down for line in lines),
        "up": sum(line.flips_up for line in lines),
        "down": sum(line.flips_down for line in lines),
        "unknown": sum(1 for _, runs in moved for run in runs if run.after is None),
        "audits": audits,
        "carries": [line for line in lines if line.approved and line.approval == Approval.CARRIES],
        "reopens": [line for line in lines if line.approved and line.approval == Approval.REOPENS],
        "undecided": [line for line in lines if not line.approved and line.approval == Approval.REOPENS],
        "datasets": forecast.facts.get("datasets", {}).get("found", []),
        "not_looked_at": forecast.facts.get("datasets", {}).get("not_looked_at", 0),
        "findings": forecast.facts.get("findings", []),
        "jobs": sum(one["job_count"] for one in forecast.facts.get("datasets", {}).get("found", [])),
    }
