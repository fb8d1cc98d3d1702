"""Where a fork begins: what is stored of the parent up to a step, and what stands in the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import ValidationError

from synthesis.contracts import UNREACHED, Actor, Message, PromptStyle, ToolCall, Validation
from synthesis.errors import EnvariumError, FormatError, InputError
from synthesis.formats.answer_form import SUBMIT_ANSWER
from synthesis.formats.transcript import UNPARSED
from synthesis.rollout import AttemptSetting, ForkStart, RecordedUser, RolloutTask, StoredStep, User, UserTurn
from synthesis.rollout.fork import UNKNOWN
from synthesis.rollout.user import split_stop
from synthesis.runtime.encoding import state_hash
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory
from webapp.trajectories.states import state_at
from webapp.trajectories.stored_runs import read_injection

CALLS = (StepKind.QUERY, StepKind.CHANGE)
CUT = "the rest is not kept)"
NOT_EXECUTED = ("ended", "unencodable")
"""Kinds of errors of calls of which nothing can be said when they are made again."""


@dataclass(frozen=True)
class ForkPoint:
    """A step of a parent to fork at. `rows` are its steps before that one; `user` what its user said in them."""

    parent: Trajectory
    step: int
    rows: tuple[Step, ...]
    turns: tuple[Message, ...]
    style: PromptStyle
    user: tuple[UserTurn, ...] = ()

    def start(self) -> ForkStart:
        """Raises InputError where the state at the fork is not stored."""
        digest = state_hash(state_at(self.parent, self.step - 1))
        return ForkStart(self.turns, tuple(map(stored, self.rows)), digest)

    def task(self, task: RolloutTask) -> RolloutTask:
        """The task with the parent's seed and clock."""
        return task.model_copy(update={"seed": self.parent.seed, "now": self.parent.now})

    def setting(self, **changes: Any) -> AttemptSetting:
        """As the parent was made: its style, its validation, with or without a user."""
        return AttemptSetting(
            conversational=self.parent.conversational,
            prompt_style=self.style,
            validation=cast(Validation, self.parent.validation),
            user_tools=self.user_tools,
            **changes,
        )

    @property
    def user_tools(self) -> tuple[str, ...]:
        """The tools that the parent's user alone could call."""
        return read_user_tools(self.parent)

    def heard(self, then: User | None = None) -> User | None:
        """The parent's user, who goes on as `then`; None without a conversation."""
        return RecordedUser(self.user, then) if self.parent.conversational else None


def read_user_tools(row: Trajectory) -> tuple[str, ...]:
    """The tools that an attempt's simulated user alone could call; of a record that names none those that it called."""
    listed = row.provenance.get("user_tools") if row.conversational else None
    if isinstance(listed, list):
        return tuple(name for name in listed if isinstance(name, str))
    if not row.user_call_count:
        return ()
    made = row.steps.filter(by=CallBy.USER, kind__in=CALLS).exclude(error_kind__in=UNREACHED)
    return tuple(made.order_by("tool").values_list("tool", flat=True).distinct())


def is_call(row: Step) -> bool:
    """Whether a call was made in this step, also one that submitted the answer."""
    return row.kind in (*CALLS, StepKind.ANSWER)


def is_agents(row: Step) -> bool:
    """Whether the step is the agent's: neither the user's words nor a call that the user made."""
    return row.kind != StepKind.USER and row.by == CallBy.AGENT


def is_executed(row: Step) -> bool:
    """Whether the step is a call that reached the environment."""
    return row.kind in CALLS and row.error_kind not in UNREACHED


def stored(row: Step) -> StoredStep:
    """What a step must come to when it is made again."""
    kind = cast(Literal["user", "message", "call"], "call" if is_call(row) else row.kind)
    cut = isinstance(row.result, str) and row.result.endswith(CUT)
    return StoredStep(
        kind=kind,
        tool=row.tool,
        ok=row.ok,
        error=row.error_kind,
        result=UNKNOWN if cut or not row.ok else row.result,
        patch=None if row.change_count and not row.patch else row.patch,
        injected=read_injection(row.injected),
        by=cast(Actor, row.by),
    )


def fork_point(parent: Trajectory, step: int) -> ForkPoint:
    """Where a fork of `parent` at `step` begins; its steps before that are kept. Raises InputError with what stands in
    the way."""
    rows = tuple(parent.steps.filter(index__lt=step).order_by("index")) if 0 < step <= parent.step_count else ()
    problem = obstacle(parent, step, rows)
    if problem:
        raise InputError(problem)
    style = cast(PromptStyle, parent.provenance.get("prompt_style") or "tools")
    turns = _turns(parent, rows, style)
    user = [_user_turn(row) for row in rows if not is_agents(row)] if parent.conversational else []
    return ForkPoint(parent, step, rows, turns, style, tuple(user))


