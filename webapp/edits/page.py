"""Contexts of the pages of edits: the draft, what it changes, its cases, its forecast."""

from __future__ import annotations

import json
from typing import Any

from synthesis.contracts import CheckRecord, GoldenVerifier
from synthesis.errors import FormatError, ProgramError
from synthesis.formats.answer_form import field_checks
from synthesis.formats.criteria import criterion_line
from webapp.content_store import load
from webapp.edits.answer_forms.form_parts import drafted_form
from webapp.edits.answer_forms.form_rows import MOST_ROWS, TYPE_WORDS, list_rows
from webapp.edits.case_runs import assessment_of, cases_of, people_of
from webapp.edits.forecasts import holds
from webapp.edits.models import Approval, Edit, EditKind, EditState, Forecast
from webapp.edits.proposals import (
    changes_of,
    drafted_source,
    editable_source,
    reading,
    spell_criteria,
    spelled_reference,
    standing_parts,
)
from webapp.edits.services import FORECAST_JOB, SAVE_JOB, is_stale, may_change, newest_forecast, subject_of
from webapp.edits.verifier_part import (
    EDITABLE,
    drafted_kind,
    list_script_faults,
    read_equality,
    spell_drafted_texts,
    spell_verifier,
)
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import default_of
from webapp.environments.case_groups import cited_lines
from webapp.environments.models import Tool
from webapp.environments.text_difference import DiffBudget
from webapp.environments.version_diff import DiffPart, moved_lines, part
from webapp.jobs.models import JobState
from webapp.jobs.queries import of_subject, open_of
from webapp.review.assignments import find_hold
from webapp.review.models import Assignment
from webapp.scenarios.answers.answer_form import read_form_and_expected, spell_form_parts
from webapp.scenarios.golden.page import EQUALITIES
from webapp.scenarios.models import StateBody, Task, TaskRevision
from webapp.scenarios.references import reference_of
from webapp.scenarios.revision_record import RevisionChanges, own_checks
from webapp.scenarios.states import load_state
from webapp.scenarios.verifier_texts import pair_texts, spell_verifier_texts
from webapp.scenarios.verifiers import VERIFIER_NAMES, VERIFIER_TITLES

STATE_SHOWN = 200_000
"""Of a state as JSON that is typed in a page."""
CASES_SHOWN = 30
LINES_SHOWN = 30
TASKS_SHOWN = 200
"""So many tasks are listed under each heading; the others are counted."""


def edit_context(user: Any, edit: Edit, *, given: dict[str, Any] | None = None) -> dict[str, Any]:
    """What every page of a draft shows; `given` is what was just sent and not taken."""
    context: dict[str, Any] = {
        "edit": edit,
        "environment": edit.environment,
        "may_change": may_change(user, edit),
        "is_author": edit.author_id == user.pk,
        "stale": edit.state == EditState.DRAFT and is_stale(edit),
        "changed": bool(edit.body) or edit.initial_id is not None,
        "save_job": open_of(SAVE_JOB, subject_of(edit)),
        "forecast_job": open_of(FORECAST_JOB, subject_of(edit)),
        "why": given.get("why", edit.why) if given else edit.why,
        "typed": bool(given),
    }
    context["hold"] = _find_hold(user, edit)
    last = of_subject(SAVE_JOB, subject_of(edit)).first() if edit.state == EditState.DRAFT else None
    failed = last is not None and last.state == JobState.FAILED
    # Why it failed holds for the draft as it was then.
    context["last_save"] = last if last is not None and failed and last.payload.get("serial") == edit.serial else None
    forecast = newest_forecast(edit)
    context |= {"forecast": forecast, "forecast_holds": _holds(forecast, edit)}
    more = program_context(edit, given) if edit.kind == EditKind.PROGRAM else task_context(edit, given)
    return context | more


def _find_hold(user: Any, edit: Edit) -> Assignment | None:
    """The person's hold of what the draft changes, to lead back to its item and to count the time spent here."""
    if edit.kind == EditKind.TASK:
        about: dict[str, Any] = {"item__task": edit.task_id}
    elif edit.tool:
        about = {"item__tool__version": edit.version_id, "item__tool__name": edit.tool}
    else:
        return None
    return find_hold(user, **about)


OTHERS_SHOWN = 20


