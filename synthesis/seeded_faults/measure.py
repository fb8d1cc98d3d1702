"""Measure of a checker: the share of wrong calls that it fails, and of its fails that are right."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from synthesis.assessment.agent_brief import build_agent_brief
from synthesis.assessment.cases import Outcome
from synthesis.assessment.rounds import judge_case
from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED, Frozen
from synthesis.drafts import CallVerdict, ToolCase
from synthesis.errors import MalformedReply
from synthesis.formats.records import EnvironmentRecord
from synthesis.seeded_faults.faulty_calls import FaultyCall
from synthesis.seeded_faults.program_mutants import KINDS
from synthesis.stages import Kit

AT_ONCE = 8
REASON_CHARS = 400


class JudgedFault(Frozen):
    """One faulty call with the checker's verdicts; None if its replies could not be used.

    `verdict` is on the mutant (to be failed), `sound_verdict` on the original program (not to be failed).
    """

    kind: str
    environment: str
    tool: str
    about: str
    verdict: CallVerdict | None
    reason: str = ""
    sound_verdict: CallVerdict | None
    sound_reason: str = ""


class KindCount(Frozen):
    """Counts of the `mutants` of one kind that were failed (`found`), `warned`, or not judged (`unusable`)."""

    mutants: int = 0
    found: int = 0
    warned: int = 0
    unusable: int = 0


class CheckerMeasure(Frozen):
    """Measure of a checker.

    `precision`: of the calls that it failed, the share that was wrong; `recall`: of the wrong ones, the share that it
    failed. A warning is not a fail. None if the divisor is 0.

    `sound` calls of original programs were judged too, and `alarms` of these failed; `unusable` replies are in neither
    share.
    """

    mutants: int
    found: int
    warned: int
    sound: int
    alarms: int
    unusable: int
    precision: float | None
    recall: float | None
    by_kind: dict[str, KindCount]
    faults: tuple[JudgedFault, ...]


async def measure_checker(kit: Kit, calls: Sequence[FaultyCall]) -> CheckerMeasure:
    """Have both sides of every call judged. Raise the errors of `Kit.ask`, except for replies that cannot be used."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def judge_side(record: EnvironmentRecord, call: FaultyCall, done: Outcome, sample: int) -> ToolCase | None:
        case = ToolCase(
            tool=call.call.tool,
            arguments=call.call.arguments,
            case=call.call.case,
            expectation=call.call.expectation,
            state=call.call.state,
            ok=done.ok,
            verdict="fail",
            seed=DEFAULT_SEED,
            now=DEFAULT_NOW,
        )
        async with gate:
            kit.check_stop()
            try:
                return await judge_case(kit, build_agent_brief(record), case, done, sample)
            except MalformedReply:
                return None

    async def judge_both_sides(number: int, call: FaultyCall) -> JudgedFault:
        wrong = await judge_side(call.faulty, call, call.wrong, number)
        right = await judge_side(call.sound, call, call.right, number)
        return JudgedFault(
            kind=call.kind,
            environment=call.sound.key,
            tool=call.call.tool,
            about=call.about,
            verdict=wrong.verdict if wrong else None,
            reason=wrong.reason[:REASON_CHARS] if wrong else "",
            sound_verdict=right.verdict if right else None,
            sound_reason=right.reason[:REASON_CHARS] if right else "",
        )

    return summarize_faults(
        await asyncio.gather(*(judge_both_sides(number, call) for number, call in enumerate(calls)))
    )


def summarize_faults(faults: Sequence[JudgedFault]) -> CheckerMeasure:
    """Return the counts and shares of judged faults."""
    wrong = [fault.verdict for fault in faults]
    right = [fault.sound_verdict for fault in faults]
    found_faults, alarms = wrong.count("fail"), right.count("fail")
    judged_wrong = len(wrong) - wrong.count(None)
    return CheckerMeasure(
        mutants=len(wrong),
        found=found_faults,
        warned=wrong.count("warning"),
        sound=len(right) - right.count(None),
        alarms=alarms,
        unusable=wrong.count(None) + right.count(None),
        precision=found_faults / (found_faults + alarms) if found_faults + alarms else None,
        recall=found_faults / judged_wrong if judged_wrong else None,
        by_kind={kind: _count_verdicts([fault.verdict for fault in faults if fault.kind == kind]) for kind in KINDS},
        faults=tuple(faults),
    )


def _count_verdicts(verdicts: Sequence[CallVerdict | None]) -> KindCount:
    return KindCount(
        mutants=len(verdicts),
        found=verdicts.count("fail"),
        warned=verdicts.count("warning"),
        unusable=verdicts.count(None),
    )
