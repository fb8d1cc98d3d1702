"""Plans of attempts: the task as the loop needs it, its setting, the policy and the user."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, model_validator

from synthesis.contracts import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    Actor,
    AnswerField,
    ChecksVerifier,
    Disturbance,
    Frozen,
    Injection,
    Program,
    PromptStyle,
    RubricVerifier,
    State,
    Tool,
    Validation,
    Verifier,
)
from synthesis.errors import InputError
from synthesis.formats.answer_form import build_answer_tool, require_answer_tool
from synthesis.formats.criteria import needs_fact_judge
from synthesis.formats.verifier_record import nest_former_fields
from synthesis.llm import ChatModel
from synthesis.rollout.disturbance import draw_injection
from synthesis.rollout.fork import ForkStart
from synthesis.rollout.policy import Policy
from synthesis.rollout.user import User
from synthesis.verifiers.rewards import hash_verifier
from synthesis.verifiers.rubric import NO_JUDGE, Rubric

LISTED_TOOLS = 50
NO_USER_JUDGE = (
    "Whether the simulated user erred is to be judged, and no model plays the judge: name one, set a default model for "
    "the role judge, or do not ask for it."
)
TURNS = 30
CONVERSATION_TURNS = 40
"""The limits in EnvScaler's published code: 30 without a conversation, 40 with one. Its paper names none."""


class RolloutTask(Frozen):
    """A task with its scenario and program.

    `initial` is encoded; `documentation` is the agent's description of the environment. With an `answer_form`
    the agent submits its fields by a terminal tool. `key` is the caller's name for the task and is returned in each
    attempt."""

    key: str
    program: Program
    initial: State
    instruction: str
    answer_form: tuple[AnswerField, ...] = ()
    documentation: str = ""
    verifier: Verifier = ChecksVerifier()
    seed: int = DEFAULT_SEED
    now: str = DEFAULT_NOW

    @model_validator(mode="before")
    @classmethod
    def _nest_former_fields(cls, given: Any) -> Any:
        return nest_former_fields(given)

    @property
    def offered_tools(self) -> tuple[Tool, ...]:
        """The tools that the agent may call: the environment's, then the one that submits the answer."""
        return (*self.program.tools, _build_answer_tool(self.answer_form)) if self.answer_form else self.program.tools

    def pick_tools(self, names: Sequence[str]) -> tuple[Tool, ...]:
        """Return the environment's tools with these names, for a simulated user with tools of its own."""
        return tuple(tool for tool in self.program.tools if tool.name in names)

    @property
    def rubric(self) -> Rubric | None:
        """The rubric with the answer form for the criteria that code decides; None for another kind of verifier."""
        if not isinstance(self.verifier, RubricVerifier):
            return None
        return Rubric.from_verifier(self.verifier, self.answer_form)

    @property
    def asks_judge(self) -> bool:
        """True if a judge has to decide the reward of an attempt."""
        return needs_fact_judge(self.verifier.criteria)

    @property
    def verifier_hash(self) -> str:
        """The hash by which scores name the verifier."""
        return hash_verifier(self.verifier, self.answer_form)


@functools.lru_cache(maxsize=1_024)
def _build_answer_tool(form: tuple[AnswerField, ...]) -> Tool:
    """Build one object for each form, so that data derived from the tools of many attempts can be shared."""
    return build_answer_tool(form)


class AttemptSetting(Frozen):
    """The setting of an attempt. `max_turns` None means 30, or 40 in a conversation."""

    conversational: bool = False
    prompt_style: PromptStyle = "tools"
    max_turns: int | None = Field(default=None, ge=1, le=1_000)
    max_unusable: int = Field(default=3, ge=1)
    """So many unusable turns in a row (nothing said, no call that can be carried out) end it as `agent_error`."""
    max_calls_a_turn: int = Field(default=32, ge=1, le=128)
    max_answer_mends: int = Field(default=3, ge=0, le=20)
    """So many answers that do not fit the answer form may be mended; the next one ends it as `agent_error`."""
    validation: Validation = "schema"
    observation_chars: int = Field(default=20_000, ge=200)
    """A longer observation is cut for the agent, and says so."""
    kept_bytes: int = Field(default=16 * 1024 * 1024, ge=100_000)
    """What an attempt may hold in results and patches; past it, it is stopped as at the turn limit."""
    deadline_s: float = Field(default=3_600.0, gt=0)
    """What one attempt may take for its tools, and for silence; waiting for threads and for tokens does not count
    (`synthesis.rollout.deadline`). Past it something hangs, so it is an `infra_error`, not the agent's failure, or a
    `program_error` where the environment took most of the time."""

    judges_user: bool = False
    """Whether the plan's judge is asked, once a conversation is over, if the simulated user erred (AF A.1)."""
    disturbance: Disturbance = Disturbance()
    """How the agent's calls are disturbed (ES, limitation 3). Which of them are, the plan's `disturbance_seed`
    decides."""
    user_tools: tuple[str, ...] = ()
    """Tools of the environment that the simulated user alone may call: users with tools as in tau2-bench (AF 4.3; the
    mechanism is ours)."""

    @property
    def turn_limit(self) -> int:
        return self.max_turns or (CONVERSATION_TURNS if self.conversational else TURNS)


