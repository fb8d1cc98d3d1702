"""The reference of a revision, executed: each call with its result and what it changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED
from synthesis.errors import EnvariumError
from synthesis.runtime import default_sandbox, offered
from synthesis.runtime.encoding import apply_patch
from webapp.environments.models import Version
from webapp.environments.services import program_of
from webapp.scenarios.models import TaskReference
from webapp.scenarios.queries import PatchLine, changes
from webapp.scenarios.references import as_reference, withheld_of
from webapp.scenarios.state_tables import StateTable, state_tables
from webapp.scenarios.states import load_state

STEPS_SHOWN = 100


@dataclass(frozen=True)
class ReferenceStep:
    """One call, counted from 1; `result` is None where it was refused, and `error` says why."""

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
    """The steps, and why it stopped before its end (`lost`); `tables` are the records that it is about."""

    steps: tuple[ReferenceStep, ...]
    lost: str = ""
    tables: tuple[StateTable, ...] = ()


@lru_cache(maxsize=64)
def executed_reference(version: int, initial: str, reference: int) -> ExecutedReference:
    """Execute a stored reference. None of the three ever changes under its key."""
    row = TaskReference.objects.select_related("revision").defer("revision__record").get(pk=reference)
    program = offered(program_of(Version.objects.get(pk=version)), withheld_of(row.revision))
    state = first = load_state(initial)
    calls = as_reference(row).calls
    steps: list[ReferenceStep] = []
    try:
        with default_sandbox().reset(program, state, seed=DEFAULT_SEED, now=DEFAULT_NOW) as episode:
            state = first = episode.state()
            for number, call in enumerate(calls[:STEPS_SHOWN], 1):
                done = episode.call(call.tool, dict(call.arguments))
                lines, more = changes(state, done.patch)
                state = apply_patch(state, done.patch)
                error = "" if done.error is None else done.error.message
                steps.append(
                    ReferenceStep(number, call.tool, dict(call.arguments), done.ok, done.result, error, lines, more)
                )
    except EnvariumError as error:
        return ExecutedReference(tuple(steps), str(error))
    return ExecutedReference(tuple(steps), tables=state_tables(first, state, calls[:STEPS_SHOWN]))
