"""Converters of frozen rows to records of a form. Freezing has checked the lines, so they are not checked again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from synthesis.contracts import Frozen, Message, Tool, ToolCall
from synthesis.errors import FormatError
from synthesis.formats.atif import StateChange, trajectory_to_atif
from synthesis.formats.sft import Conversation, Shape, build_sft_records
from training.dataset import RowOrigin
from webapp.common.query_params import LARGEST_ID, parse_whole_number
from webapp.datasets.export.record_shapes import FormName
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory


@dataclass
class KnownAttempt:
    """A trajectory that is still stored: its policy, and what each of its agent's calls changed."""

    policy: str
    changes: list[StateChange] = field(default_factory=list)


def find_known_attempts(ids: Iterable[str]) -> dict[str, KnownAttempt]:
    """Return trajectories by row id (`trajectory:PK`, followed by `:TURN` if a turn is a row), in two queries."""
    keys = {ident: _parse_trajectory_id(ident) for ident in ids}
    numbers = {number for number in keys.values() if number is not None}
    policies = Trajectory.objects.filter(pk__in=numbers, live=False).values_list("pk", "policy")
    attempts = {pk: KnownAttempt(policy) for pk, policy in policies}
    kinds = (StepKind.QUERY, StepKind.CHANGE, StepKind.ANSWER)
    calls = Step.objects.filter(trajectory__in=attempts, kind__in=kinds, by=CallBy.AGENT)
    columns = ("trajectory_id", "tool", "patch", "change_count")
    for pk, tool, patch, count in calls.order_by("trajectory", "index").values_list(*columns):
        kept_patch = None if count and not patch else tuple(patch or ())
        attempts[pk].changes.append(StateChange(tool=tool, patch=kept_patch, count=count))
    return {ident: attempts[number] for ident, number in keys.items() if number in attempts}


def _parse_trajectory_id(ident: str) -> int | None:
    what, _, rest = ident.partition(":")
    return parse_whole_number(rest.split(":")[0], high=LARGEST_ID) if what == "trajectory" else None


Record = dict[str, Any]
ORIGIN = tuple(RowOrigin.model_fields)
SHAREGPT = Shape(format="sharegpt")
BATCH = 50
"""Number of trajectories whose state changes are held at once."""


class LeftOutRow(Frozen):
    """A row that does not fit a form; `line` counts from 1 in the dataset's file of that side."""

    line: int
    id: str
    reason: str


LeaveOut = Callable[[LeftOutRow], None]


def convert_rows(rows: Iterable[Record], form: FormName, *, stored_here: bool, leave_out: LeaveOut) -> Iterator[Record]:
    """Yield one record for each row, in their order. With `stored_here` ids name trajectories of this installation.

    A row that does not fit the form is passed to `leave_out`; the others are not affected.
    """
    if form == "trl":
        yield from rows
        return
    convert: Callable[[Record], Record] = _to_sharegpt if form == "sharegpt" else _to_envscaler
    conversions = (
        _convert_atif_rows(rows, stored_here) if form == "atif" else ((row, partial(convert, row)) for row in rows)
    )
    for line, (row, write) in enumerate(conversions, 1):
        try:
            record = write()
        except FormatError as error:
            reason = f"{error.place}: {error.reason}" if error.place else error.reason
            leave_out(LeftOutRow(line=line, id=str(row.get("id") or ""), reason=reason[:300]))
            continue
        yield record


def to_conversation(row: Record) -> Conversation:
    """Return what the agent saw and said: all of it, or up to the turn that is to be learnt."""
    tools = tuple(
        Tool(
            name=tool["function"]["name"],
            description=tool["function"].get("description", ""),
            parameters=tool["function"].get("parameters") or {},
        )
        for tool in row.get("tools") or ()
    )
    return Conversation(messages=tuple(map(_to_message, _list_messages(row))), tools=tools)


def _list_messages(row: Record) -> list[Record]:
    return row.get("messages") or [*(row.get("prompt") or ()), *(row.get("completion") or ())]


def _to_message(told: Record) -> Message:
    calls = tuple(
        ToolCall(id=call.get("id", ""), name=call["function"]["name"], arguments=call["function"]["arguments"])
        for call in told.get("tool_calls") or ()
    )
    return Message(
        role=told["role"],
        content=told.get("content", ""),
        reasoning=told.get("reasoning_content", ""),
        tool_calls=calls,
        tool_call_id=told.get("tool_call_id", ""),
    )


def _to_sharegpt(row: Record) -> Record:
    if any(told.get("weight") == 0 for told in _list_messages(row)):
        raise FormatError(
            "", "has a turn of weight 0, which this form would let be learnt; the form TRL keeps the weight"
        )
    record = next(build_sft_records(to_conversation(row), SHAREGPT))
    return record if row.get("messages") else {**record, "mask_history": True}


def _to_envscaler(row: Record) -> Record:
    spoken = [_add_reasoning(told) for told in _list_messages(row)]
    users = [told for told in spoken if told["role"] == "user"]
    talks = row.get("setting") == "conversation"
    return {
        "traj_type": "conversation" if talks else "non_conversation",
        "task_info": {
            "env_id": row.get("environment", ""),
            "task_id": row.get("task", ""),
            "task": users[0]["content"] if users else "",
        },
        "tools": _dump_json(row.get("tools") or []),
        "messages": _dump_json(spoken),
        "user_messages": _dump_json(users if talks else None),
        "steps": sum(len(told.get("tool_calls") or ()) or 1 for told in spoken if told["role"] == "assistant"),
    }


def _add_reasoning(told: Record) -> Record:
    """Add a reasoning field to each turn of the agent: EnvScaler's tools read it even if it is empty."""
    return {**told, "reasoning_content": told.get("reasoning_content", "")} if told["role"] == "assistant" else told


def _convert_atif_rows(rows: Iterable[Record], stored_here: bool) -> Iterator[tuple[Record, Callable[[], Record]]]:
    for chunk in _iter_chunks(rows):
        known = find_known_attempts([str(row.get("id", "")) for row in chunk]) if stored_here else {}
        for row in chunk:
            yield row, partial(_to_atif, row, known.get(str(row.get("id", ""))))


def _to_atif(row: Record, attempt: KnownAttempt | None) -> Record:
    about = {name: row[name] for name in ORIGIN if name != "id" and row.get(name)}
    model, changes = (attempt.policy, attempt.changes) if attempt else ("", None)
    conversation, identity = to_conversation(row), str(row.get("id", ""))
    try:
        return trajectory_to_atif(conversation, identity, model=model, about=about, changes=changes)
    except FormatError:
        # With one turn per row, a row holds only part of the calls: other calls' state changes must not be added.
        return trajectory_to_atif(conversation, identity, model=model, about=about)


def _iter_chunks(rows: Iterable[Record]) -> Iterator[Sequence[Record]]:
    chunk: list[Record] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == BATCH:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _dump_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
