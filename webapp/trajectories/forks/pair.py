"""A fork and its parent as a training pair: the turns they share once, then the continuation of each."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import CallError, CallResult, Message
from synthesis.errors import FormatError
from synthesis.formats.preference import build_preference_pair
from synthesis.formats.sft import Conversation
from synthesis.rollout.observation import format_observation, shorten_observation
from synthesis.rollout.styles import build_result_messages, build_system_message
from webapp.common.errors import Conflict, NotFound
from webapp.trajectories.export.record_source import Origins, keep_agent_tools
from webapp.trajectories.forks.starts import ForkPoint, is_call, load_conversation, rebuild_turns
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory
from webapp.trajectories.rollouts.plans import build_rollout_task


def find_pair_problem(fork: Trajectory) -> str:
    """Return why a fork and its parent are no training pair; empty if they are one."""
    parent = fork.parent
    if parent is None:
        return "This attempt is not a fork, or its parent no longer exists: a pair needs both."
    if fork.live or parent.live:
        return "One of the two is still being made."
    for row in (parent, fork):
        if row.reward is None:
            return f"Trajectory {row.pk} has no reward, so it is not known which of the two is better."
    if fork.revision_id != parent.revision_id:
        return "The two were judged at different revisions of the task."
    if fork.reward == parent.reward:
        return f"Both earned {fork.reward:g}, so neither is the better one."
    return ""


def build_pair(fork: Trajectory) -> dict[str, Any]:
    """Return the pair, the better one chosen. Raises NotFound (it is no fork), Conflict (with the reason why it is no
    pair)."""
    problem = find_pair_problem(fork)
    parent = fork.parent
    if parent is None:
        raise NotFound(problem)
    if problem:
        raise Conflict(problem)
    better = (fork.reward or 0.0) > (parent.reward or 0.0)
    chosen, rejected = (fork, parent) if better else (parent, fork)
    try:
        return build_preference_pair(_load_conversation(chosen), _load_conversation(rejected))
    except FormatError as error:
        raise Conflict(f"No pair can be made of them: {error}.") from error


def _load_conversation(row: Trajectory) -> Conversation:
    origins = Origins()
    origins.learn([row.attempted_revision.pk])
    tools = keep_agent_tools(origins.of(row.attempted_revision.pk).offered, row.provenance)
    style = row.provenance.get("prompt_style") or "tools"
    stored_messages = load_conversation(row)
    return Conversation(
        messages=tuple(stored_messages if stored_messages is not None else _rebuild_conversation(row)),
        tools=tools,
        style=style,
    )


def _rebuild_conversation(row: Trajectory) -> list[Message]:
    """Return the conversation that a fork of the attempt begins with, to its end: for attempts without a stored one."""
    steps = list(row.steps.exclude(by=CallBy.USER).order_by("index"))
    point = ForkPoint(row, len(steps), (), (), "tools")
    setting, task = point.setting(), build_rollout_task(row.attempted_revision)
    agent_tools = keep_agent_tools(task.program.tools, row.provenance)
    system, _ = build_system_message("tools", row.conversational, task.documentation, agent_tools, task.answer_form)
    messages = [system]
    if not row.conversational:
        messages.append(Message(role="user", content=row.attempted_revision.instruction))
    turn: list[Step] = []
    for step in [*steps, None]:
        if turn and (step is None or step.kind == StepKind.USER or step.turn != turn[0].turn):
            (message,) = rebuild_turns(turn)
            read = [
                shorten_observation(_format_observation(one), setting.observation_chars) for one in turn if is_call(one)
            ]
            messages += [message, *build_result_messages("tools", message.tool_calls, read)]
            turn = []
        if step is not None and step.kind != StepKind.USER:
            turn.append(step)
        elif step is not None and row.conversational:
            messages.append(Message(role="user", content=step.content))
    return messages


def _format_observation(row: Step) -> str:
    """Return a stored result as an agent reads it."""
    if row.ok:
        return format_observation(CallResult(ok=True, result=row.result))
    error = row.result if isinstance(row.result, dict) else {}
    error_values = {name: str(error.get(name) or "") for name in ("type", "message")}
    return format_observation(CallResult(ok=False, error=CallError(kind="raised", **error_values)))
