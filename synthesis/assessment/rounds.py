"""Rounds of an assessment: a tester's call, its outcome, a checker's verdict.

A round goes on from the state that the one before it left. Rounds on independent lines of states run side by side: each
starting state is continued along several lines. The line of a round, its seed and the number of its questions follow
from its place in the plan, never from the order in which replies arrive.

A round whose replies cannot be used is lost, and costs no more than itself: the assessment goes on without it, unless
more rounds are lost than allowed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict

from synthesis.assessment.agent_brief import AgentBrief
from synthesis.assessment.call_plan import PlannedCall
from synthesis.assessment.cases import CallSetting, Outcome, count_json_chars, execute_call
from synthesis.assessment.prompt_values import cut_text, format_records, format_value
from synthesis.assessment.scores import count_rounds_left
from synthesis.assessment.state_view import format_call_states
from synthesis.contracts import DEFAULT_NOW, State
from synthesis.drafts import CallVerdict, CaseKind, ToolCase
from synthesis.errors import InputError, MalformedReply, ProgramError, Rejected, StateError
from synthesis.prompts import fence_text, get_prompt
from synthesis.stages import Kit

TESTER_STATE_CHARS = 16_000
CHECKER_STATE_CHARS = 24_000
ARGUMENTS_CHARS = 8_000
CALL_CHARS = 16_000
REASON_CHARS = 1_000
STEP = timedelta(minutes=7)
"""Between two calls on the environment's clock."""
AT_ONCE = 8
"""Rounds that run side by side, if the plan is long enough. What an endpoint allows is bounded by the endpoint."""
ROUNDS_A_LINE = 4
"""At least so many rounds of the plan belong to one line, so that states evolve in a short assessment too."""
BORNE = 2
"""So many lost rounds are always borne, and one more for every four calls that were judged."""


FREE: Literal["free"] = "free"
"""An aim that leaves tool and case to the tester (ES Eq. 5)."""
Aim = PlannedCall | Literal["free"]
UNREAD = "The schema refused the call, as it had to: the tool was not run."


def _lower_text(value: Any) -> Any:
    return value.strip().lower() if isinstance(value, str) else value


class CallReply(BaseModel):
    """Reply of `test_call`."""

    model_config = ConfigDict(extra="ignore")

    arguments: dict[str, Any]
    expectation: str = ""


class ChosenCallReply(CallReply):
    """Reply of `choose_call`."""

    tool: str
    case: Annotated[CaseKind, BeforeValidator(_lower_text)]


class VerdictReply(BaseModel):
    """Reply of `check_call`."""

    model_config = ConfigDict(extra="ignore")

    reason: str
    verdict: Annotated[CallVerdict, BeforeValidator(_lower_text)]


@dataclass
class RunningAssessment:
    """State of an assessment: the current program, the states that calls go on from (`worlds`, one per line), the calls
    made.

    `begun` counts rounds and numbers their questions; `lost` are the reasons of rounds without a usable reply;
    `testers` are the prompts by which testers were asked.
    """

    brief: AgentBrief
    worlds: list[State]
    aims: deque[Aim]
    seed: int
    cases: list[ToolCase] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    begun: int = 0
    testers: set[str] = field(default_factory=set)


