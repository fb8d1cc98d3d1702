"""Dual-agent assessment (EnvScaler 3.3): a tester calls, a checker judges, the state goes on evolving.

The tester sees tool schemas, rules and the state, never the program (Eq. 5). The call is executed and the checker
sees the tool's source, the call, its result and the change of the state (Eq. 6). The score is the share of calls
without a fail (Eq. 7, as released). Ours: several starts that take turns, `spread`, `stopping`, and what the checker
sees beside Eq. 6: what the tool uses of its program, the state that it may have read, the tester's expectation.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict

from synthesis.assessment import call_plan, sequential_test
from synthesis.assessment.agent_brief import AgentBrief, brief_of
from synthesis.assessment.call_plan import PlannedCall
from synthesis.assessment.cases import CallSetting, Outcome, execute, size_of, turned_down
from synthesis.assessment.initial_states import starting_states
from synthesis.assessment.prompt_values import cut, shown
from synthesis.assessment.state_view import call_states
from synthesis.contracts import DEFAULT_NOW, State
from synthesis.drafts import AssembledProgram, AssessmentDraft, CallVerdict, ToolCase, ToolRate
from synthesis.errors import InputError, ProgramError, Rejected, StateError
from synthesis.prompts import fenced, hashes, prompt
from synthesis.stages import Kit, StageSettings

TESTER_STATE_CHARS = 16_000
CHECKER_STATE_CHARS = 24_000
ARGUMENTS_CHARS = 8_000
CALL_CHARS = 16_000
REASON_CHARS = 1_000
STEP = timedelta(minutes=7)
"""Between two calls on the environment's clock."""


