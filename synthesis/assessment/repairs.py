"""Repairs of tools that fail their assessment (ours): by the author, tried again on all known cases, or removed.

A tool with a failed call goes back to the author with its cases, a bounded number of times. On the resulting program
every case of the tool is made again: a case with the same outcome keeps its verdict, unless that was a fail, on which
the checker is asked a second time, as it may have been mistaken; every other outcome is judged anew. Two fresh calls
follow. A tool that still fails is removed, if enough tools are left and no other method calls it.
"""

from __future__ import annotations

import ast
import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from synthesis.assessment.agent_brief import build_agent_brief
from synthesis.assessment.call_plan import WAYS, PlannedCall
from synthesis.assessment.case_words import format_case
from synthesis.assessment.cases import CallSetting, count_json_chars, execute_call
from synthesis.assessment.rounds import (
    FREE,
    REASON_CHARS,
    RunningAssessment,
    judge_case,
    run_next_rounds,
    run_until_decided,
)
from synthesis.assessment.scores import compute_score, compute_tool_rate
from synthesis.assessment.tool_repair import STAGE, ToolBrief, build_repair_prompt, require_method
from synthesis.drafts import FailedCall, ToolCase, ToolRate, ToolRepair
from synthesis.errors import InputError, MalformedReply, ProgramError, StateError
from synthesis.formats.envscaler_export import environment_to_envscaler
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import outline_program
from synthesis.runtime.method_source import get_method_source, replace_method
from synthesis.runtime.program import parse_source
from synthesis.stages import Kit

Outcome = Literal["repaired", "cleared", "removed", "broken"]
MOST_FAILED = 12
MOST_PASSED = 8
MOST_KEPT = 40
"""Of a tool's failed calls from before its repair."""
RESULT_CHARS = 4_000
"""Of a failed call's result, as JSON, that is kept of the tool before its repair."""
AT_ONCE = 8
SAMPLES = 10_000
"""Questions about cases that are made again are numbered from here, a thousand of them a round."""