def spread_lines(states: Sequence[State], planned: int) -> list[State]:
    """Return the state that each line starts from: every state as often as another, give or take one."""
    count = max(len(states), min(AT_ONCE, planned // ROUNDS_A_LINE))
    return [states[number % len(states)] for number in range(count)]


async def run_until_decided(kit: Kit, run: RunningAssessment) -> None:
    """Run rounds until the decision is certain, or the plan has come to its end.

    No more rounds are begun side by side than the decision needs at least, so that none is made in vain. Raise
    MalformedReply if too many replies cannot be used, Rejected (`state_not_restorable`), and the errors of `Kit.ask`.
    """
    while run.aims:
        needed_rounds = count_rounds_left(run.cases, len(run.brief.names), kit.settings, len(run.lost))
        if not needed_rounds:
            return
        await run_next_rounds(
            kit, run, [run.aims.popleft() for _ in range(min(needed_rounds, len(run.worlds), len(run.aims)))]
        )


async def run_next_rounds(kit: Kit, run: RunningAssessment, aims: Sequence[Aim]) -> None:
    """Run rounds side by side, at most one on each line; continue their states in their order."""
    kit.check_stop()
    run.testers.update("choose_call" if aim == FREE else "test_call" for aim in aims)
    first, run.begun = run.begun, run.begun + len(aims)
    places = [number % len(run.worlds) for number in range(first, run.begun)]
    work = [
        _run_round(kit, run.brief, number, aim, _build_setting(run, number, place))
        for number, (aim, place) in enumerate(zip(aims, places, strict=True), first)
    ]
    error: MalformedReply | None = None
    for place, outcome in zip(places, await asyncio.gather(*work, return_exceptions=True), strict=True):
        if isinstance(outcome, MalformedReply):
            run.lost.append(str(outcome))
            error = outcome
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            case, after = outcome
            run.cases.append(case)
            run.worlds[place] = run.worlds[place] if after is None else after
    if error is not None and len(run.lost) > BORNE + len(run.cases) // 4:
        raise error


def _build_setting(run: RunningAssessment, number: int, place: int) -> CallSetting:
    moment = datetime.fromisoformat(DEFAULT_NOW) + number * STEP
    return CallSetting(run.worlds[place], run.seed + number, moment.isoformat())


async def _run_round(
    kit: Kit, brief: AgentBrief, number: int, aim: Aim, setting: CallSetting
) -> tuple[ToolCase, State | None]:
    """Return one call with its verdict, and the state to go on from."""
    aim, call = await _ask_tester(kit, brief, number, aim, setting.state)
    try:
        outcome = await kit.run(execute_call, kit.sandbox, brief.program, setting, aim.tool, call.arguments)
    except (ProgramError, StateError) as error:
        message = f"The program cannot be built again from a state that its own tools left: {error}"
        raise Rejected("state_not_restorable", message, evidence={"state": setting.state}) from None
    case = ToolCase(
        tool=aim.tool,
        arguments=call.arguments,
        case=aim.case,
        expectation=cut_text(call.expectation.strip(), REASON_CHARS),
        state=setting.state,
        ok=outcome.ok,
        verdict="fail",
        seed=setting.seed,
        now=setting.now,
    )
    return await judge_case(kit, brief, case, outcome, number), outcome.after


async def _ask_tester(
    kit: Kit, brief: AgentBrief, number: int, aim: Aim, state: State
) -> tuple[PlannedCall, CallReply]:
    """Return the tester's call, with the tool and the case that it tries: those of the aim, or its own."""
    if aim != FREE:
        words = build_tester_prompt(brief, aim, state)
        return aim, await kit.ask("tester", "test_call", words, CallReply, require_small_arguments, number)

    def require_known_tool(call: ChosenCallReply) -> None:
        if call.tool not in brief.names:
            raise InputError(f"there is no tool {call.tool[:100]!r}; take one of {', '.join(brief.names)}")
        require_small_arguments(call)

    words = build_free_tester_prompt(brief, number, kit.settings.assessment_calls, state)
    chosen = await kit.ask("tester", "choose_call", words, ChosenCallReply, require_known_tool, number)
    return PlannedCall(tool=chosen.tool, case=chosen.case), chosen


async def judge_case(kit: Kit, brief: AgentBrief, case: ToolCase, done: Outcome, sample: int) -> ToolCase:
    """Return the case with the outcome of its call and the checker's verdict. Raise the errors of `Kit.ask`."""
    did = {"ok": done.ok, "result": done.result, "error": done.error, "patch": done.patch}
    case = case.model_copy(update={**did, "digest": done.digest, "cut": done.cut})
    if done.after is None:  # it left nothing that calls could go on from: no checker is asked
        reason = done.error or "The state after the call is too large to go on from."
        return case.model_copy(update={"verdict": "fail", "reason": cut_text(reason, REASON_CHARS)})
    if case.case == "negative" and done.is_unread:
        return case.model_copy(update={"verdict": "pass", "reason": UNREAD})
    words = build_checker_prompt(brief, case, done.after)
    reply = await kit.ask("checker", "check_call", words, VerdictReply, sample=sample)
    return case.model_copy(update={"verdict": reply.verdict, "reason": cut_text(reply.reason.strip(), REASON_CHARS)})


def require_small_arguments(call: CallReply) -> None:
    """Raise InputError for arguments that are too large."""
    size = count_json_chars(call.arguments)
    if size > ARGUMENTS_CHARS:
        raise InputError(f"the arguments take {size:,} characters as JSON; at most {ARGUMENTS_CHARS:,} are allowed")


def build_tester_prompt(brief: AgentBrief, aim: PlannedCall, state: State) -> str:
    """Return a tester's prompt: the rules, the description of the tool to call, and the current state."""
    return get_prompt("assessment", "test_call").render(
        about=brief.about,
        tool=brief.tool(aim.tool),
        state=fence_text("state", format_records(state, TESTER_STATE_CHARS)),
        asked=fence_text("asked", format_value(aim.model_dump(), CALL_CHARS)),
    )


def build_free_tester_prompt(brief: AgentBrief, number: int, planned: int, state: State) -> str:
    """Return the prompt of a tester that chooses its own call (ES Eq. 5): all tools, and the current state."""
    return get_prompt("assessment", "choose_call").render(
        tools=brief.tools,
        state=fence_text("state", format_records(state, TESTER_STATE_CHARS)),
        asked=fence_text("asked", f"Round {number + 1} of {planned}"),
    )


def build_checker_prompt(brief: AgentBrief, case: ToolCase, after: State) -> str:
    """Return a checker's prompt on a call: the tool with its dependencies, the outcome, and the states around it."""
    happened: dict[str, Any] = {"tool": case.tool, "case": case.case, "expectation": case.expectation}
    happened |= {"arguments": case.arguments, "now": case.now, "ok": case.ok}
    happened |= {"error": case.error} if case.error else {}
    if case.cut:
        happened["left_out"] = "result and patch are too large to be shown"
    else:
        happened |= {"result": case.result, "patch": list(case.patch)}
    touched = brief.context(case.tool).attributes
    mentioned = [case.arguments, case.result]
    states = format_call_states(case.state, after, touched, case.patch, mentioned, CHECKER_STATE_CHARS)
    return get_prompt("assessment", "check_call").render(
        about=brief.about,
        tool=brief.tool(case.tool),
        source=brief.source(case.tool),
        uses=brief.uses(case.tool),
        call=fence_text("call", format_value(happened, CALL_CHARS)),
        state=fence_text("state", states),
    )
