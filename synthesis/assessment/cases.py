"""Tool cases: one call on one state in an episode of its own, and its repetition later without an LLM.

Every call gets an episode that is made from the state before it, with a seed and a clock that the case keeps. So a case
can be run again on its own, no process waits while an LLM thinks, and a lost episode costs one call.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import CallError, CallResult, Frozen, Program, State, is_refusal
from synthesis.drafts import ToolCase
from synthesis.errors import ProgramEnded, ProgramError, StateError
from synthesis.runtime import Sandbox, to_canonical_json

STATE_CHARS = 128_000
"""Of a state as JSON that calls go on from; a call that leaves more is not followed."""
KEPT_CHARS = 50_000
"""Of a result, and of a patch, as JSON."""
ENDED = "ended"
"""How the error of a call begins that ended its process or left a state that cannot be read."""


@dataclass(frozen=True)
class CallSetting:
    """Setting of a call: the encoded state before it, and the start of randomness and clock."""

    state: State
    seed: int
    now: str


@dataclass(frozen=True)
class Outcome:
    """Result of a call. `after` is the state to go on from, None if the call left no usable one."""

    ok: bool
    result: Any
    error: str
    patch: tuple[dict[str, Any], ...]
    digest: str
    cut: bool = False
    after: State | None = None

    @property
    def is_unread(self) -> bool:
        """True if the call was refused for its arguments, before the tool ran, and changed nothing."""
        return not self.ok and self.error.startswith("bad_arguments") and not self.patch


class Rerun(Frozen):
    """Result of a repeated case; `differs` names what changed (`result`, `patch`, ...)."""

    same: bool
    differs: tuple[str, ...] = ()


def execute_call(
    sandbox: Sandbox, program: Program, setting: CallSetting, tool: str, arguments: dict[str, Any]
) -> Outcome:
    """Make one call on a state.

    A call that takes too long is made twice, since the machine may be busy once. Raise ProgramError or StateError if
    the program cannot be built from the state, SandboxLost and SandboxUnavailable.
    """
    for last in (False, True):
        try:
            return _execute_once(sandbox, program, setting, tool, arguments)
        except ProgramEnded as error:
            reason = error.reason
        if last or reason != "time":
            break
    return _build_ended_outcome(f"{ENDED}: the call ended the program's process ({reason})")


def rerun_case(sandbox: Sandbox, program: Program, case: ToolCase) -> Rerun:
    """Make a case's call again on its state and compare. Raise SandboxUnavailable and SandboxLost."""
    try:
        setting = CallSetting(case.state, case.seed, case.now)
        outcome = execute_call(sandbox, program, setting, case.tool, case.arguments)
    except (ProgramError, StateError):
        return Rerun(same=False, differs=("construction",))
    if outcome.digest == case.digest:
        return Rerun(same=True)
    compared_fields = () if case.cut or outcome.cut else ("result", "patch")
    names = [
        name
        for name in ("ok", "error", *compared_fields)
        if _dump_sorted_json(getattr(outcome, name)) != _dump_sorted_json(getattr(case, name))
    ]
    return Rerun(same=False, differs=tuple(names) or ("content",))


def is_refused_call(ok: bool, result: Any, patch: Sequence[Any]) -> bool:
    """Return whether an environment refused a call: by an error, or by an answer that reports it and changed
    nothing."""
    return is_refusal(ok, result) and not (ok and patch)


def count_json_chars(value: Any) -> int:
    """Return the number of characters of a value's JSON."""
    return len(json.dumps(value, separators=(",", ":")))


def _execute_once(
    sandbox: Sandbox, program: Program, setting: CallSetting, tool: str, arguments: dict[str, Any]
) -> Outcome:
    with sandbox.reset(program, setting.state, seed=setting.seed, now=setting.now) as episode:
        result = episode.call(tool, arguments)
        try:
            after = episode.state()
        except StateError as error:
            return _build_ended_outcome(f"{ENDED}: the state after the call cannot be written down ({error})"[:1_000])
    return _build_outcome(result, after)


def _build_outcome(result: CallResult, after: State) -> Outcome:
    error = format_call_error(result.error) if result.error else ""
    digest = _hash_content({"ok": result.ok, "result": result.result, "error": error, "patch": result.patch})
    large = count_json_chars(result.result) > KEPT_CHARS or count_json_chars(result.patch) > KEPT_CHARS
    kept_values = (None, ()) if large else (result.result, tuple(result.patch))
    follow = after if count_json_chars(after) <= STATE_CHARS else None
    return Outcome(result.ok, kept_values[0], error, kept_values[1], digest, large, follow)


def format_call_error(error: CallError) -> str:
    """Return an error on one line: `raised: KeyError: 'x'`."""
    return ": ".join(part for part in (error.kind, error.type, error.message) if part)


def _build_ended_outcome(error: str) -> Outcome:
    return Outcome(False, None, error, (), _hash_content({"ended": error}))


def _hash_content(content: dict[str, Any]) -> str:
    return hashlib.sha256(to_canonical_json(content).encode("ascii")).hexdigest()


def _dump_sorted_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
