"""Initial states (EnvScaler 4.1): requested from the author, checked as data, constructed in the sandbox and read
back.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from synthesis.assessment.environments import build_view
from synthesis.assessment.tasks import find_unknown_state_keys
from synthesis.contracts import Program, State
from synthesis.drafts import ScenarioDraft
from synthesis.errors import InputError, MalformedReply, ProgramEnded, ProgramError, Rejected, StateError
from synthesis.formats.records import EnvironmentRecord
from synthesis.formats.signatures import parse_source
from synthesis.prompts import get_prompt
from synthesis.runtime import Sandbox, encode_state
from synthesis.scenarios import prompt_text
from synthesis.scenarios.references import find_reference_faults
from synthesis.stages import Kit

TOLD = 5
"""Most faults that are reported at once."""
TOLD_CHARS = 1_500


class AuthorReply(BaseModel):
    """Reply of an author. Fields that were not requested (a remark, a plan) are dropped."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class StateReply(AuthorReply):
    """The author's reply: a short name for the scenario, and the state as the program's constructor takes it."""

    name: str = Field(min_length=3, max_length=120)
    state: dict[str, Any]


async def write_initial_state(kit: Kit, record: EnvironmentRecord, ordinal: int) -> ScenarioDraft:
    """Return the initial state number `ordinal` (from 0) of an environment. Raises Rejected("state_invalid")."""
    words = get_prompt("scenarios", "state").render(
        about=prompt_text.format_about(record),
        schema=prompt_text.format_schema(record),
        program=prompt_text.format_source(record),
        number=str(ordinal + 1),
        count=str(max(kit.settings.scenarios, ordinal + 1)),
        bytes=f"{kit.settings.state_bytes:,}",
    )
    return await ask_state(kit, record, "initial_state", words)


async def ask_state(kit: Kit, record: EnvironmentRecord, stage: str, words: str) -> ScenarioDraft:
    """Return an initial state that the author writes for this prompt. Raises Rejected("state_invalid")."""
    program, tree, most = build_view(record).program, parse_source(record.source), kit.settings.state_bytes

    def require_sound_state(state: dict[str, Any]) -> None:
        require_no_faults(find_state_faults(state, record, tree, most))
        require_no_faults(list(_find_lost_data(encode_state(state), construct_state(kit.sandbox, program, state))))

    async def check_reply(reply: StateReply) -> None:
        kit.check_stop()
        await kit.run(require_sound_state, reply.state)

    try:
        reply = await kit.ask("author", stage, words, StateReply, check_reply)
    except MalformedReply as error:
        reason = f"The author gave no initial state that can be used: {error.__cause__ or error}"
        raise Rejected("state_invalid", reason, {"call_key": error.call_key}) from error
    return ScenarioDraft(name=reply.name, state=reply.state)


def construct_state(sandbox: Sandbox, program: Program, state: dict[str, Any]) -> State:
    """Return the encoded state that the program constructs from plain JSON.

    Raises InputError if this state, or the program with it, does not start, and InfrastructureError.
    """
    try:
        with sandbox.reset(program, encode_state(state)) as episode:
            return episode.state()
    except ProgramEnded as error:
        raise InputError(f"the program does not come back when it is constructed from the state: {error}") from error
    except (ProgramError, StateError) as error:
        raise InputError(f"the program cannot be constructed from the state: {error}"[:TOLD_CHARS]) from error


def find_state_faults(state: dict[str, Any], record: EnvironmentRecord, tree: ast.AST | None, most: int) -> list[str]:
    """Return descriptions of the faults of a state as data; empty if there are none. Nothing is executed."""
    if not any(isinstance(value, dict | list) and value for value in state.values()):
        return ["the state holds no records"]
    size = _count_bytes(state)
    if size > most:
        return [f"the state takes {size:,} bytes as JSON; at most {most:,} are allowed: make fewer or smaller records"]
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)] if tree else []
    methods = {item.name for node in classes for item in node.body if isinstance(item, ast.FunctionDef)}
    faults = [item.message for item in find_unknown_state_keys(state, record.source)]
    faults += [f"{key!r} is a method of the program, not a part of its state" for key in state if key in methods]
    faults += [f"{key!r} is no name that a state may use" for key in state if key.startswith("__")]
    return faults + find_reference_faults(state, record.state_schema)


def require_no_faults(faults: list[str]) -> None:
    """Raise InputError with the first of these faults, if any."""
    if faults:
        more = f"; and {len(faults) - TOLD} more" if len(faults) > TOLD else ""
        raise InputError(("; ".join(faults[:TOLD]) + more)[:TOLD_CHARS])


def _count_bytes(state: dict[str, Any]) -> int:
    return len(json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode())


def _find_lost_data(given: State, held: State) -> Iterator[str]:
    """Yield descriptions of the data that the program did not keep. Both states are encoded; the program may turn
    values into sets or objects.
    """
    for key, value in given.items():
        kept_value = held.get(key)
        if value and not kept_value:
            yield f"{key!r} is empty after the program was constructed"
        elif isinstance(value, dict) and isinstance(kept_value, dict) and not _is_tagged(kept_value):
            yield from (
                f"{key}.{name} is gone after the program was constructed" for name in value if name not in kept_value
            )
        elif isinstance(value, list) and isinstance(kept_value, list) and len(kept_value) < len(value):
            yield f"{key!r} holds {len(kept_value)} of {len(value)} items after the program was constructed"


def _is_tagged(value: dict[str, Any]) -> bool:
    return any(name.startswith("$") for name in value)
