"""Attempts: messages, turns, steps, and outcomes."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from synthesis.contracts.base import Frozen
from synthesis.contracts.disturbances import Disturbance, Injection
from synthesis.contracts.programs import DEFAULT_NOW, DEFAULT_SEED, CallResult, Validation
from synthesis.contracts.verifiers import Reward

Outcome = Literal["solved", "failed", "agent_error", "program_error", "infra_error", "truncated", "cancelled"]
"""`program_error`: the environment's program ended the episode. It counts as an attempt that did not solve its task."""
UNCOUNTED: tuple[Outcome, ...] = ("infra_error", "cancelled")
"""Outcomes that say nothing about agent or program: they have no part in any rate. `program_error` has, without a
reward of its own."""
PromptStyle = Literal["tools", "react", "call"]
"""How an agent spells a call: `tools` natively, `react` as Thought/Action text, `call` as `func(args)` text."""
UserKind = Literal["base", "optimised"]
SentReasoning = Literal["dropped", "field", "words"]
"""What a model behind an endpoint sees of its reasoning in earlier turns (AF 3.4, interleaved thinking): nothing, the
field `reasoning_content` of its messages, or a `<think>` block before its words."""
Think = Literal["model", "on", "off"]
"""Whether a model behind an endpoint thinks before it writes: as it does by itself, or as `enable_thinking` of its chat
template says (`chat_template_kwargs`; ES Tables 3, 9)."""
Actor = Literal["agent", "user"]
"""Whose call it is: the agent's, or that of a simulated user with tools of its own."""
UserFinding = Literal["none", "fault", "unknown"]
UserRule = Literal[1, 2, 3]
Ending = Literal[
    "answered", "user_stopped", "turn_limit", "too_long", "cut", "unusable", "program_ended", "lost", "cancelled"
]
"""How an attempt came to its end, whatever it earned. `too_long`: the conversation outgrew the model's window or what
an attempt may hold; `cut`: the last words were broken off at the limit of tokens, or for repeating themselves without
end; `unusable`: turn after turn held nothing of use, or too many answers did not fit the answer form; `program_ended`:
the program's process exited, ran out of time or memory, broke the protocol or left a state that cannot be read; `lost`:
sandbox, LLM or user failed."""


class ToolCall(Frozen):
    """Call that an agent asks for. `raw` is its text if the agent wrote it as text.

    With `error` set it cannot be executed (for example if its arguments are not a JSON object); then `arguments` is
    empty.
    """

    id: str = ""
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    raw: str = ""
    error: str = ""


class Message(Frozen):
    """One message of a conversation.

    `reasoning` is kept apart from `content`; it is sent as `reasoning_content`, so callers that do not want it sent
    remove it. With a text style (`react`, `call`) `content` is all the agent wrote, including calls, and `tool_calls`
    the calls read from it.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


class Usage(Frozen):
    """Tokens as counted by the endpoint, and the requests behind them: `requests` sent, of which `lost` gave no reply.

    An endpoint that counts nothing leaves the tokens 0.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    lost: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in type(self).model_fields})


class Turn(Frozen):
    """One move of a policy. Ids and log-probabilities are set if the policy knows them; they belong together."""

    message: Message
    prompt_ids: tuple[int, ...] | None = None
    completion_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    usage: Usage | None = None
    finish_reason: str = ""


class TrajectoryStep(Frozen):
    """One step of an attempt. `turn` numbers the agent's turns from 1; calls of one parallel turn share it.

    `content` is the text with a call or instead of one, `observation` the text that the agent read afterwards. A call
    that could not be executed has a `result` with an error (`malformed`) and an empty patch; so has a submitted answer
    that does not fit the answer form. The accepted answer has a result that was not `executed`. `cut` is the reason why
    its turn was cut off (`length`, `repetition`), and is empty for a whole one. `injected` is the effect of the
    attempt's disturbance on the call, None if there was none.

    `by` is the actor of the call. A call of the simulated user has the number of the agent's turn before it, and
    nothing of it reaches the agent: `observation` is the text that the user read.
    """

    kind: Literal["user", "message", "call"]
    turn: int = 0
    content: str = ""
    reasoning: str = ""
    tool: str = ""
    arguments: dict[str, Any] = Field(default_factory=dict)
    result: CallResult | None = None
    observation: str = ""
    cut: str = ""
    injected: Injection | None = Field(default=None, exclude_if=lambda value: value is None)
    by: Actor = Field(default="agent", exclude_if=lambda value: value == "agent")


