"""Frozen types that cross every boundary: sandbox and host, synthesis and web app, web app and worker.

JSON-shaped throughout. `State` is always the *encoded* state (see `synthesis.runtime.encoding`): plain JSON
in which sets, tuples, non-string keys and the like are tagged objects, so that nothing is lost.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

State = dict[str, Any]
Patch = list[dict[str, Any]]
"""RFC 6902 operations, `add`, `remove` and `replace` only."""

Validation = Literal["schema", "source"]
"""`schema`: arguments are validated against the tool's working schema. `source`: the call as it was."""
ToolKind = Literal["query", "change"]
Severity = Literal["info", "warning", "fatal"]
Outcome = Literal["solved", "failed", "agent_error", "infra_error", "truncated", "cancelled"]
ScoreRule = Literal["goals", "proportion"]
Mark = Literal["goal", "guard", "broken"]
"""What a check is on the initial state: a goal is false there, a guard true, a broken one raises."""

DEFAULT_SEED = 0
DEFAULT_NOW = "2025-01-01T09:00:00+00:00"
SOLVED_AT = 1 - 1e-9


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tool(Frozen):
    """One tool of a program. `parameters` is the *working* JSON schema, derived from the signature."""

    name: str
    description: str = ""
    kind: ToolKind = "query"
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})


class Program(Frozen):
    """What the runtime needs of an environment version. Only the tools in `tools` can be called."""

    source: str
    class_name: str
    tools: tuple[Tool, ...]


class CallError(Frozen):
    """Why a call was refused or failed: an observation, not an exception.

    `unknown_tool`, `bad_arguments` (refused by the schema or the signature), `raised` (the tool raised),
    `unencodable` (the result cannot leave the sandbox), `too_large` (the result exceeds the cap).
    """

    kind: Literal["unknown_tool", "bad_arguments", "raised", "unencodable", "too_large"]
    type: str = ""
    message: str = ""


class CallResult(Frozen):
    """One executed call. `result` is encoded like a state; `duration_us` is measured in the child."""

    ok: bool
    result: Any = None
    error: CallError | None = None
    patch: Patch = Field(default_factory=list)
    duration_us: int = 0
    aliases_state: bool | None = None


class Verdict(Frozen):
    """One check on one state. `error` is set when the check raised or was stopped; then `passed` is false."""

    passed: bool
    error: str = ""
    non_boolean: bool = False


class Reward(Frozen):
    """A verifier's verdict: `reward` in [0, 1], the passed and total counts that made it, check by check."""

    reward: float
    passed: int
    total: int
    rule: ScoreRule
    verdicts: tuple[Verdict, ...]


class ReferenceCall(Frozen):
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)


class Reference(Frozen):
    """A call sequence known to solve a task, and what is said in the end."""

    calls: tuple[ReferenceCall, ...] = ()
    answer: str = ""


class Finding(Frozen):
    """A defect that is shown, not hidden. `place` is a path a person can follow (`tools.book_slot`)."""

    kind: str
    severity: Severity = "warning"
    place: str = ""
    message: str
    data: dict[str, Any] = Field(default_factory=dict)


class Layer(Frozen):
    name: str
    active: bool
    detail: str = ""


class SandboxReport(Frozen):
    """What protects the host from programs right now; shown on /healthz and in the docs."""

    mode: Literal["root", "user", "no_namespaces", "reduced"]
    layers: tuple[Layer, ...]
    preloaded: tuple[str, ...]


class Limits(Frozen):
    """Bounds on one sandboxed process. Exceeding one ends that process and nothing else."""

    memory_mib: int = 256
    call_seconds: float = 5.0
    cpu_seconds: int = 60
    frame_bytes: int = 16 * 1024 * 1024
    depth: int = 100
