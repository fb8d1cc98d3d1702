"""Initial states for an assessment: written by the author, kept once the program was built from them."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, ConfigDict

from synthesis.assessment.agent_brief import PROGRAM_CHARS, AgentBrief
from synthesis.assessment.cases import STATE_CHARS, count_json_chars
from synthesis.assessment.prompt_values import cut_text
from synthesis.assessment.tasks import find_unknown_state_keys
from synthesis.contracts import DEFAULT_NOW, State
from synthesis.errors import InputError, ProgramEnded, ProgramError, Rejected, StateError
from synthesis.llm.asker import TRIES
from synthesis.prompts import fence_text, get_prompt
from synthesis.runtime import Sandbox, encode_state
from synthesis.stages import Kit

TEST_STATE_CHARS = 32_000
PROBLEM_CHARS = 1_000


class InitialStateReply(BaseModel):
    """Reply of `test_state`."""

    model_config = ConfigDict(extra="ignore")

    state: dict[str, Any]


async def write_starting_states(kit: Kit, brief: AgentBrief) -> tuple[State, ...]:
    """Return the encoded states that calls start from, as the program itself holds them; request all at once.

    Raise Rejected (`test_state_invalid`) and the errors of `Kit.ask`.
    """
    count = kit.settings.test_states
    requests = [_write_state(kit, brief, ordinal, count) for ordinal in range(count)]
    states: list[State] = []
    for outcome in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome
        states.append(outcome)
    return tuple(states)


async def _write_state(kit: Kit, brief: AgentBrief, ordinal: int, count: int) -> State:
    most = min(TEST_STATE_CHARS, kit.settings.state_bytes)
    problem = ""
    for _ in range(TRIES):
        kit.check_stop()
        words = _build_prompt(brief, ordinal, count, most, problem)
        reply = await kit.ask(
            "author",
            "test_state",
            words,
            InitialStateReply,
            lambda reply: require_plain_state(reply.state, brief.record.source, most),
            sample=ordinal,
        )
        try:
            return await kit.run(settle_state, kit.sandbox, brief, reply.state)
        except (ProgramError, StateError) as error:
            problem = str(error)[:PROBLEM_CHARS]
    message = f"The program could not be built from any of {TRIES} states that were written for its test: {problem}"
    raise Rejected("test_state_invalid", message, evidence={"state": reply.state, "problem": problem})


def settle_state(sandbox: Sandbox, brief: AgentBrief, state: dict[str, Any]) -> State:
    """Return the encoded state that the program makes of a plain one. Raise ProgramError and StateError."""
    try:
        with sandbox.reset(brief.program, encode_state(state), now=DEFAULT_NOW) as episode:
            settled = episode.state()
    except ProgramEnded as error:
        raise ProgramError(f"the program's process was gone while it was built ({error.reason})") from None
    if count_json_chars(settled) > STATE_CHARS:
        raise StateError(f"the program makes a state of more than {STATE_CHARS:,} characters of it")
    return settled


def require_plain_state(state: dict[str, Any], source: str, most: int) -> None:
    """Raise InputError for a state that is too large, empty, or has keys that the program does not know."""
    size = count_json_chars(state)
    if size > most:
        raise InputError(f"the state takes {size:,} characters as JSON; at most {most:,} are allowed")
    if not any(isinstance(value, dict | list) and value for value in state.values()):
        raise InputError("the state holds no records: fill at least one of its collections")
    unknown = find_unknown_state_keys(state, source)
    if unknown:
        raise InputError(" ".join(cut_text(finding.message, 200) for finding in unknown[:5]))


def _build_prompt(brief: AgentBrief, ordinal: int, count: int, most: int, problem: str) -> str:
    problem_text = (
        f"\nAn earlier state of yours could not be used:\n\n{fence_text('problem', problem)}" if problem else ""
    )
    return get_prompt("assessment", "test_state").render(
        about=brief.about,
        source=fence_text("program", cut_text(brief.record.source, PROGRAM_CHARS)),
        number=str(ordinal + 1),
        count=str(count),
        characters=f"{most:,}",
        problem=problem_text,
    )
