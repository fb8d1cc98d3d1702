"""Start of a fork: what is stored of the parent up to a step, and the obstacles to a fork there."""

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
from synthesis.runtime.encoding import hash_state
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory
from webapp.trajectories.states import load_state_at
from webapp.trajectories.stored_runs import read_injection

CALLS = (StepKind.QUERY, StepKind.CHANGE)
CUT = "the rest is not kept)"
NOT_EXECUTED = ("ended", "unencodable")
"""Kinds of errors of calls of which nothing can be said when they are made again."""


@dataclass(frozen=True)
class ForkPoint:
    """A step of a parent to fork at. `rows` are its steps before that one; `user` are the turns of its user in them."""

    parent: Trajectory
    step: int
    rows: tuple[Step, ...]
    turns: tuple[Message, ...]
    style: PromptStyle
    user: tuple[UserTurn, ...] = ()

    def start(self) -> ForkStart:
        """Return the start of the fork. Raises InputError if the state at the fork is not stored."""
        digest = hash_state(load_state_at(self.parent, self.step - 1))
        return ForkStart(self.turns, tuple(map(to_stored_step, self.rows)), digest)

    def task(self, task: RolloutTask) -> RolloutTask:
        """Return the task with the parent's seed and clock."""
        return task.model_copy(update={"seed": self.parent.seed, "now": self.parent.now})

    def setting(self, **changes: Any) -> AttemptSetting:
        """Return the setting of the parent: its style, its validation, with or without a user."""
        return AttemptSetting(
            conversational=self.parent.conversational,
            prompt_style=self.style,
            validation=cast(Validation, self.parent.validation),
            user_tools=self.user_tools,
            **changes,
        )

    @property
    def user_tools(self) -> tuple[str, ...]:
        """The tools that only the parent's user could call."""
        return read_user_tools(self.parent)

    def build_user(self, then: User | None = None) -> User | None:
        """Return the parent's user, who continues as `then`; None without a conversation."""
        return RecordedUser(self.user, then) if self.parent.conversational else None


def read_user_tools(row: Trajectory) -> tuple[str, ...]:
    """Return the tools that only an attempt's simulated user could call; for a record without such a list, the tools
    that the user called."""
    listed = row.provenance.get("user_tools") if row.conversational else None
    if isinstance(listed, list):
        return tuple(name for name in listed if isinstance(name, str))
    if not row.user_call_count:
        return ()
    user_calls = row.steps.filter(by=CallBy.USER, kind__in=CALLS).exclude(error_kind__in=UNREACHED)
    return tuple(user_calls.order_by("tool").values_list("tool", flat=True).distinct())


def is_call(row: Step) -> bool:
    """Return whether a call was made in this step, including one that submitted the answer."""
    return row.kind in (*CALLS, StepKind.ANSWER)


def is_agent_step(row: Step) -> bool:
    """Return whether the step is the agent's: neither the user's words nor a call that the user made."""
    return row.kind != StepKind.USER and row.by == CallBy.AGENT


def is_executed(row: Step) -> bool:
    """Return whether the step is a call that reached the environment."""
    return row.kind in CALLS and row.error_kind not in UNREACHED


def to_stored_step(row: Step) -> StoredStep:
    """Return what a step must result in when it is made again."""
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


def load_fork_point(parent: Trajectory, step: int) -> ForkPoint:
    """Return the start of a fork of `parent` at `step`; its steps before that are kept. Raises InputError with the
    obstacle."""
    rows = tuple(parent.steps.filter(index__lt=step).order_by("index")) if 0 < step <= parent.step_count else ()
    problem = find_obstacle(parent, step, rows)
    if problem:
        raise InputError(problem)
    style = cast(PromptStyle, parent.provenance.get("prompt_style") or "tools")
    turns = _list_turns(parent, rows, style)
    user = [_build_user_turn(row) for row in rows if not is_agent_step(row)] if parent.conversational else []
    return ForkPoint(parent, step, rows, turns, style, tuple(user))


def _build_user_turn(row: Step) -> UserTurn:
    """Return the user's words in a step, or the call that the user made."""
    calls = (_build_call(row, row.index),) if is_call(row) else ()
    return UserTurn(content=row.content, reasoning=row.reasoning, calls=calls)


def find_obstacle(parent: Trajectory, step: int, rows: Sequence[Step]) -> str:
    """Return why the attempt cannot be forked at this step; empty if it can."""
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


def load_conversation(parent: Trajectory) -> list[Message] | None:
    """Return the conversation as the agent saw it, if the attempt was made here; None if only its steps show it."""
    messages = parent.record.get("conversation") if parent.starts else None
    if messages is None:
        return None
    try:
        return [Message.model_validate(message) for message in messages]
    except (ValidationError, TypeError) as error:
        raise FormatError("conversation", "what is stored of it cannot be read") from error


def _list_turns(parent: Trajectory, rows: Sequence[Step], style: PromptStyle) -> tuple[Message, ...]:
    """Return the parent's turns that make these steps. The last one may lose the calls after the fork."""
    conversation = load_conversation(parent)
    if conversation is None:
        return rebuild_turns(rows)
    count = max((row.turn for row in rows if is_agent_step(row)), default=0)
    turns = [message for message in conversation if message.role == "assistant"][:count]
    if len(turns) < count:
        raise InputError("The conversation of this attempt is not stored whole, so its turns cannot be made again.")
    if turns and turns[-1].tool_calls:
        kept_calls = sum(is_call(row) and is_agent_step(row) and row.turn == count for row in rows)
        if kept_calls < len(turns[-1].tool_calls):
            turns[-1] = _cut_turn(turns[-1], kept_calls, style, rows[-1].index)
    return tuple(turns)


def _cut_turn(turn: Message, made: int, style: PromptStyle, last: int) -> Message:
    if style != "tools":
        raise InputError(
            f"Step {last} is in the middle of a turn whose calls are written as one text ({style}). Fork before that "
            "turn or after its last call."
        )
    return turn.model_copy(update={"tool_calls": turn.tool_calls[:made]})


def rebuild_turns(rows: Sequence[Step]) -> tuple[Message, ...]:
    """Return turns made of steps, for attempts without a stored conversation: native calls, one message for each
    turn."""
    turns: dict[int, Message] = {}
    for row in rows:
        if not is_agent_step(row):
            continue
        message = turns.get(row.turn)
        if message is None:
            message = Message(role="assistant", content=row.content, reasoning=row.reasoning)
        if is_call(row):
            call = _build_call(row, len(message.tool_calls) + 1)
            message = message.model_copy(update={"tool_calls": (*message.tool_calls, call)})
        turns[row.turn] = message
    return tuple(turns[number] for number in sorted(turns))


def _build_call(row: Step, number: int) -> ToolCall:
    identity = f"call_{row.turn}_{number}"
    arguments = row.arguments or {}
    if row.error_kind == "malformed" and (row.tool != SUBMIT_ANSWER or UNPARSED in arguments):
        message = row.result.get("message") if isinstance(row.result, dict) else ""
        return ToolCall(
            id=identity, name=row.tool, raw=str(arguments.get(UNPARSED, "")), error=str(message) or "unread"
        )
    return ToolCall(id=identity, name=row.tool, arguments=arguments)


def find_fork_problem(parent: Trajectory, step: int) -> str:
    """Return why the attempt cannot be forked at this step, including all that reading it finds; empty if it can."""
    try:
        load_fork_point(parent, step)
    except EnvariumError as error:
        return str(error)
    return ""