def _lower(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


class CallReply(BaseModel):
    """The reply of `test_call`."""

    model_config = ConfigDict(extra="ignore")

    arguments: dict[str, Any]
    expectation: str = ""


class VerdictReply(BaseModel):
    """The reply of `check_call`."""

    model_config = ConfigDict(extra="ignore")

    reason: str
    verdict: Annotated[CallVerdict, BeforeValidator(_lower)]


async def assess(kit: Kit, assembled: AssembledProgram) -> AssessmentDraft:
    """Try the tools of a program until N calls are made, or the decision is certain.

    Raises Rejected (`no_tools`, `test_state_invalid`, `state_not_restorable`, `assessment_below_threshold` with the
    whole draft as evidence) and what `Kit.ask` raises.
    """
    brief = brief_of(assembled.record)
    if not brief.names:
        raise Rejected("no_tools", "The environment has no tools, so there is nothing to try.")
    worlds = list(await starting_states(kit, brief))
    seed = kit.luck("assess")
    cases: list[ToolCase] = []
    for number, aim in enumerate(call_plan.spread(brief.names, kit.settings.assessment_calls, seed)):
        kit.check_stop()
        place = number % len(worlds)
        moment = datetime.fromisoformat(DEFAULT_NOW) + number * STEP
        setting = CallSetting(worlds[place], seed + number, moment.isoformat())
        case, after = await _round(kit, brief, number, aim, setting)
        cases.append(case)
        worlds[place] = setting.state if after is None else after
        if decided(cases, len(brief.names), kit.settings) is not None:
            break
    draft = summary(cases, brief.names, kit.settings)
    if not draft.kept:
        failed = sum(rate.failed for rate in draft.rates)
        message = (
            f"{failed} of {len(cases)} calls failed: the score of {draft.score:.2f} stays below "
            f"{draft.threshold:g}. The cases say which tools."
        )
        raise Rejected("assessment_below_threshold", message, evidence=draft.model_dump(mode="json"))
    return draft


def decided(cases: Sequence[ToolCase], tools: int, settings: StageSettings) -> bool | None:
    """Whether the environment is kept, None while that is open. It is kept early only after every tool was tried
    both ways; that it is dropped needs no more calls."""
    failed = sum(case.verdict == "fail" for case in cases)
    confidence = settings.assessment_confidence if settings.sequential else None
    planned, threshold = settings.assessment_calls, settings.assessment_threshold
    decision = sequential_test.decide(len(cases) - failed, failed, planned, threshold, confidence)
    return None if decision and len(cases) < min(call_plan.lap(tools), planned) else decision


def summary(cases: Sequence[ToolCase], tools: Sequence[str], settings: StageSettings) -> AssessmentDraft:
    """The scores of the calls that were made, and the rates of every tool, untried ones included."""
    passed = sum(case.verdict == "pass" for case in cases)
    sound = sum(case.verdict != "fail" for case in cases)
    score = sound / len(cases)
    used = [prompt("assessment", name) for name in ("test_state", "test_call", "check_call")]
    return AssessmentDraft(
        cases=tuple(cases),
        rates=tuple(rate_of(tool, [case for case in cases if case.tool == tool]) for tool in tools),
        score=score,
        strict=passed / len(cases),
        planned=settings.assessment_calls,
        saved=settings.assessment_calls - len(cases),
        kept=score >= settings.assessment_threshold,
        threshold=settings.assessment_threshold,
        confidence=settings.assessment_confidence if settings.sequential else None,
        prompts=hashes(*used),
    )


def rate_of(tool: str, cases: Sequence[ToolCase]) -> ToolRate:
    verdicts = [case.verdict for case in cases]
    ways = [case.case for case in cases]
    sound = [case.case for case in cases if case.verdict != "fail"]
    done = [case.case for case in cases if not turned_down(case.ok, case.result, case.patch)]
    return ToolRate(
        tool=tool,
        passed=verdicts.count("pass"),
        warned=verdicts.count("warning"),
        failed=verdicts.count("fail"),
        positive=ways.count("positive"),
        negative=ways.count("negative"),
        positive_sound=sound.count("positive"),
        positive_done=done.count("positive"),
        negative_sound=sound.count("negative"),
    )


async def _round(
    kit: Kit, brief: AgentBrief, number: int, aim: PlannedCall, setting: CallSetting
) -> tuple[ToolCase, State | None]:
    """One call with its verdict, and the state to go on from."""
    call = await kit.ask("tester", "test_call", _test_words(brief, aim, setting), CallReply, check_call_said, number)
    try:
        done = await kit.run(execute, kit.sandbox, brief.program, setting, aim.tool, call.arguments)
    except (ProgramError, StateError) as error:
        message = f"The program cannot be built again from a state that its own tools left: {error}"
        raise Rejected("state_not_restorable", message, evidence={"state": setting.state}) from None
    if done.after is None:
        verdict, reason = "fail", _without_state(done)
    else:
        words = _check_words(brief, aim, call, setting, done)
        judged = await kit.ask("checker", "check_call", words, VerdictReply, sample=number)
        verdict, reason = judged.verdict, judged.reason.strip()
    case = ToolCase(
        tool=aim.tool,
        arguments=call.arguments,
        case=aim.case,
        expectation=cut(call.expectation.strip(), REASON_CHARS),
        state=setting.state,
        ok=done.ok,
        result=done.result,
        error=done.error,
        patch=done.patch,
        verdict=verdict,
        reason=cut(reason, REASON_CHARS),
        seed=setting.seed,
        now=setting.now,
        digest=done.digest,
        cut=done.cut,
    )
    return case, done.after


def check_call_said(call: CallReply) -> None:
    """Raises InputError for arguments that are too large."""
    size = size_of(call.arguments)
    if size > ARGUMENTS_CHARS:
        raise InputError(f"the arguments take {size:,} characters as JSON; at most {ARGUMENTS_CHARS:,} are allowed")


def _without_state(done: Outcome) -> str:
    """Why a call fails that no checker is asked about: it left nothing that calls could go on from."""
    return done.error or "The state after the call is too large to go on from."


def _test_words(brief: AgentBrief, aim: PlannedCall, setting: CallSetting) -> str:
    return prompt("assessment", "test_call").render(
        about=brief.about,
        tools=brief.tools,
        state=fenced("state", shown(setting.state, TESTER_STATE_CHARS)),
        asked=fenced("asked", shown(aim.model_dump(), TESTER_STATE_CHARS)),
    )


def _check_words(brief: AgentBrief, aim: PlannedCall, call: CallReply, setting: CallSetting, done: Outcome) -> str:
    happened: dict[str, Any] = {"tool": aim.tool, "case": aim.case, "expectation": cut(call.expectation, REASON_CHARS)}
    happened |= {"arguments": call.arguments, "now": setting.now, "ok": done.ok}
    happened |= {"error": done.error} if done.error else {}
    if done.cut:
        happened["left_out"] = "result and patch are too large to be shown"
    else:
        happened |= {"result": done.result, "patch": list(done.patch)}
    touched = brief.context(aim.tool).attributes
    after = setting.state if done.after is None else done.after
    mentioned = [call.arguments, done.result]
    states = call_states(setting.state, after, touched, done.patch, mentioned, CHECKER_STATE_CHARS)
    return prompt("assessment", "check_call").render(
        about=brief.about,
        tool=brief.tool(aim.tool),
        source=brief.source(aim.tool),
        uses=brief.uses(aim.tool),
        call=fenced("call", shown(happened, CALL_CHARS)),
        state=fenced("state", states),
    )
