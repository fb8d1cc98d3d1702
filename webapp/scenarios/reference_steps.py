"""The reference of a revision, executed: each call with its result and what it changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED
from synthesis.errors import EnvariumError
from synthesis.runtime import get_default_sandbox, restrict_program
from synthesis.runtime.encoding import apply_patch
from webapp.environments.models import Version
from webapp.environments.services import build_program
from webapp.scenarios.models import TaskReference
from webapp.scenarios.queries import PatchLine, list_patch_changes
from webapp.scenarios.references import read_withheld, to_reference
from webapp.scenarios.state_tables import StateTable, build_state_tables
from webapp.scenarios.states import load_state

STEPS_SHOWN = 100


@dataclass(frozen=True)
class ReferenceStep:
    """One call, counted from 1; `result` is None if the call was refused, and `error` is the reason."""

    number: int
    tool: str
    arguments: dict[str, Any]
    ok: bool
    result: Any
    error: str
    changes: list[PatchLine]
    more: int


@dataclass(frozen=True)
class ExecutedReference:
    """The steps, and why the execution stopped early (`lost`); `tables` are the records that it is about."""

    steps: tuple[ReferenceStep, ...]
    lost: str = ""
    tables: tuple[StateTable, ...] = ()


@lru_cache(maxsize=64)
def execute_stored_reference(version: int, initial: str, reference: int) -> ExecutedReference:
    """Execute a stored reference. None of the three ever changes under its key, so the result is cached."""
    row = TaskReference.objects.select_related("revision").defer("revision__record").get(pk=reference)
    program = restrict_program(build_program(Version.objects.get(pk=version)), read_withheld(row.revision))
    state = first = load_state(initial)
    calls = to_reference(row).calls
    steps: list[ReferenceStep] = []
    try:
        with get_default_sandbox().reset(program, state, seed=DEFAULT_SEED, now=DEFAULT_NOW) as episode:
            state = first = episode.state()
            for number, call in enumerate(calls[:STEPS_SHOWN], 1):
                call_result = episode.call(call.tool, dict(call.arguments))
                lines, more = list_patch_changes(state, call_result.patch)
                state = apply_patch(state, call_result.patch)
                error = "" if call_result.error is None else call_result.error.message
                steps.append(
                    ReferenceStep(
                        number, call.tool, dict(call.arguments), call_result.ok, call_result.result, error, lines, more
                    )
                )
    except EnvariumError as error:
        return ExecutedReference(tuple(steps), str(error))
    return ExecutedReference(tuple(steps), tables=build_state_tables(first, state, calls[:STEPS_SHOWN]))