def others_of(edit: Edit) -> list[Edit]:
    """The other open drafts of the same tool, program or task, newest first: people's and models'."""
    rows = Edit.objects.filter(
        state=EditState.DRAFT, kind=edit.kind, environment=edit.environment_id, tool=edit.tool, task=edit.task_id
    )
    return list(rows.exclude(pk=edit.pk).select_related("author", "version").order_by("-id")[:OTHERS_SHOWN])


def against(edit: Edit, other: Edit) -> DiffPart | None:
    """How a draft of a program differs from another one; None where one of them cannot be read."""
    try:
        return part(f"From edit {other.pk} to this one", drafted_source(other), drafted_source(edit))
    except ProgramError:
        return None


def _holds(forecast: Forecast | None, edit: Edit) -> bool:
    if edit.state != EditState.DRAFT:
        return forecast is not None
    return holds(forecast, edit)


def program_context(edit: Edit, given: dict[str, Any] | None) -> dict[str, Any]:
    """The text of a program or tool, where it begins, what it changes, and what is wrong with it."""
    name = "tool_source" if edit.tool else "source"
    try:
        base, first = editable_source(edit.version, edit.tool)
        draft = drafted_source(edit)
    except ProgramError as error:
        return {"field": name, "text": edit.body.get(name, ""), "problems": (str(error),), "parts": [], "first": 1}
    text = given.get(name) if given else edit.body.get(name)
    tool = Tool.objects.filter(version=edit.version_id, name=edit.tool).first() if edit.tool else None
    assessment = assessment_of(edit.version)
    people = people_of(assessment.version_id if assessment is not None else 0, edit.tool)
    reasons: list[str] = []
    if assessment is not None and edit.tool:
        failing = assessment.cases.filter(tool=edit.tool).exclude(verdict="pass")
        reasons = list(failing.values_list("reason", flat=True)[:50])
    changed: list[DiffPart] = [part("Program", edit.version.source, draft)] if draft != edit.version.source else []
    cited = sorted(cited_lines(reasons, base, first))
    return {
        "field": name,
        "text": base if text is None else text,
        "first": first,
        "tool_row": tool,
        "has_author": default_of(LLMRole.AUTHOR) is not None,
        "assessment": assessment,
        "failing_cases": cases_of(assessment, edit.tool, people, failing=True)[:CASES_SHOWN],
        "cited": cited,
        "marked": moved_lines(changed[0], cited) if changed else cited,
        "problems": reading(edit) if edit.body else (),
        "parts": changed,
        "others": others_of(edit),
        "rules": edit.version.rules,
    }


def task_context(edit: Edit, given: dict[str, Any] | None) -> dict[str, Any]:
    """The parts of a task as the draft has them, and what it changes."""
    revision, task = edit.revision, edit.task
    if revision is None or task is None:
        return {}
    body = {**edit.body, **(given or {})}
    stands = standing_parts(edit)
    told = body.get("reference", stands["reference"])
    state = load_state(edit.initial_id or revision.scenario.initial_id)
    text = given.get("state_text") if given else None
    if text is None:
        text = json.dumps(state, indent=1, ensure_ascii=False)
    calls = json.dumps(told["calls"] if told else [], indent=1, ensure_ascii=False)
    rows = body.get("form_rows")
    if rows is None:
        rows = list_rows(*(body.get(name, stands[name]) for name in ("answer_form", "expected_answer")))
    return {
        "task": task,
        "revision": revision,
        **{name: body.get(name, stands[name]) for name in ("title", "instruction", "checks", "criteria")},
        **_verifier_context(revision, body),
        "equalities": [(name, *words) for name, words in EQUALITIES.items()],
        "equality": body.get("equality", read_equality(revision)),
        "form_rows": rows if len(rows) <= MOST_ROWS else None,
        "form_types": list(TYPE_WORDS.items()),
        "form_checks": _form_checks(edit, body),
        "state_text": text if len(text) <= STATE_SHOWN else None,
        "calls_text": body.get("calls_text", calls),
        "answer": body.get("answer", told["answer"] if told else ""),
        "no_reference": told is None,
        "problems": reading(edit),
        "parts": task_parts(edit, task),
        "others": others_of(edit),
    }


def _drafted_checks(edit: Edit, revision: TaskRevision, changes: RevisionChanges) -> tuple[CheckRecord, ...]:
    """The checks that people wrote of a draft that changes them, or what judges."""
    if drafted_kind(edit.body, revision) != "checks":
        return ()
    return changes.checks if changes.checks is not None else own_checks(revision)


