"""A fork and its parent as a training pair: the turns they share once, then what each went on with."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import CallError, CallResult, Message
from synthesis.errors import FormatError
from synthesis.formats.preference import preference_of
from synthesis.formats.sft import Conversation
from synthesis.rollout.observation import bounded, observation
from synthesis.rollout.styles import result_messages, system_message
from webapp.errors import Conflict, NotFound
from webapp.trajectories.export.record_source import Origins, keep_agent_tools
from webapp.trajectories.forks.starts import ForkPoint, conversation_kept, is_call, rebuilt
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory
from webapp.trajectories.rollouts.plans import task_of


def no_pair(fork: Trajectory) -> str:
    """Why a fork and its parent are no training pair; empty where they are one."""
    parent = fork.parent
    if parent is None:
        return "This attempt is no fork, or its parent is gone: a pair needs both."
    if fork.live or parent.live:
        return "One of the two is still being made."
    for row in (parent, fork):
        if row.reward is None:
            return f"Trajectory {row.pk} has no reward, so nobody knows which of the two is the better one."
    if fork.revision_id != parent.revision_id:
        return "The two were judged at different revisions of the task."
    if fork.reward == parent.reward:
        return f"Both earned {fork.reward:g}, so neither is the better one."
    return ""


def pair_of(fork: Trajectory) -> dict[str, Any]:
    """The pair, the better one chosen. Raises NotFound (it is no fork), Conflict (with why it is no pair)."""
    problem = no_pair(fork)
    parent = fork.parent
    if parent is None:
        raise NotFound(problem)
    if problem:
        raise Conflict(problem)
    better = (fork.reward or 0.0) > (parent.reward or 0.0)
    chosen, rejected = (fork, parent) if better else (parent, fork)
    try:
        return preference_of(_conversation(chosen), _conversation(rejected))
    except FormatError as error:
        raise Conflict(f"No pair can be made of them: {error}.") from error


def _conversation(row: Trajectory) -> Conversation:
    origins = Origins()
    origins.learn([row.attempted.pk])
    tools = keep_agent_tools(origins.of(row.attempted.pk).offered, row.provenance)
    style = row.provenance.get("prompt_style") or "tools"
    kept = conversation_kept(row)
    return Conversation(messages=tuple(kept if kept is not None else _told(row)), tools=tools, style=style)


def _told(row: Trajectory) -> list[Message]:
    """The conversation that a fork of the attempt begins with, to its end: for attempts of which none is stored."""
    steps = list(row.steps.exclude(by=CallBy.USER).order_by("index"))
    point = ForkPoint(row, len(steps), (), (), "tools")
    setting, task = point.setting(), task_of(row.attempted)
    mine = keep_agent_tools(task.program.tools, row.provenance)
    system, _ = system_message("tools", row.conversational, task.documentation, mine, task.answer_form)
    messages = [system]
    if not row.conversational:
        messages.append(Message(role="user", content=row.attempted.instruction))
    turn: list[Step] = []
    for step in [*steps, None]:
        if turn and (step is None or step.kind == StepKind.USER or step.turn != turn[0].turn):
            (said,) = rebuilt(turn)
            read = [bounded(_observed(one), setting.observation_chars) for one in turn if is_call(one)]
            messages += [said, *result_messages("tools", said.tool_calls, read)]
            turn = []
        if step is not None and step.kind != StepKind.USER:
            turn.append(step)
        elif step is not None and row.conversational:
            messages.append(Message(role="user", content=step.content))
    return messages


def _observed(row: Step) -> str:
    """What an agent reads of a stored result."""
    if row.ok:
        return observation(CallResult(ok=True, result=row.result))
    known = row.result if isinstance(row.result, dict) else {}
    told = {name: str(known.get(name) or "") for name in ("type", "message")}
    return observation(CallResult(ok=False, error=CallError(kind="raised", **told)))
