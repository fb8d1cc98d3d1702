"""Tool cases: one call on one state in an episode of its own, and the same again later without an LLM.

Every call gets an episode that is made from the state before it, with a seed and a clock that the case keeps. So a
case re-runs from itself alone, no process waits while an LLM thinks, and an episode that is lost costs one call.
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
from synthesis.runtime import Sandbox, canonical_json

STATE_CHARS = 128_000
"""Of a state as JSON that calls go on from; a call that leaves more is not followed."""
KEPT_CHARS = 50_000
"""Of a result, and of a patch, as JSON."""
ENDED = "ended"
"""How the error of a call begins that ended its process or left a state that cannot be read."""


@dataclass(frozen=True)
class CallSetting:
    """Where a call is made: the encoded state before it, and what randomness and clock start from."""

    state: State
    seed: int
    now: str


@dataclass(frozen=True)
class Outcome:
    """What a call did. `after` is the state to go on from, None where the call left none that is of use."""

    ok: bool
    result: Any
    error: str
    patch: tuple[dict[str, Any], ...]
    digest: str
    cut: bool = False
    after: State | None = None

    @property
    def is_unread(self) -> bool:
        """Whether the call was refused for its arguments, before the tool ran, and changed nothing."""
        return not self.ok and self.error.startswith("bad_arguments") and not self.patch


class Rerun(Frozen):
    """Whether a case still does the same; `differs` names what does not (`result`, `patch`, ...)."""

    same: bool
    differs: tuple[str, ...] = ()


def execute(sandbox: Sandbox, program: Program, setting: CallSetting, tool: str, arguments: dict[str, Any]) -> Outcome:
    """Make one call on a state.

    A call that takes too long is made twice, since a machine may be busy once. Raises ProgramError or StateError where
    the program cannot be built from the state, SandboxLost and SandboxUnavailable.
    """
    for last in (False, True):
        try:
            return _execute(sandbox, program, setting, tool, arguments)
        except ProgramEnded as error:
            reason = error.reason
        if last or reason != "time":
            break
    return _ended(f"{ENDED}: the call ended the program's process ({reason})")


def rerun(sandbox: Sandbox, program: Program, case: ToolCase) -> Rerun:
    """Make a case's call again on its state and compare. Raises SandboxUnavailable and SandboxLost."""
    try:
        setting = CallSetting(case.state, case.seed, case.now)
        now = execute(sandbox, program, setting, case.tool, case.arguments)
    except (ProgramError, StateError):
        return Rerun(same=False, differs=("construction",))
    if now.digest == case.digest:
        return Rerun(same=True)
    kept = () if case.cut or now.cut else ("result", "patch")
    names = [name for name in ("ok", "error", *kept) if _text(getattr(now, name)) != _text(getattr(case, name))]
    return Rerun(same=False, differs=tuple(names) or ("content",))


def turned_down(ok: bool, result: Any, patch: Sequence[Any]) -> bool:
    """Whether an environment refused a call: an error, or an answer that says so and changed nothing."""
    return is_refusal(ok, result) and not (ok and patch)


def size_of(value: Any) -> int:
    """Characters of a value's JSON."""
    return len(json.dumps(value, separators=(",", ":")))


def _execute(sandbox: Sandbox, program: Program, setting: CallSetting, tool: str, arguments: dict[str, Any]) -> Outcome:
    with sandbox.reset(program, setting.state, seed=setting.seed, now=setting.now) as episode:
        result = episode.call(tool, arguments)
        try:
            after = episode.state()
        except StateError as error:
            return _ended(f"{ENDED}: the state after the call cannot be written down ({error})"[:1_000])
    return _outcome(result, after)


def _outcome(result: CallResult, after: State) -> Outcome:
    error = spelled(result.error) if result.error else ""
    digest = _digest({"ok": result.ok, "result": result.result, "error": error, "patch": result.patch})
    large = size_of(result.result) > KEPT_CHARS or size_of(result.patch) > KEPT_CHARS
    kept = (None, ()) if large else (result.result, tuple(result.patch))
    follow = after if size_of(after) <= STATE_CHARS else None
    return Outcome(result.ok, kept[0], error, kept[1], digest, large, follow)


def spelled(error: CallError) -> str:
    """An error on one line: `raised: KeyError: 'x'`."""
    return ": ".join(part for part in (error.kind, error.type, error.message) if part)


def _ended(error: str) -> Outcome:
    return Outcome(False, None, error, (), _digest({"ended": error}))


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(canonical_json(content).encode("ascii")).hexdigest()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
