"""Initial states (EnvScaler 4.1): asked of the author, checked as data, constructed in the sandbox and read back."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from synthesis.assessment.environments import view_of
from synthesis.assessment.tasks import unknown_state_keys
from synthesis.contracts import Program, State
from synthesis.drafts import ScenarioDraft
from synthesis.errors import InputError, MalformedReply, ProgramEnded, ProgramError, Rejected, StateError
from synthesis.formats.records import EnvironmentRecord
from synthesis.formats.signatures import parse
from synthesis.prompts import prompt
from synthesis.runtime import Sandbox, encode_state
from synthesis.scenarios import prompt_text
from synthesis.scenarios.references import reference_faults
from synthesis.stages import Kit

TOLD = 5
"""So many faults are told at once."""
TOLD_CHARS = 1_500


class AuthorReply(BaseModel):
    """What an author replies. What was not asked for (a remark, a plan) is left out."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class StateReply(AuthorReply):
    """What the author replies: a short name for the scenario, and the state as the program's constructor takes it."""

    name: str = Field(min_length=3, max_length=120)
    state: dict[str, Any]


async def initial_state(kit: Kit, record: EnvironmentRecord, ordinal: int) -> ScenarioDraft:
    """The initial state number `ordinal` (from 0) of an environment. Raises Rejected("state_invalid")."""
    words = prompt("scenarios", "state").render(
        about=prompt_text.about(record),
        schema=prompt_text.schema(record),
        program=prompt_text.source(record),
        number=str(ordinal + 1),
        count=str(max(kit.settings.scenarios, ordinal + 1)),
        bytes=f"{kit.settings.state_bytes:,}",
    )
    return await ask_state(kit, record, "initial_state", words)


async def ask_state(kit: Kit, record: EnvironmentRecord, stage: str, words: str) -> ScenarioDraft:
    """An initial state that the author is asked for in these words. Raises Rejected("state_invalid")."""
    program, tree, most = view_of(record).program, parse(record.source), kit.settings.state_bytes

    def sound(state: dict[str, Any]) -> None:
        require_none(state_faults(state, record, tree, most))
        require_none(list(_lost(encode_state(state), construct(kit.sandbox, program, state))))

    async def check(reply: StateReply) -> None:
        kit.check_stop()
        await kit.run(sound, reply.state)

    try:
        reply = await kit.ask("author", stage, words, StateReply, check)
    except MalformedReply as error:
        reason = f"The author gave no initial state that can be used: {error.__cause__ or error}"
        raise Rejected("state_invalid", reason, {"call_key": error.call_key}) from error
    return ScenarioDraft(name=reply.name, state=reply.state)


def construct(sandbox: Sandbox, program: Program, state: dict[str, Any]) -> State:
    """The encoded state that the program makes of plain JSON.

    Raises InputError where this state, or the program with it, does not start, and InfrastructureError.
    """
    try:
        with sandbox.reset(program, encode_state(state)) as episode:
            return episode.state()
    except ProgramEnded as error:
        raise InputError(f"the program does not come back when it is constructed from the state: {error}") from error
    except (ProgramError, StateError) as error:
        raise InputError(f"the program cannot be constructed from the state: {error}"[:TOLD_CHARS]) from error


def state_faults(state: dict[str, Any], record: EnvironmentRecord, tree: ast.AST | None, most: int) -> list[str]:
    """What is wrong with a state as data, in words; empty where nothing is. Nothing runs."""
    if not any(isinstance(value, dict | list) and value for value in state.values()):
        return ["the state holds no records"]
    size = _bytes(state)
    if size > most:
        return [f"the state takes {size:,} bytes as JSON; at most {most:,} are allowed: make fewer or smaller records"]
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)] if tree else []
    methods = {item.name for node in classes for item in node.body if isinstance(item, ast.FunctionDef)}
    faults = [item.message for item in unknown_state_keys(state, record.source)]
    faults += [f"{key!r} is a method of the program, not a part of its state" for key in state if key in methods]
    faults += [f"{key!r} is no name that a state may use" for key in state if key.startswith("__")]
    return faults + reference_faults(state, record.state_schema)


def require_none(faults: list[str]) -> None:
    """Raises InputError with the first of these faults."""
    if faults:
        more = f"; and {len(faults) - TOLD} more" if len(faults) > TOLD else ""
        raise InputError(("; ".join(faults[:TOLD]) + more)[:TOLD_CHARS])


def _bytes(state: dict[str, Any]) -> int:
    return len(json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode())


def _lost(given: State, held: State) -> Iterator[str]:
    """What the program did not keep of what it was given. Both are encoded; it may make sets or objects of it."""
    for key, value in given.items():
        kept = held.get(key)
        if value and not kept:
            yield f"{key!r} is empty after the program was constructed"
        elif isinstance(value, dict) and isinstance(kept, dict) and not _tagged(kept):
            yield from (f"{key}.{name} is gone after the program was constructed" for name in value if name not in kept)
        elif isinstance(value, list) and isinstance(kept, list) and len(kept) < len(value):
            yield f"{key!r} holds {len(kept)} of {len(value)} items after the program was constructed"


def _tagged(value: dict[str, Any]) -> bool:
    return any(name.startswith("$") for name in value)
