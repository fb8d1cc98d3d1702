"""Repairs of tools that fail their assessment (ours): by the author, tried again on all that is known, or taken out.

A tool with a failed call goes back to the author with its cases, a bounded number of times. On the program that comes
of it every case of the tool is made again: one that comes out as it did keeps its verdict, unless that was a fail, on
which the checker is asked a second time, as it may have been mistaken; every other outcome is judged anew. Two fresh
calls follow. What still fails is taken out, where enough tools are left and no other method calls it.
"""

from __future__ import annotations

import ast
import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from synthesis.assessment.agent_brief import brief_of
from synthesis.assessment.call_plan import WAYS, PlannedCall
from synthesis.assessment.case_words import case_text
from synthesis.assessment.cases import CallSetting, execute, size_of
from synthesis.assessment.rounds import FREE, REASON_CHARS, RunningAssessment, judged, next_rounds, until_decided
from synthesis.assessment.scores import rate_of, score_of
from synthesis.assessment.tool_repair import STAGE, ToolBrief, repair_words, require_method
from synthesis.drafts import FailedCall, ToolCase, ToolRate, ToolRepair
from synthesis.errors import InputError, MalformedReply, ProgramError, StateError
from synthesis.formats.envscaler_export import environment_to_envscaler
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import outline
from synthesis.runtime.method_source import method_source, with_method
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
    """What was done about failing tools. `before`, `reasons`, `sources` and `failed` are from when one was first seen
    to fail."""

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
            self.first_score = score_of(run.cases)
        for tool in failing:
            cases = [case for case in run.cases if case.tool == tool]
            self.before.setdefault(tool, rate_of(tool, cases))
            self.sources.setdefault(tool, run.brief.sources.get(tool, ""))
            if tool not in self.failed:
                failed = [case for case in cases if case.verdict == "fail"]
                self.failed[tool] = tuple(map(failed_call, failed[:MOST_KEPT]))
            self.reasons.setdefault(tool, next(case.reason for case in cases if case.verdict == "fail"))


def failed_call(case: ToolCase) -> FailedCall:
    """Keep what a person needs to see of a failed call, without the state around it."""
    cut = case.cut or size_of(case.result) > RESULT_CHARS
    names = ("case", "expectation", "arguments", "ok", "error", "reason")
    known = {name: getattr(case, name) for name in names}
    return FailedCall(**known, result=None if cut else case.result, cut=cut)


def failing_tools(run: RunningAssessment) -> list[str]:
    """The tools with a failed call, in their order."""
    failed = {case.tool for case in run.cases if case.verdict == "fail"}
    return [name for name in run.brief.names if name in failed]


async def repaired_until_decided(kit: Kit, run: RunningAssessment) -> RepairLog:
    """Rounds and repairs in turn, until nothing fails or nothing more can be done. Raises what rounds raise."""
    log, tools = RepairLog(), len(run.brief.names)
    while True:
        await until_decided(kit, run)
        failing = failing_tools(run)
        log.note(run, failing)
        if not failing or len(log.before) * 2 > tools:
            return log
        mendable = [tool for tool in failing if log.tries[tool] < kit.settings.tool_repairs]
        if mendable:
            await _repair(kit, run, log, mendable)
        elif not _taken_out(run, log, failing, kit.settings.least_tools):
            return log


def repairs_of(run: RunningAssessment, log: RepairLog) -> tuple[ToolRepair, ...]:
    """What came of each tool that failed, as it is stored."""
    failing = failing_tools(run)
    found = []
    for tool, before in log.before.items():
        gone = tool in log.removed
        cases = [case for case in run.cases if case.tool == tool]
        source = run.brief.sources.get(tool, "")
        sound: Outcome = "cleared" if source.strip() == log.sources[tool].strip() else "repaired"
        found.append(
            ToolRepair(
                tool=tool,
                outcome="removed" if gone else "broken" if tool in failing else sound,
                tries=log.tries[tool],
                before=before,
                after=None if gone else rate_of(tool, cases),
                reason=log.reasons[tool],
                source="" if gone else source,
                source_before=log.sources[tool],
                failed_before=log.failed[tool],
            )
        )
    return tuple(found)


async def _repair(kit: Kit, run: RunningAssessment, log: RepairLog, tools: Sequence[str]) -> None:
    """One round of repair of some tools, and what it came to."""
    kit.check_stop()
    log.rounds += 1
    asked = [_mended(kit, run, tool, log.rounds * SAMPLES + run.brief.names.index(tool)) for tool in tools]
    record, mended = run.brief.record, []
    for tool, reply in zip(tools, await asyncio.gather(*asked, return_exceptions=True), strict=True):
        log.tries[tool] += 1
        if isinstance(reply, MalformedReply):
            continue
        if isinstance(reply, BaseException):
            raise reply
        record = with_tool(record, tool, reply)
        mended.append(tool)
    if not mended:
        return
    run.brief = brief_of(record)
    await _try_again(kit, run, log.rounds, mended)
    aims = [PlannedCall(tool=tool, case=way) for way in WAYS for tool in mended]
    for start in range(0, len(aims), len(run.worlds)):
        await next_rounds(kit, run, aims[start : start + len(run.worlds)])