@dataclass(frozen=True)
class Plan:
    """One attempt to be made. A conversation needs a `user`. `ordinal` distinguishes attempts at one task.

    A `judge` decides the facts of a rubric, which cannot be attempted without one, and if the user erred. With a `fork`
    the first turns repeat another attempt's; they count among the attempt's turns, and their calls are disturbed as
    they were then.
    """

    task: RolloutTask
    policy: Policy
    setting: AttemptSetting = field(default_factory=AttemptSetting)
    user: User | None = None
    ordinal: int = 0
    judge: ChatModel | None = None
    fork: ForkStart | None = None
    disturbance_seed: str = ""

    def __post_init__(self) -> None:
        if self.setting.conversational and self.user is None:
            raise InputError("A conversation needs a simulated user; name the model that plays it.")
        require_user_tools(
            self.setting.user_tools, [tool.name for tool in self.task.program.tools], self.setting.conversational
        )
        require_answer_tool(self.task.answer_form, (tool.name for tool in self.task.program.tools))
        if self.task.asks_judge and self.judge is None:
            raise InputError(NO_JUDGE)
        if self.setting.conversational and self.setting.judges_user and self.judge is None:
            raise InputError(NO_USER_JUDGE)

    @property
    def agent_tools(self) -> tuple[Tool, ...]:
        """The environment's tools that the agent may call: all but the user's."""
        return self._without_user_tools(self.task.program.tools)

    @property
    def offered_tools(self) -> tuple[Tool, ...]:
        """The tools that the agent is offered: its own of the environment, and the one that submits its answer."""
        return self._without_user_tools(self.task.offered_tools)

    def _without_user_tools(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        mine = self.setting.user_tools
        return tuple(tool for tool in tools if tool.name not in mine) if mine else tools

    def is_kept_from(self, who: Actor, tool: str) -> bool:
        """Return whether an actor may not call a tool: the agent none of the user's, the user none but those."""
        return (tool in self.setting.user_tools) == (who == "agent")

    def injection_at(self, place: int, tool: str) -> Injection | None:
        """Return the disturbance of a call in the step at this place.

        None for no disturbance, and for a tool that the environment does not have or reserves for the user.
        """
        if self.fork is not None and place < len(self.fork.steps):
            return self.fork.steps[place].injected
        if not self.setting.disturbance.is_on or all(known.name != tool for known in self.agent_tools):
            return None
        return draw_injection(self.setting.disturbance, self.disturbance_seed, place)


def require_user_tools(names: Sequence[str], tools: Sequence[str], conversational: bool = True) -> None:
    """Raise InputError if the user's own tools are unknown to the environment, or all of its tools, or there is no
    user."""
    unknown = [name for name in names if name not in tools]
    if unknown:
        listed = ", ".join(tools[:LISTED_TOOLS]) + (
            f" and {len(tools) - LISTED_TOOLS} more" * (len(tools) > LISTED_TOOLS)
        )
        raise InputError(f"user_tools: the environment has no tool {unknown[0][:200]!r}. It has: {listed}.")
    if names and not conversational:
        raise InputError(
            "user_tools: only a simulated user has tools of its own; ask for a conversation, or name none."
        )
    if names and len(set(names)) >= len(tools):
        raise InputError("user_tools: every tool of the environment is named; leave the agent one at least.")


def format_documentation(introduction: str, rules: Sequence[str]) -> str:
    """Return an environment's description and rules as text for the agent."""
    parts = [introduction.strip()]
    if rules:
        parts.append("Rules:\n" + "\n".join(f"- {rule.strip()}" for rule in rules))
    return "\n\n".join(part for part in parts if part)