def _user_turn(row: Step) -> UserTurn:
    """What the user said in a step, or the call that it made."""
    calls = (_call(row, row.index),) if is_call(row) else ()
    return UserTurn(content=row.content, reasoning=row.reasoning, calls=calls)


def obstacle(parent: Trajectory, step: int, rows: Sequence[Step]) -> str:
    """Why the attempt cannot be forked at this step; empty where it can."""
    if parent.live:
        return "The attempt is still being made. Fork it once it has ended."
    if not 0 < step <= parent.step_count:
        last = parent.step_count
        return f"A fork is made at step 1 to {last}: it keeps the steps before that one, of which step 0 is the task."
    if len(rows) != step or not rows[0].snapshot_id:
        return "The steps of this attempt were not executed here, so there is no state to go on from."
    for row in rows:
        if is_call(row) and (row.ok is None or row.error_kind in NOT_EXECUTED):
            return f"Step {row.index} cannot be made again: its call was not carried out to an end. Fork before it."
        if row.kind == StepKind.ANSWER:
            return f"The attempt ended with the answer of step {row.index}. Fork before it."
        if row.kind == StepKind.MESSAGE and row.content and not row.recorded and not parent.conversational:
            return f"The attempt ended with the words of step {row.index}. Fork before them."
        if row.kind == StepKind.USER and parent.conversational and split_stop(row.content)[1]:
            return f"The user ended the talk at step {row.index}. Fork before it."
    return ""


def conversation_kept(parent: Trajectory) -> list[Message] | None:
    """The conversation as the agent saw it, where the attempt was made here; else its steps tell it."""
    kept = parent.record.get("conversation") if parent.starts else None
    if kept is None:
        return None
    try:
        return [Message.model_validate(message) for message in kept]
    except (ValidationError, TypeError) as error:
        raise FormatError("conversation", "what is stored of it cannot be read") from error


def _turns(parent: Trajectory, rows: Sequence[Step], style: PromptStyle) -> tuple[Message, ...]:
    """The parent's turns that make these steps. The last one may lose the calls behind the fork."""
    kept = conversation_kept(parent)
    if kept is None:
        return rebuilt(rows)
    count = max((row.turn for row in rows if is_agents(row)), default=0)
    turns = [message for message in kept if message.role == "assistant"][:count]
    if len(turns) < count:
        raise InputError("The conversation of this attempt is not stored whole, so its turns cannot be made again.")
    if turns and turns[-1].tool_calls:
        made = sum(is_call(row) and is_agents(row) and row.turn == count for row in rows)
        if made < len(turns[-1].tool_calls):
            turns[-1] = _cut(turns[-1], made, style, rows[-1].index)
    return tuple(turns)


def _cut(turn: Message, made: int, style: PromptStyle, last: int) -> Message:
    if style != "tools":
        raise InputError(
            f"Step {last} is in the middle of a turn whose calls are written as one text ({style}). Fork before that "
            "turn or after its last call."
        )
    return turn.model_copy(update={"tool_calls": turn.tool_calls[:made]})


def rebuilt(rows: Sequence[Step]) -> tuple[Message, ...]:
    """Turns made of steps, for attempts whose conversation is not stored as it was seen: native calls, one message a
    turn."""
    turns: dict[int, Message] = {}
    for row in rows:
        if not is_agents(row):
            continue
        known = turns.get(row.turn)
        if known is None:
            known = Message(role="assistant", content=row.content, reasoning=row.reasoning)
        if is_call(row):
            call = _call(row, len(known.tool_calls) + 1)
            known = known.model_copy(update={"tool_calls": (*known.tool_calls, call)})
        turns[row.turn] = known
    return tuple(turns[number] for number in sorted(turns))


def _call(row: Step, number: int) -> ToolCall:
    identity = f"call_{row.turn}_{number}"
    arguments = row.arguments or {}
    if row.error_kind == "malformed" and (row.tool != SUBMIT_ANSWER or UNPARSED in arguments):
        message = row.result.get("message") if isinstance(row.result, dict) else ""
        return ToolCall(
            id=identity, name=row.tool, raw=str(arguments.get(UNPARSED, "")), error=str(message) or "unread"
        )
    return ToolCall(id=identity, name=row.tool, arguments=arguments)


def problem_at(parent: Trajectory, step: int) -> str:
    """Why the attempt cannot be forked at this step, with all that reading it would find; empty where it can."""
    try:
        fork_point(parent, step)
    except EnvariumError as error:
        return str(error)
    return ""