async def _mended(kit: Kit, run: RunningAssessment, tool: str, sample: int) -> str:
    """The method as the author mends it. Raises MalformedReply: none that can be used."""
    record = run.brief.record
    cases = [case for case in run.cases if case.tool == tool]
    failed = sorted((case for case in cases if case.verdict != "pass"), key=lambda case: case.verdict != "fail")
    brief = ToolBrief(
        class_name=record.class_name,
        program=record.source,
        tool=tool,
        rules=record.rules,
        state_schema=record.state_schema,
        failed=tuple(case_text(case) for case in failed[:MOST_FAILED]),
        passed=tuple(case_text(case) for case in cases if case.verdict == "pass")[:MOST_PASSED],
    )
    promised = outline(record.source, record.class_name).method(tool)

    async def check(code: str) -> None:
        require_method(brief, code)
        whole = with_tool(record, tool, code)
        mended = outline(whole.source, whole.class_name).method(tool)
        if promised is None or mended is None or mended.docstring != promised.docstring:
            raise InputError("Keep the docstring as it is: it is what the tool promises.")
        try:
            with await kit.run(kit.sandbox.reset, brief_of(whole).program, run.worlds[0]):
                pass
        except (ProgramError, StateError) as error:
            raise InputError(f"With your reply the program cannot be built: {error}") from error

    return await kit.ask_code("author", STAGE, repair_words(brief), check, sample=sample)


def with_tool(record: EnvironmentRecord, tool: str, code: str) -> EnvironmentRecord:
    """The environment with another source of one tool. Raises ProgramError."""
    changed = record.model_copy(update={"source": with_method(record.source, record.class_name, tool, code)})
    return changed.model_copy(update={"raw": environment_to_envscaler(changed)})


def without_tool(record: EnvironmentRecord, tool: str) -> EnvironmentRecord | None:
    """The environment without one of its tools; None where another method uses it. Raises ProgramError."""
    method = method_source(record.source, record.class_name, tool)
    lines = record.source.splitlines(keepends=True)
    rest = lines[method.last :]
    while rest and not rest[0].strip():
        rest = rest[1:]
    kept = "".join(lines[: method.first - 1]).rstrip() + "\n\n" * bool(rest) + "".join(rest)
    source = kept.rstrip() + "\n"
    if any(isinstance(node, ast.Attribute) and node.attr == tool for node in ast.walk(parse_source(source))):
        return None
    tools = tuple(known for known in record.tools if known.name != tool)
    changed = record.model_copy(update={"source": source, "tools": tools})
    return changed.model_copy(update={"raw": environment_to_envscaler(changed)})


async def _try_again(kit: Kit, run: RunningAssessment, number: int, mended: Sequence[str]) -> None:
    """Make the cases again that the mended tools have a part in, and have judged what needs it."""
    brief, gate = run.brief, asyncio.Semaphore(AT_ONCE)
    parts = {name: brief.sources.get(name, "") + brief.context(name).excerpt for name in brief.names}
    touched = {name for name, text in parts.items() if any(name == one or f".{one}(" in text for one in mended)}

    async def again(position: int, case: ToolCase) -> ToolCase:
        async with gate:
            setting = CallSetting(case.state, case.seed, case.now)
            try:
                done = await kit.run(execute, kit.sandbox, brief.program, setting, case.tool, case.arguments)
            except (ProgramError, StateError) as error:
                return case.model_copy(update={"verdict": "fail", "reason": str(error)[:REASON_CHARS]})
            if done.digest == case.digest and case.verdict != "fail":
                return case
            return await judged(kit, brief, case, done, number * SAMPLES + 1_000 + position)

    places = [position for position, case in enumerate(run.cases) if case.tool in touched]
    work = [again(position, run.cases[position]) for position in places]
    unjudged: set[int] = set()
    for position, ended in zip(places, await asyncio.gather(*work, return_exceptions=True), strict=True):
        if isinstance(ended, MalformedReply):
            run.lost.append(str(ended))
            unjudged.add(position)
        elif isinstance(ended, BaseException):
            raise ended
        else:
            run.cases[position] = ended
    run.cases = [case for position, case in enumerate(run.cases) if position not in unjudged]


def _taken_out(run: RunningAssessment, log: RepairLog, tools: Sequence[str], least: int) -> bool:
    """Take tools out, with their cases; whether the environment can live without them."""
    record: EnvironmentRecord | None = run.brief.record
    if len(run.brief.names) - len(tools) < least:
        return False
    for tool in tools:
        record = without_tool(record, tool) if record is not None else None
    if record is None:
        return False
    run.brief = brief_of(record)
    run.cases = [case for case in run.cases if case.tool not in tools]
    left = [aim for aim in run.aims if aim == FREE or aim.tool not in tools]
    run.aims.clear()
    run.aims.extend(left)
    log.removed += tools
    return True
