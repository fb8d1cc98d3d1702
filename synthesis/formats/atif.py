"""Conversations in the Agent Trajectory Interchange Format (ATIF 1.8) of the Harbor framework.

A message of the system, a user or the agent is a step; the results of an agent's calls are the observation of its step.
Changes of the environment's state are in the step's `extra` as RFC 6902 patches, by call: the format has no field for
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from synthesis.contracts import Frozen, Message, ToolCall
from synthesis.errors import FormatError
from synthesis.formats.call_results import OpenCalls
from synthesis.formats.sft import Conversation

VERSION = "ATIF-v1.8"
AGENT = "envarium"
NOT_RECORDED = "not recorded"
SOURCES = {"system": "system", "user": "user", "assistant": "agent"}


class StateChange(Frozen):
    """State changes of one call. `patch` is None if it is too long to be kept; `count` is the number of operations."""

    tool: str
    patch: tuple[dict[str, Any], ...] | None
    count: int = 0


def trajectory_to_atif(
    conversation: Conversation,
    identity: str,
    *,
    model: str = "",
    about: dict[str, Any] | None = None,
    changes: Sequence[StateChange] | None = None,
) -> dict[str, Any]:
    """Return one trajectory as ATIF. `changes` are those of all its calls in order; None if they are not known.

    Raise FormatError if a result answers no call, or if `changes` belong to other calls than the conversation's.
    """
    steps = _Steps(changes)
    for message in conversation.messages:
        steps.add(message)
    agent: dict[str, Any] = {"name": AGENT, "version": NOT_RECORDED}
    if model:
        agent["model_name"] = model
    if conversation.tools:
        agent["tool_definitions"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in conversation.tools
        ]
    written = steps.finish_steps()
    return {
        "schema_version": VERSION,
        "trajectory_id": identity,
        "agent": agent,
        "steps": written,
        "final_metrics": {"total_steps": len(written)},
        "extra": {**(about or {}), "state_changes": "by step" if changes is not None else "not known"},
    }


class _Steps:
    def __init__(self, changes: Sequence[StateChange] | None) -> None:
        self.steps: list[dict[str, Any]] = []
        self.changes = None if changes is None else list(changes)
        self.taken = 0
        self.named: list[str] = []
        """Ids of the last turn's calls, as they are written."""
        self.open = OpenCalls()

    def add(self, message: Message) -> None:
        if message.role == "tool":
            self._observe(message)
            return
        step: dict[str, Any] = {
            "step_id": len(self.steps) + 1,
            "source": SOURCES[message.role],
            "message": message.content,
        }
        if message.reasoning:
            step["reasoning_content"] = message.reasoning
        if message.tool_calls:
            names = _choose_call_ids(message.tool_calls, len(self.steps) + 1)
            step["tool_calls"] = [
                {"tool_call_id": name, "function_name": call.name, "arguments": call.arguments}
                for name, call in zip(names, message.tool_calls, strict=True)
            ]
            self._add_state_changes(step, names, message.tool_calls)
            self.named, self.open = names, OpenCalls([call.id for call in message.tool_calls])
        else:
            self.open = OpenCalls()
        self.steps.append(step)

    def finish_steps(self) -> list[dict[str, Any]]:
        if self.changes is not None and self.taken != len(self.changes):
            raise FormatError("state changes", f"{len(self.changes)} are kept of {self.taken} calls")
        return self.steps

    def _observe(self, message: Message) -> None:
        call = self.open.take(message.tool_call_id)
        if call is None:
            raise FormatError(f"step {len(self.steps)}", "a tool's result answers no call of the turn before it")
        call_id = self.named[call]
        observation = self.steps[-1].setdefault("observation", {"results": []})
        observation["results"].append({"source_call_id": call_id, "content": message.content})

    def _add_state_changes(self, step: dict[str, Any], names: list[str], calls: Sequence[ToolCall]) -> None:
        if self.changes is None:
            return
        call_changes = self.changes[self.taken : self.taken + len(calls)]
        if [change.tool for change in call_changes] != [call.name for call in calls]:
            raise FormatError(f"step {step['step_id']}", "the state changes that are kept are of other calls")
        self.taken += len(calls)
        recorded_changes = [
            {
                "tool_call_id": name,
                **({"omitted": change.count} if change.patch is None else {"patch": [*change.patch]}),
            }
            for name, change in zip(names, call_changes, strict=True)
            if change.patch is None or change.patch
        ]
        if recorded_changes:
            step["extra"] = {"state_changes": recorded_changes}


def _choose_call_ids(calls: Sequence[ToolCall], step: int) -> list[str]:
    """Return the ids of a turn's calls: their own if all have distinct ones, else generated ids."""
    own_ids = [call.id for call in calls]
    return (
        own_ids
        if all(own_ids) and len(set(own_ids)) == len(own_ids)
        else [f"call_{step}_{n}" for n, _ in enumerate(calls, 1)]
    )
