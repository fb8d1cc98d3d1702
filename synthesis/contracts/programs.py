"""Programs, their tools, executed calls, and the bounds that they run in."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from synthesis.contracts.base import Frozen, Patch

Validation = Literal["schema", "source"]
"""`schema`: arguments are validated against the tool's working schema. `source`: the call as it was."""
ToolKind = Literal["query", "change"]
DEFAULT_SEED = 0
DEFAULT_NOW = "2025-01-01T09:00:00+00:00"


class Tool(Frozen):
    """One tool of a program. `parameters` is the *working* JSON schema, derived from the signature.

    `withheld` are parameters that the program takes and this task's agents may not use: no schema has them, and a call
    that names one is refused like any unknown parameter.
    """

    name: str
    description: str = ""
    kind: ToolKind = "query"
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    withheld: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)


class Program(Frozen):
    """Data of an environment version that the runtime needs. Only the tools in `tools` can be called."""

    source: str
    class_name: str
    tools: tuple[Tool, ...]


class CallError(Frozen):
    """Reason of a refused or failed call: an observation, not an exception.

    `unknown_tool`, `bad_arguments` (refused by the schema or the signature), `raised` (the tool raised), `unencodable`
    (the result cannot leave the sandbox), `too_large` (the result exceeds the cap), `malformed` (the agent's text
    cannot be made a call at all: it never reached the environment, so a replay skips it), `ended` (the call was the
    last: the program ended its process, or its output cannot be used; set only by the host), `not_offered` (the tool is
    the simulated user's and the agent called it, or vice versa; its message is that of an unknown tool).

    Two are neither the agent's nor the program's fault, since the attempt's disturbance injected them: `not_reached`
    (the call never reached the environment) and `response_lost` (the call was carried out, and this error replaces its
    result).
    """

    kind: Literal[
        "unknown_tool", "bad_arguments", "raised", "unencodable", "too_large", "malformed", "ended",
        "not_offered", "not_reached", "response_lost",
    ]  # fmt: skip
    type: str = ""
    message: str = ""


class CallResult(Frozen):
    """Outcome of one call. `result` is encoded like a state; `duration_us` is measured on the host.

    `executed` is False for a submitted answer: the call ended the attempt and never reached the environment.
    """

    ok: bool
    result: Any = None
    error: CallError | None = None
    patch: Patch = Field(default_factory=list)
    duration_us: int = 0
    aliases_state: bool | None = None
    executed: bool = Field(default=True, exclude_if=lambda value: value)


UNREACHED = ("malformed", "not_offered", "not_reached")
"""Kinds of errors of calls that never reached the environment."""
INJECTED = ("not_reached", "response_lost")
"""Kinds of errors that a disturbance injected: neither the agent's nor the program's."""


def is_unexecuted(result: CallResult | None) -> bool:
    """Return whether a call never reached the environment.

    It could not be carried out at all, named another actor's tool, was refused by a disturbance, or submitted the
    answer.
    """
    return result is not None and (not result.executed or (result.error is not None and result.error.kind in UNREACHED))


def is_injected(result: CallResult | None) -> bool:
    """Return whether the error of a call was injected by the attempt's disturbance."""
    return result is not None and result.error is not None and result.error.kind in INJECTED


def is_refusal(ok: bool, result: Any) -> bool:
    """Return whether a call's outcome is a refusal: an error, or an answer whose `success` is false."""
    return not ok or (isinstance(result, dict) and result.get("success") is False)


class Limits(Frozen):
    """Bounds on one sandboxed process. Exceeding one ends only that process."""

    memory_mib: int = 256
    call_seconds: float = 5.0
    cpu_seconds: int = 60
    frame_bytes: int = 16 * 1024 * 1024
    depth: int = 100
