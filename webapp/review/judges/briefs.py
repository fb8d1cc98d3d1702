"""Text about an object for a judge: bounded, with everything that the object's page shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synthesis.assessment.case_words import format_case
from synthesis.assessment.prompt_values import format_value
from synthesis.assessment.review_judge import OfferedCode, ReviewBrief
from synthesis.formats.criteria import format_criterion_line
from synthesis.runtime import make_patch
from webapp.environments.models import Assessment, Tool, ToolCase
from webapp.review.models import ReviewKind, ReviewQueue
from webapp.review.verdicts import REASONS, VERDICTS
from webapp.scenarios.audits.page import describe_verdict, revision_audits
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import find_reference
from webapp.scenarios.states import load_state
from webapp.scenarios.verifiers import read_criteria
from webapp.trajectories.failure_reason import attach_reasons
from webapp.trajectories.models import CallBy, Score, StepKind, Trajectory

WHAT = {ReviewKind.TASK: "a task", ReviewKind.TOOL: "a tool", ReviewKind.TRAJECTORY: "an agent's attempt at a task"}
OBJECT_CHARS = 60_000
STATE_CHARS = 16_000
SCRIPT_CHARS = 20_000
PART_CHARS = 2_000
CASE_CHARS = 600
STEP_COLUMNS = ("index", "kind", "tool", "arguments", "result", "recorded", "content", "injected", "by")
MOST_CHECKS, MOST_STEPS, MOST_CASES, MOST_ATTEMPTS = 60, 60, 30, 8


def build_brief(queue: ReviewQueue, subject: Task | Tool | Trajectory) -> ReviewBrief:
    """Return the question about one object of a queue."""
    verdicts = tuple(
        OfferedCode(code=one.code, words=f"{one.label}, {one.hint}", needs_reason=one.needs_reason)
        for one in VERDICTS[queue.kind]
    )
    reasons = tuple(OfferedCode(code=one.code, words=one.label) for one in REASONS[queue.kind])
    if isinstance(subject, Task):
        text = _describe_task(subject)
    else:
        text = _describe_tool(subject) if isinstance(subject, Tool) else _describe_trajectory(subject)
    return ReviewBrief(
        what=WHAT[ReviewKind(queue.kind)], object=text[:OBJECT_CHARS], guideline=queue.guideline, verdicts=verdicts,
        reasons=reasons,
    )  # fmt: skip


def _describe_task(task: Task) -> str:
    revision = task.current
    if revision is None:
        return "It has a name but no content."
    audit = revision_audits(revision).defer("probes").first()
    reference = find_reference(revision)
    parts = [
        f"Environment: {task.environment.name}",
        "Rules:\n" + _format_rules(revision.scenario.version.rules),
        f"Instruction:\n{revision.instruction}",
        f"Initial state:\n{format_value(load_state(revision.scenario.initial_id), STATE_CHARS)}",
    ]
    parts += _describe_verifier(revision)
    if reference is not None:
        calls = "\n".join(f"{call['tool']}({format_value(call['arguments'], PART_CHARS)})" for call in reference.calls)
        parts.append(f"Reference, a way that is known to solve it:\n{calls}\nanswer: {reference.answer}")
    if audit is not None:
        parts.append(f"Audit of its verifier: {audit.state}. {describe_verdict(audit, list(audit.faults.all()[:10]))}")
    rows = list(Trajectory.objects.filter(task=task, revision=revision, live=False).order_by("-id")[:MOST_ATTEMPTS])
    attach_reasons(rows)
    parts += [f"Attempt by {row.policy}: {row.outcome}, reward {row.reward}. {_get_reason(row)}" for row in rows]
    return "\n\n".join(parts)


def _describe_verifier(revision: TaskRevision) -> list[str]:
    """Return the task's verifier as text: a script whole, a golden state by its changes, checks, criteria."""
    rows = list(revision.checks.order_by("position")[:MOST_CHECKS])
    if revision.verifier_kind == "rubric":
        criteria = enumerate(read_criteria(revision.criteria), 1)
        lines = [f"Criterion {number}: {format_criterion_line(criterion)}" for number, criterion in criteria]
        return ["Its verifier is a rubric: the reward is 1 if all criteria are met, else 0.", *lines]
    if revision.verifier_kind == "script":
        source = (revision.verifier or {}).get("source", "")[:SCRIPT_CHARS]
        lines = [f"Assertion {row.position + 1} ({row.mark}): {row.label}" for row in rows]
        return [f"Its verifier is a script: the reward is 1 if all assertions hold, else 0.\n{source}", *lines]
    checks = [f"Check {row.position + 1} ({row.mark}): {row.label}\n{row.source[:PART_CHARS]}" for row in rows]
    return [*_describe_golden_state(revision), *checks] if revision.golden_id is not None else checks


