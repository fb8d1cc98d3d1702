"""The data that an attempt collects while it runs, and the record made from it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from synthesis.contracts import (
    SOLVED_AT,
    Attempt,
    Ending,
    Message,
    Outcome,
    Reward,
    State,
    Timing,
    ToolCall,
    TrajectoryStep,
    Turn,
    Usage,
    UserVerdict,
)
from synthesis.rollout.deadline import Deadline
from synthesis.rollout.environment_calls import AttemptEpisode
from synthesis.rollout.plan import Plan

OnStart = Callable[[Plan, State], Awaitable[None]]
OnStep = Callable[[Plan, TrajectoryStep], Awaitable[None]]
OnActed = Callable[[Plan], None]
_OUTCOMES: dict[Ending, Outcome] = {
    "answered": "failed",
    "user_stopped": "failed",
    "turn_limit": "truncated",
    "too_long": "truncated",
    "cut": "truncated",
    "unusable": "agent_error",
    "program_ended": "program_error",
    "lost": "infra_error",
    "cancelled": "cancelled",
}


@dataclass(frozen=True)
class AttemptFollower:
    """Callbacks of an attempt.

    `on_start` is awaited with the first state, `on_step` after each step; `on_acted` is called after the policy's last
    turn, before the attempt is judged.
    """

    on_start: OnStart | None = None
    on_step: OnStep | None = None
    on_acted: OnActed | None = None


@dataclass
class Log:
    """One attempt in progress.

    `talk` is what the simulated user may see: its own words and the agent's, and the results of its own calls. `answer`
    is what checks read: for a task with an answer form the submitted object, else in a conversation all words of the
    agent to the user, without one its last words.
    """

    plan: Plan
    follow: AttemptFollower
    deadline: Deadline
    turn: int = 0
    steps: list[TrajectoryStep] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    talk: list[Message] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    answer: str = ""
    last_turn: int = 0
    submitted: bool = False
    refused: int = 0
    """So many times what should have been the answer did not fit the answer form."""
    answer_cut: bool = False
    """Whether the answer could not be read because its turn was broken off."""
    talk_ended: bool = False
    """Whether the user ended the conversation, and the agent was asked for the answer since."""
    ended_by: str = ""
    cut: str = ""
    """Why the last turn was broken off; empty if it is complete."""
    note: str = ""
    prompts: dict[str, str] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    user_usage: Usage = field(default_factory=Usage)
    agent_s: float = 0.0
    user_s: float = 0.0
    held: int = 0
    started: bool = False
    """Whether the follower has been notified of the start and of all steps before it."""

    def __post_init__(self) -> None:
        self.last_turn = self.plan.setting.turn_limit

    async def start(self, initial: State) -> None:
        """Report to the follower that the episode has begun, and the steps that were made before."""
        if self.follow.on_start is not None:
            await self.follow.on_start(self.plan, initial)
        if self.follow.on_step is not None:
            for step in self.steps:  # the list may grow during the iteration
                await self.follow.on_step(self.plan, step)
        self.started = True

    async def add(self, step: TrajectoryStep) -> None:
        if self.cut and step.kind != "user" and step.by == "agent":
            step = step.model_copy(update={"cut": self.cut})
        if self.plan.fork is not None:
            self.plan.fork.require(len(self.steps), step)
        self.steps.append(step)
        if self.started and self.follow.on_step is not None:
            await self.follow.on_step(self.plan, step)

    def require_fork_state(self, state_hash: Callable[[], str]) -> None:
        """Compare the state with the one in which a fork begins, before any new call can change it.

        Raise ReplayMismatch.
        """
        fork = self.plan.fork
        if fork is None or (len(self.steps) < len(fork.steps) and self.turn <= len(fork.turns)):
            return
        if not any(step.kind == "call" for step in self.steps[len(fork.steps) :]):
            fork.require_state(len(self.steps), state_hash())

    def give_call_ids(self, message: Message) -> Message:
        """Return the message with a unique id for each call."""
        calls = name_calls(message.tool_calls, self.messages, f"call_{self.turn}")
        return message.model_copy(update={"tool_calls": calls})


def name_calls(calls: Sequence[ToolCall], earlier: Sequence[Message], name: str) -> tuple[ToolCall, ...]:
    """Return the calls with a unique id for each: some servers give none, or the same twice."""
    used = {call.id for message in earlier for call in message.tool_calls}
    named: list[ToolCall] = []
    for number, call in enumerate(calls, 1):
        if not call.id or call.id in used:
            call = call.model_copy(update={"id": f"{name}_{number}"})
        used.add(call.id)
        named.append(call)
    return tuple(named)


def derive_outcome(ending: Ending, reward: Reward | None) -> Outcome:
    """Return the outcome of an attempt. One with the full reward is solved, unless its last words were cut.

    Without a reward no attempt is solved.
    """
    solved = reward is not None and reward.reward >= SOLVED_AT and ending != "cut"
    return "solved" if solved else _OUTCOMES[ending]


def build_attempt(
    log: Log,
    episode: AttemptEpisode,
    ending: Ending,
    *,
    digest: str = "",
    reward: Reward | None = None,
    user_error: bool = False,
    user_verdict: UserVerdict | None = None,
    sandbox_lost: bool = False,
) -> Attempt:
    """Build the finished record."""
    plan = log.plan
    return Attempt(
        key=plan.task.key,
        ordinal=plan.ordinal,
        policy=plan.policy.name,
        conversational=plan.setting.conversational,
        prompt_style=plan.setting.prompt_style,
        user=plan.user.name if plan.user and plan.setting.conversational else "",
        user_tools=plan.setting.user_tools,
        validation=plan.setting.validation,
        seed=plan.task.seed,
        now=plan.task.now,
        disturbance=plan.setting.disturbance,
        disturbance_seed=plan.disturbance_seed if plan.setting.disturbance.is_on else "",
        steps=tuple(log.steps),
        messages=tuple(log.messages),
        turns=tuple(log.turns),
        answer=log.answer,
        ending=ending,
        outcome=derive_outcome(ending, reward),
        reward=reward,
        final_hash=digest,
        user_error=user_error,
        user_verdict=user_verdict,
        sandbox_lost=sandbox_lost,
        ended_by=log.ended_by,
        note=log.note,
        prompts=log.prompts,
        usage=log.usage,
        user_usage=log.user_usage,
        judge_usage=episode.judge.usage if episode.judge is not None else Usage(),
        timing=Timing(
            environment_s=episode.environment_s,
            agent_s=log.agent_s,
            user_s=log.user_s,
            verification_s=episode.verification_s,
            wall_s=log.deadline.wall_s,
        ),
    )