@dataclass
class RepairLog:
    """Record of the repairs. `before`, `reasons`, `sources` and `failed` date from the first failure of a tool."""

    tries: Counter[str] = field(default_factory=Counter)
    before: dict[str, ToolRate] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    failed: dict[str, tuple[FailedCall, ...]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    first_score: float | None = None
    rounds: int = 0

    def note(self, run: RunningAssessment, failing: Sequence[str]) -> None:
        if failing and self.first_score is None:
            self.first_score = compute_score(run.cases)
        for tool in failing:
            cases = [case for case in run.cases if case.tool == tool]
            self.before.setdefault(tool, compute_tool_rate(tool, cases))
            self.sources.setdefault(tool, run.brief.sources.get(tool, ""))
            if tool not in self.failed:
                failed = [case for case in cases if case.verdict == "fail"]
                self.failed[tool] = tuple(map(build_failed_call, failed[:MOST_KEPT]))
            self.reasons.setdefault(tool, next(case.reason for case in cases if case.verdict == "fail"))


def build_failed_call(case: ToolCase) -> FailedCall:
    """Return the parts of a failed call that a user needs to see, without the state around it."""
    cut = case.cut or count_json_chars(case.result) > RESULT_CHARS
    names = ("case", "expectation", "arguments", "ok", "error", "reason")
    case_fields = {name: getattr(case, name) for name in names}
    return FailedCall(**case_fields, result=None if cut else case.result, cut=cut)


def list_failing_tools(run: RunningAssessment) -> list[str]:
    """Return the tools with a failed call, in their order."""
    failed = {case.tool for case in run.cases if case.verdict == "fail"}
    return [name for name in run.brief.names if name in failed]


async def assess_with_repairs(kit: Kit, run: RunningAssessment) -> RepairLog:
    """Alternate rounds and repairs until nothing fails or nothing more can be done. Raise the errors of rounds."""
    log, tools = RepairLog(), len(run.brief.names)
    while True:
        await run_until_decided(kit, run)
        failing = list_failing_tools(run)
        log.note(run, failing)
        if not failing or len(log.before) * 2 > tools:
            return log
        mendable = [tool for tool in failing if log.tries[tool] < kit.settings.tool_repairs]
        if mendable:
            await _repair_tools(kit, run, log, mendable)
        elif not _remove_tools(run, log, failing, kit.settings.least_tools):
            return log


def list_repairs(run: RunningAssessment, log: RepairLog) -> tuple[ToolRepair, ...]:
    """Return the result for each tool that failed, as it is stored."""
    failing = list_failing_tools(run)
    repairs = []
    for tool, before in log.before.items():
        is_removed = tool in log.removed
        cases = [case for case in run.cases if case.tool == tool]
        source = run.brief.sources.get(tool, "")
        sound: Outcome = "cleared" if source.strip() == log.sources[tool].strip() else "repaired"
        repairs.append(
            ToolRepair(
                tool=tool,
                outcome="removed" if is_removed else "broken" if tool in failing else sound,
                tries=log.tries[tool],
                before=before,
                after=None if is_removed else compute_tool_rate(tool, cases),
                reason=log.reasons[tool],
                source="" if is_removed else source,
                source_before=log.sources[tool],
                failed_before=log.failed[tool],
            )
        )
    return tuple(repairs)


async def _repair_tools(kit: Kit, run: RunningAssessment, log: RepairLog, tools: Sequence[str]) -> None:
    """Run one round of repair of some tools, and try the mended ones again."""
    kit.check_stop()
    log.rounds += 1
    requests = [_ask_for_repair(kit, run, tool, log.rounds * SAMPLES + run.brief.names.index(tool)) for tool in tools]
    record, mended = run.brief.record, []
    for tool, reply in zip(tools, await asyncio.gather(*requests, return_exceptions=True), strict=True):
        log.tries[tool] += 1
        if isinstance(reply, MalformedReply):
            continue
        if isinstance(reply, BaseException):
            raise reply
        record = replace_tool(record, tool, reply)
        mended.append(tool)
    if not mended:
        return
    run.brief = build_agent_brief(record)
    await _rerun_cases(kit, run, log.rounds, mended)
    aims = [PlannedCall(tool=tool, case=way) for way in WAYS for tool in mended]
    for start in range(0, len(aims), len(run.worlds)):
        await run_next_rounds(kit, run, aims[start : start + len(run.worlds)])


async def _ask_for_repair(kit: Kit, run: RunningAssessment, tool: str, sample: int) -> str:
    """Return the method as mended by the author. Raise MalformedReply if no reply is usable."""
    record = run.brief.record
    cases = [case for case in run.cases if case.tool == tool]
    failed = sorted((case for case in cases if case.verdict != "pass"), key=lambda case: case.verdict != "fail")
    brief = ToolBrief(
        class_name=record.class_name,
        program=record.source,
        tool=tool,
        rules=record.rules,
        state_schema=record.state_schema,
        failed=tuple(format_case(case) for case in failed[:MOST_FAILED]),
        passed=tuple(format_case(case) for case in cases if case.verdict == "pass")[:MOST_PASSED],
    )
    promised = outline_program(record.source, record.class_name).method(tool)

    async def check_method(code: str) -> None:
        require_method(brief, code)
        changed_record = replace_tool(record, tool, code)
        mended = outline_program(changed_record.source, changed_record.class_name).method(tool)
        if promised is None or mended is None or mended.docstring != promised.docstring:
            raise InputError("Keep the docstring as it is: it is what the tool promises.")
        try:
            with await kit.run(kit.sandbox.reset, build_agent_brief(changed_record).program, run.worlds[0]):
                pass
        except (ProgramError, StateError) as error:
            raise InputError(f"With your reply the program cannot be built: {error}") from error

    return await kit.ask_code("author", STAGE, build_repair_prompt(brief), check_method, sample=sample)


def replace_tool(record: EnvironmentRecord, tool: str, code: str) -> EnvironmentRecord:
    """Return the environment with another source of one tool. Raise ProgramError if it cannot be read."""
    changed = record.model_copy(update={"source": replace_method(record.source, record.class_name, tool, code)})
    return changed.model_copy(update={"raw": environment_to_envscaler(changed)})


def remove_tool(record: EnvironmentRecord, tool: str) -> EnvironmentRecord | None:
    """Return the environment without one of its tools; None if another method uses it. Raise ProgramError."""
    method = get_method_source(record.source, record.class_name, tool)
    lines = record.source.splitlines(keepends=True)
    rest = lines[method.last :]
    while rest and not rest[0].strip():
        rest = rest[1:]
    remaining_text = "".join(lines[: method.first - 1]).rstrip() + "\n\n" * bool(rest) + "".join(rest)
    source = remaining_text.rstrip() + "\n"
    if any(isinstance(node, ast.Attribute) and node.attr == tool for node in ast.walk(parse_source(source))):
        return None
    tools = tuple(known for known in record.tools if known.name != tool)
    changed = record.model_copy(update={"source": source, "tools": tools})
    return changed.model_copy(update={"raw": environment_to_envscaler(changed)})


async def _rerun_cases(kit: Kit, run: RunningAssessment, number: int, mended: Sequence[str]) -> None:
    """Repeat the cases that involve the mended tools, and judge those whose outcome needs it."""
    brief, gate = run.brief, asyncio.Semaphore(AT_ONCE)
    parts = {name: brief.sources.get(name, "") + brief.context(name).excerpt for name in brief.names}
    touched = {name for name, text in parts.items() if any(name == one or f".{one}(" in text for one in mended)}

    async def retry_case(position: int, case: ToolCase) -> ToolCase:
        async with gate:
            setting = CallSetting(case.state, case.seed, case.now)
            try:
                outcome = await kit.run(execute_call, kit.sandbox, brief.program, setting, case.tool, case.arguments)
            except (ProgramError, StateError) as error:
                return case.model_copy(update={"verdict": "fail", "reason": str(error)[:REASON_CHARS]})
            if outcome.digest == case.digest and case.verdict != "fail":
                return case
            return await judge_case(kit, brief, case, outcome, number * SAMPLES + 1_000 + position)

    places = [position for position, case in enumerate(run.cases) if case.tool in touched]
    work = [retry_case(position, run.cases[position]) for position in places]
    unjudged: set[int] = set()
    for position, outcome in zip(places, await asyncio.gather(*work, return_exceptions=True), strict=True):
        if isinstance(outcome, MalformedReply):
            run.lost.append(str(outcome))
            unjudged.add(position)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            run.cases[position] = outcome
    run.cases = [case for position, case in enumerate(run.cases) if position not in unjudged]


def _remove_tools(run: RunningAssessment, log: RepairLog, tools: Sequence[str], least: int) -> bool:
    """Remove tools with their cases; return whether the environment can do without them."""
    record: EnvironmentRecord | None = run.brief.record
    if len(run.brief.names) - len(tools) < least:
        return False
    for tool in tools:
        record = remove_tool(record, tool) if record is not None else None
    if record is None:
        return False
    run.brief = build_agent_brief(record)
    run.cases = [case for case in run.cases if case.tool not in tools]
    remaining_aims = [aim for aim in run.aims if aim == FREE or aim.tool not in tools]
    run.aims.clear()
    run.aims.extend(remaining_aims)
    log.removed += tools
    return True