def _verifier_context(revision: TaskRevision, body: dict[str, Any]) -> dict[str, Any]:
    """The verifier as the draft has it: its kind, the kinds to choose from, and what is wrong with a script."""
    standing = spell_verifier(revision)
    verifier = body.get("verifier", standing)
    if "source" not in verifier and standing["kind"] == "script":  # to be chosen again
        verifier = {**standing, **verifier}
    is_editable = revision.verifier_kind in EDITABLE and "revision" not in verifier
    return {
        "verifier": verifier,
        "verifier_name": VERIFIER_NAMES.get(verifier["kind"], ""),
        "assertions_text": "\n".join(verifier.get("assertions", ())),
        "verifier_choices": [(kind, VERIFIER_TITLES[kind]) for kind in EDITABLE] if is_editable else [],
        "script_faults": list_script_faults(verifier) if verifier["kind"] == "script" and is_editable else {},
    }


def task_parts(edit: Edit, task: Task) -> list[DiffPart]:
    """What a draft of a task changes, part by part."""
    revision = edit.revision
    if revision is None:
        return []
    new_state = edit.initial_id is not None and edit.initial_id != revision.scenario.initial_id
    changes = changes_of(edit, revision, new_state)
    budget = DiffBudget()
    parts: list[DiffPart] = []
    title = edit.base_title or task.title
    if changes.title is not None and changes.title != title:
        parts.append(part("Title", title, changes.title, budget))
    if changes.instruction is not None:
        parts.append(part("Instruction", revision.instruction, changes.instruction, budget))
    if new_state and edit.initial_id:
        before, after = load_state(revision.scenario.initial_id), load(StateBody, edit.initial_id)
        parts.append(part("Initial state", _lines(before), _lines(after), budget))
    form, expected = read_form_and_expected(revision)
    made = form if changes.answer_form is None else changes.answer_form
    values = expected if changes.expected_answer is None else changes.expected_answer
    parts += [part(*texts, budget) for texts in spell_form_parts((form, expected), (made, values))]
    if isinstance(changes.verifier, GoldenVerifier) and "verifier" not in edit.body:
        old, new = (EQUALITIES[name][0] for name in (read_equality(revision), changes.verifier.equality))
        parts.append(part("Golden state", old, new, budget))
    elif changes.verifier is not None:
        texts = spell_verifier_texts(revision), spell_drafted_texts(edit.body["verifier"], changes.verifier)
        parts += [part(*three, budget) for three in pair_texts(*texts)]
    if changes.checks is not None or changes.verifier is not None:
        now = [(row.label, row.source) for row in own_checks(revision)]
        then = [(check.label, check.source) for check in _drafted_checks(edit, revision, changes)]
        for number in range(max(len(now), len(then))):
            old, new = (_check(side[number]) if number < len(side) else "" for side in (now, then))
            if old != new:
                parts.append(part(f"Check {number + 1}", old, new, budget))
    if changes.criteria is not None:
        stands = spell_criteria(revision)
        parts.append(part("Criteria", "\n".join(stands), "\n".join(map(criterion_line, changes.criteria)), budget))
    if "reference" in edit.body:
        parts += reference_part(spelled_reference(reference_of(revision)), edit.body["reference"], budget)
    return [one for one in parts if one.rows or one.note]


def _form_checks(edit: Edit, body: dict[str, Any]) -> list[str]:
    """The labels of the checks that the draft's form makes; none as long as it is wrong."""
    if edit.revision is None:
        return []
    try:
        form = drafted_form(body, *read_form_and_expected(edit.revision))
    except FormatError:
        return []
    return [check.label for check in field_checks(*form)]


def reference_part(
    before: dict[str, Any] | None, after: dict[str, Any] | None, budget: DiffBudget | None = None
) -> list[DiffPart]:
    """How a reference differs from another one; nothing where it does not."""
    return [part("Reference", _lines(before), _lines(after), budget)] if before != after else []


def _check(pair: tuple[str, str]) -> str:
    return f"# {pair[0]}\n{pair[1]}"


def _lines(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=1, ensure_ascii=False)


def forecast_context(forecast: Forecast) -> dict[str, Any]:
    """The page "what saving would do": attempts that flip, audits that change, approvals, and what stands on it."""
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
