"""Initial states for an assessment: written by the author, kept once the program was built from them."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel, ConfigDict

from synthesis.assessment.agent_brief import PROGRAM_CHARS, AgentBrief
from synthesis.assessment.cases import STATE_CHARS, size_of
from synthesis.assessment.prompt_values import cut
from synthesis.assessment.tasks import unknown_state_keys
from synthesis.contracts import DEFAULT_NOW, State
from synthesis.errors import InputError, ProgramEnded, ProgramError, Rejected, StateError
from synthesis.llm.asker import TRIES
from synthesis.prompts import fenced, prompt
from synthesis.runtime import Sandbox, encode_state
from synthesis.stages import Kit

TEST_STATE_CHARS = 32_000
PROBLEM_CHARS = 1_000


class InitialStateReply(BaseModel):
    """The reply of `test_state`."""

    model_config = ConfigDict(extra="ignore")

    state: dict[str, Any]


async def starting_states(kit: Kit, brief: AgentBrief) -> tuple[State, ...]:
    """The encoded states that calls start from, as the program itself holds them; all are asked for at once.

    Raises Rejected (`test_state_invalid`) and what `Kit.ask` raises.
    """
    count = kit.settings.test_states
    asked = [_state(kit, brief, ordinal, count) for ordinal in range(count)]
    states: list[State] = []
    for made in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(made, BaseException):
            raise made
        states.append(made)
    return tuple(states)


async def _state(kit: Kit, brief: AgentBrief, ordinal: int, count: int) -> State:
    most = min(TEST_STATE_CHARS, kit.settings.state_bytes)
    problem = ""
    for _ in range(TRIES):
        kit.check_stop()
        words = _words(brief, ordinal, count, most, problem)
        reply = await kit.ask(
            "author",
            "test_state",
            words,
            InitialStateReply,
            lambda reply: check_plain(reply.state, brief.record.source, most),
            sample=ordinal,
        )
        try:
            return await kit.run(settle, kit.sandbox, brief, reply.state)
        except (ProgramError, StateError) as error:
            problem = str(error)[:PROBLEM_CHARS]
    message = f"The program could not be built from any of {TRIES} states that were written for its test: {problem}"
    raise Rejected("test_state_invalid", message, evidence={"state": reply.state, "problem": problem})


def settle(sandbox: Sandbox, brief: AgentBrief, state: dict[str, Any]) -> State:
    """The encoded state that the program makes of a plain one. Raises ProgramError and StateError."""
    try:
        with sandbox.reset(brief.program, encode_state(state), now=DEFAULT_NOW) as episode:
            settled = episode.state()
    except ProgramEnded as error:
        raise ProgramError(f"the program's process was gone while it was built ({error.reason})") from None
    if size_of(settled) > STATE_CHARS:
        raise StateError(f"the program makes a state of more than {STATE_CHARS:,} characters of it")
    return settled


def check_plain(state: dict[str, Any], source: str, most: int) -> None:
    """Raises InputError for a state that is too large, empty, or has keys that the program does not know."""
    size = size_of(state)
    if size > most:
        raise InputError(f"the state takes {size:,} characters as JSON; at most {most:,} are allowed")
    if not any(isinstance(value, dict | list) and value for value in state.values()):
        raise InputError("the state holds no records: fill at least one of its collections")
    unknown = unknown_state_keys(state, source)
    if unknown:
        raise InputError(" ".join(cut(finding.message, 200) for finding in unknown[:5]))


def _words(brief: AgentBrief, ordinal: int, count: int, most: int, problem: str) -> str:
    told = f"\nAn earlier state of yours could not be used:\n\n{fenced('problem', problem)}" if problem else ""
    return prompt("assessment", "test_state").render(
        about=brief.about,
        source=fenced("program", cut(brief.record.source, PROGRAM_CHARS)),
        number=str(ordinal + 1),
        count=str(count),
        characters=f"{most:,}",
        problem=told,
    )