class Timing(Frozen):
    """Seconds of an attempt by part (AutoForge, Table 3).

    `wall_s` is its whole time from beginning to end, to which the parts do not add up: waiting for a free thread
    belongs to none of them.
    """

    environment_s: float = 0.0
    agent_s: float = 0.0
    user_s: float = 0.0
    verification_s: float = 0.0
    wall_s: float = 0.0


class UserMistake(Frozen):
    """One mistake of a simulated user, by the rule of AutoForge's appendix A.1 that it breaks.

    `rule` 1: the message contradicts the intent; 2: it has content that is not in the intent; 3: asked for something in
    the intent, the user does not say it. `quote` occurs in the user's `line` (numbered from 1, the agent's messages
    counted), and `intent` in the intent; code has verified both. Under rule 2 `intent` is empty. Results of the user's
    own tools before that line count as its intent, and have lines too (ours: A.1 knows no users with tools).
    """

    rule: UserRule
    line: int
    quote: str
    intent: str = ""
    reason: str = ""


class UserVerdict(Frozen):
    """Verdict of a judge on the simulated user of an attempt (AF 3.4, A.1). The judge sees neither the agent's calls
    nor the reward.

    `unknown`: the judge could not be asked or gave no usable verdict; `note` has the reason. That is never a fault.
    `judge` is empty if code could decide. `question` is the SHA-256 of the prompt.
    """

    finding: UserFinding
    mistakes: tuple[UserMistake, ...] = ()
    judge: str = ""
    question: str = ""
    note: str = ""


class Attempt(Frozen):
    """Attempt of one policy at one task, and its reward.

    `user_error`: the simulated user gave no usable reply, which ended the attempt. `user_verdict`: the verdict on the
    user's messages, if a judge was asked; it changes neither outcome nor reward.

    `reward` is None if nothing could be judged (`program_error`, `infra_error`, `cancelled`). Of these `program_error`
    counts in denominators, as an attempt that earned nothing; the others are never a reward of 0. `final_hash` is the
    hash of the final state, empty if it was not reached. `messages` is the conversation as the agent saw it, `turns`
    its own moves. `prompts` maps the prompts used to their SHA-256. `sandbox_lost` is for the caller, who may begin the
    attempt again: our infrastructure lost its process. `ended_by` is the reason of a `program_error` (`time`, `memory`,
    ...), if known. `disturbance` is the kind of disturbance of calls; `disturbance_seed` decides, with the place of the
    step, which of them it affects. `user_tools` are the tools that only the user could call.
    """

    key: str = ""
    """Names the task, as its caller chose."""
    ordinal: int = 0
    policy: str
    conversational: bool = False
    prompt_style: PromptStyle = "tools"
    user: str = ""
    user_tools: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    validation: Validation = "schema"
    seed: int = DEFAULT_SEED
    now: str = DEFAULT_NOW
    disturbance: Disturbance = Field(default=Disturbance(), exclude_if=lambda value: not value.is_on)
    disturbance_seed: str = Field(default="", exclude_if=lambda value: not value)
    steps: tuple[TrajectoryStep, ...] = ()
    messages: tuple[Message, ...] = ()
    turns: tuple[Turn, ...] = ()
    answer: str = ""
    ending: Ending
    outcome: Outcome
    reward: Reward | None = None
    final_hash: str = ""
    user_error: bool = False
    user_verdict: UserVerdict | None = None
    sandbox_lost: bool = Field(default=False, exclude=True)
    ended_by: str = ""
    note: str = ""
    prompts: dict[str, str] = Field(default_factory=dict)
    usage: Usage = Usage()
    user_usage: Usage = Usage()
    judge_usage: Usage = Usage()
    timing: Timing = Timing()

    @property
    def user_fault(self) -> UserFinding | Literal[""]:
        """The judge's finding on mistakes of the simulated user; empty if no judge was asked."""
        return self.user_verdict.finding if self.user_verdict is not None else ""