def _describe_golden_state(revision: TaskRevision) -> list[str]:
    """Return the golden state in short: the changes of a right end, and the places that may differ."""
    parts = revision.verifier or {}
    start, end = load_state(revision.scenario.initial_id), load_state(revision.golden_id or "")
    changes = format_value(make_patch(start, end), STATE_CHARS)
    volatile = "\n".join(f"- {one['path']} ({one['role']})" for one in parts.get("volatile", ())[:MOST_CHECKS])
    return [
        f"Its verifier is a golden state: the reward is 1 if the end equals it, else 0.\nIt changes:\n{changes}",
        f"These places may differ from it:\n{volatile}" if volatile else "No place may differ from it.",
    ]


def _describe_tool(tool: Tool) -> str:
    version = tool.version
    newest = Assessment.objects.filter(version=version).order_by("-id").first()
    cases = ToolCase.objects.filter(assessment=newest, tool=tool.name).exclude(verdict="pass").order_by("position")
    case_texts = [f"Case {row.position + 1}\n{format_case(row, CASE_CHARS)}" for row in cases[:MOST_CASES]]
    rules = "Rules:\n" + _format_rules(version.rules)
    return "\n\n".join(
        [f"Tool {tool.name}: {tool.description}", rules, f"Program:\n{version.source[:40_000]}", *case_texts]
    )


def _describe_trajectory(row: Trajectory) -> str:
    score = Score.objects.filter(trajectory=row).exclude(source="recorded").order_by("-id").first()
    verdicts = score.verdicts if score is not None else []
    labels = list(row.revision.checks.order_by("position").values_list("label", "mark")) if row.revision else []
    checks = [
        f"Check {number} ({mark}): {label}: {'holds' if verdict.get('passed') else 'does not hold'}"
        for number, ((label, mark), verdict) in enumerate(zip(labels, verdicts, strict=False), 1)
    ]
    steps = row.steps.order_by("index").values(*STEP_COLUMNS)[:MOST_STEPS]
    step_texts = [_format_step(step) for step in steps]
    head = [f"Recorded elsewhere, without an environment: {row.title}. Nothing was executed or judged."]
    if row.revision is not None:
        head = [f"Instruction:\n{row.revision.instruction}", f"Outcome: {row.outcome}, reward {row.reward}"]
    return "\n\n".join([*head, "\n".join(checks), *step_texts, f"Answer:\n{row.answer[:PART_CHARS]}"])


def _format_step(step: Mapping[str, Any]) -> str:
    if step["tool"]:
        call = f"Step {step['index']}: {step['tool']}({format_value(step['arguments'], 800)})"
        call += " (by the simulated user, with a tool of its own)" if step["by"] == CallBy.USER else ""
        call += " (disturbed on purpose: no fault of agent or tool)" if step["injected"] else ""
        return f"{call}\n-> {format_value(step['recorded'] if step['kind'] == StepKind.CALL else step['result'], 800)}"
    return f"Step {step['index']} ({step['kind']}): {step['content'][:PART_CHARS]}"


def _get_reason(row: Trajectory) -> str:
    return str(getattr(row, "reason", ""))[:300]


def _format_rules(rules: list[Any]) -> str:
    return "\n".join(f"- {rule}" for rule in rules) or "None are written down."
