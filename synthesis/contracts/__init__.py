"""Frozen types that cross every boundary: sandbox and host, synthesis and web app, web app and worker.

JSON-shaped throughout. `State` is always the *encoded* state (see `synthesis.runtime.encoding`): plain JSON
in which sets, tuples, non-string keys and the like are tagged objects, so that nothing is lost.
"""

from __future__ import annotations

from synthesis.contracts.answers import (
    AnswerField,
    AnswerType,
)
from synthesis.contracts.attempts import (
    UNCOUNTED,
    Attempt,
    Ending,
    Message,
    Outcome,
    PromptStyle,
    Timing,
    ToolCall,
    TrajectoryStep,
    Turn,
    Usage,
    UserKind,
)
from synthesis.contracts.base import (
    Finding,
    Frozen,
    Patch,
    Severity,
    State,
)
from synthesis.contracts.programs import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    CallError,
    CallResult,
    Limits,
    Program,
    Tool,
    ToolKind,
    Validation,
    is_refusal,
    is_unexecuted,
)
from synthesis.contracts.verifiers import (
    SAME_REWARD,
    SOLVED_AT,
    Allowance,
    AllowanceSource,
    Frame,
    Mark,
    OutsideChange,
    Reference,
    ReferenceCall,
    Reward,
    ScoreRule,
    Verdict,
    Withheld,
    same_reward,
)

__all__ = [
    "DEFAULT_NOW",
    "DEFAULT_SEED",
    "SAME_REWARD",
    "SOLVED_AT",
    "UNCOUNTED",
    "Allowance",
    "AllowanceSource",
    "AnswerField",
    "AnswerType",
    "Attempt",
    "CallError",
    "CallResult",
    "Ending",
    "Finding",
    "Frame",
    "Frozen",
    "Limits",
    "Mark",
    "Message",
    "Outcome",
    "OutsideChange",
    "Patch",
    "Program",
    "PromptStyle",
    "Reference",
    "ReferenceCall",
    "Reward",
    "ScoreRule",
    "Severity",
    "State",
    "Timing",
    "Tool",
    "ToolCall",
    "ToolKind",
    "TrajectoryStep",
    "Turn",
    "Usage",
    "UserKind",
    "Validation",
    "Verdict",
    "Withheld",
    "is_refusal",
    "is_unexecuted",
    "same_reward",
]
