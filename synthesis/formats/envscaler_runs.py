"""EnvScaler's recorded rollouts: the conversation joined with the calls that the environment executed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from synthesis.contracts import Injection
from synthesis.errors import FormatError
from synthesis.formats.answer_form import SUBMIT_ANSWER
from synthesis.formats.files import Entry
from synthesis.formats.own_parts import take_parts
from synthesis.formats.records import Failure, RunParts, RunRecord, RunStep
from synthesis.formats.transcript import (
    CHAT,
    UNPARSED,
    RecordedCall,
    Turn,
    build_spoken_answer,
    build_unreadable_call,
    parse_arguments,
    parse_turns,
    read_message_text,
)
from synthesis.formats.values import (
    clean_text,
    decode_json,
    read_flag_field,
    read_key_field,
    read_list_field,
    read_number_field,
    read_object_field,
    read_or_fail,
    read_text_field,
    require_record,
    shorten_text,
)
from synthesis.json_reader import get_json_type

COMPLAINT = "Error: Failed to parse"
"""How EnvScaler answers a reply that it cannot read; it says so as the user."""
Parsed = tuple[str, RunRecord | Failure]


def parse_runs(entries: list[Entry]) -> Iterator[Parsed]:
    """Yield each entry's place with its run, or with the reason of its failure."""
    for entry in entries:
        yield entry.place, read_or_fail(read_run, entry)


def read_run(entry: Entry) -> RunRecord:
    """Read one recorded run. Raise `FormatError` with the place of the error."""
    place = entry.place
    raw, parts = take_parts(require_record(entry.value, place), RunParts, place)
    info = read_object_field(raw, "task_info", place)
    if info is None:
        hint = "; this is no recorded run: import it as environments or scenarios" if "env_id" in raw else ""
        raise FormatError(f"{place}.task_info", f"missing{hint}")
    instruction = read_text_field(info, "task", f"{place}.task_info")
    turns = parse_turns(read_list_field(raw, "messages", place), f"{place}.messages")
    actions = _read_actions(raw, place)
    # An attempt that was lost at its start has no steps, but an outcome.
    if not parts.outcome and not actions and not any(turn.role == "assistant" for turn in turns):
        raise FormatError(place, "neither `messages` nor `trajectory` holds anything the agent did")
    steps = list(_build_steps(_move_complaints(_join_turns(turns, actions))))
    if (steps or not parts.outcome) and (not steps or steps[0].kind != "user"):
        steps.insert(0, RunStep(kind="user", content=instruction))
    steps = _restore_steps(_insert_user_calls(steps, raw, place), parts, place)
    spoken = [step.content for step in steps if step.kind == "message"]
    talk = bool(_list_user_messages(raw, place)) or sum(step.kind == "user" for step in steps) > 2
    return RunRecord(
        environment_key=read_key_field(info, "env_id", f"{place}.task_info"),
        task_key=read_key_field(info, "task_id", f"{place}.task_info", default="?"),
        policy=shorten_text(read_text_field(raw, "model", place), 200),
        conversational=talk if parts.conversational is None else parts.conversational,
        steps=tuple(steps),
        answer=build_spoken_answer(spoken, talk) if parts.answer is None else parts.answer,
        recorded_reward=read_number_field(raw, "total_reward", place),
        terminated=read_flag_field(raw, "terminated", place, True),
        truncated=read_flag_field(raw, "truncated", place, False),
        seed=parts.seed,
        now=parts.now,
        validation=parts.validation,
        raw=raw,
        parts=parts,
    )


def _restore_steps(steps: list[RunStep], parts: RunParts, place: str) -> list[RunStep]:
    """Return the steps with those that the format cannot hold. Raise FormatError if they do not fit together."""
    all_steps = list(steps)
    for refused in sorted(parts.refused, key=lambda one: one.index):
        if refused.index > len(all_steps):
            raise FormatError(
                f"{place}.envarium.refused", f"the run has {len(all_steps)} steps before step {refused.index}"
            )
        fields = refused.model_dump(include={"turn", "content", "reasoning", "tool", "arguments", "by"})
        step = RunStep(
            kind="call", recorded=refused.observation or None, executed=False, refused=refused.error, **fields
        )
        all_steps.insert(refused.index, step)
    if parts.turns and len(parts.turns) != len(all_steps):
        raise FormatError(f"{place}.envarium.turns", f"{len(parts.turns)} turns of {len(all_steps)} steps")
    return [
        step.model_copy(update={"turn": turn})
        for step, turn in zip(all_steps, parts.turns or (step.turn for step in all_steps), strict=True)
    ]


def _insert_user_calls(steps: list[RunStep], raw: dict[str, Any], place: str) -> list[RunStep]:
    """Return the steps with the calls of the simulated user, which only the list of executed calls holds.

    Each call is inserted before the user's message that follows `after_user_messages` earlier ones. Raise FormatError
    if an entry is malformed.
    """
    waiting = deque(_read_user_calls(raw, place))
    if not waiting:
        return steps
    all_steps, message_count = list[RunStep](), 0
    for step in steps:
        while step.kind == "user" and waiting and waiting[0][0] <= message_count:
            all_steps.append(waiting.popleft()[1].model_copy(update={"turn": step.turn}))
        message_count += step.kind == "user"
        all_steps.append(step)
    last = all_steps[-1].turn if all_steps else 0
    return all_steps + [call.model_copy(update={"turn": last}) for _, call in waiting]


def _read_user_calls(raw: dict[str, Any], place: str) -> list[tuple[int, RunStep]]:
    """Return each call of the simulated user with the number of its messages before. EnvScaler has no such entries."""
    calls: list[tuple[int, RunStep]] = []
    for index, item in enumerate(read_list_field(raw, "trajectory", place)):
        where = f"{place}.trajectory[{index}]"
        if not _is_user_call(item, where):
            continue
        action = _read_action(item, where)
        message_count = read_number_field(item, "after_user_messages", where)
        if action is None or action.problem or message_count is None:
            raise FormatError(where, "a call of the user needs `action` and `after_user_messages`")
        step = RunStep(
            kind="call",
            by="user",
            content=read_text_field(item, "content", where),
            reasoning=read_text_field(item, "reasoning_content", where),
            tool=action.tool,
            arguments=action.arguments,
            recorded=_read_observation(item.get("observation"), where),
        )
        calls.append((int(message_count), step))
    return calls


def _is_user_call(item: Any, place: str) -> bool:
    """Return whether an entry is a call of the simulated user. Raise FormatError if it names another actor."""
    whose = item.get("by", "agent") if isinstance(item, dict) else "agent"
    if whose not in ("agent", "user"):
        raise FormatError(f"{place}.by", "expected `agent` or `user`")
    return bool(whose == "user")


def _list_user_messages(raw: dict[str, Any], place: str) -> list[Any]:
    """Return the simulated user's own messages after the task: present in conversational runs only."""
    return read_list_field(raw, "user_messages", place)[1:]


def _read_actions(raw: dict[str, Any], place: str) -> list[RecordedCall]:
    """Return the calls that the environment executed, without the first entry (the task)."""
    actions = []
    for index, item in enumerate(read_list_field(raw, "trajectory", place)):
        where = f"{place}.trajectory[{index}]"
        if not isinstance(item, dict):
            raise FormatError(where, f"expected an object, found a {get_json_type(item)}")
        action = None if _is_user_call(item, where) else _read_action(item, where)
        if action is not None:
            action.result = _read_observation(item.get("observation"), where)
            action.injected = _read_injection(item.get("injected"), f"{where}.injected")
            actions.append(action)
    return actions


def _read_action(item: dict[str, Any], place: str) -> RecordedCall | None:
    """Return the call passed to the environment, the text of a reply without a readable call, or None (the task)."""
    written, observation = item.get("action"), item.get("observation")
    text = observation.get("content") if isinstance(observation, dict) else observation
    complained = isinstance(text, str) and text.startswith(COMPLAINT)
    action = written
    if isinstance(written, str):
        try:
            action = decode_json(written, "")
        except FormatError:
            return build_unreadable_call(written)
    if complained and not (isinstance(action, dict) and isinstance(action.get("name"), str) and action["name"].strip()):
        return build_unreadable_call("" if written is None else written)
    if action is None:
        return None
    if not isinstance(action, dict):
        raise FormatError(f"{place}.action", f"expected an object, found a {get_json_type(action)}")
    name = read_text_field(action, "name", f"{place}.action", required=True)
    return RecordedCall(name[:200], parse_arguments(action.get("arguments")))


def _read_injection(value: Any, place: str) -> Injection | None:
    """Return the disturbance of a call. EnvScaler has no such field."""
    if value is None:
        return None
    try:
        return Injection.model_validate(value)
    except ValidationError as error:
        raise FormatError(place, error.errors(include_url=False, include_input=False)[0]["msg"]) from error


def _read_observation(value: Any, place: str) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    if value is None:
        return None
    if isinstance(value, int | float | bool):
        return str(value)
    return read_message_text(
        value if isinstance(value, str | list) else str(decode_json(value, place)), f"{place}.observation"
    )


def _join_turns(turns: list[Turn], actions: list[RecordedCall]) -> list[Turn]:
    """Return the conversation with the executed calls in it; the actions alone if the two do not fit together."""
    if not turns or not any(turn.role == "assistant" for turn in turns):
        return turns[:1] + _build_turns(actions)
    if not actions:
        return [_drop_unexecuted_calls(turn) for turn in turns]
    replies = [turn for turn in turns if turn.role == "assistant"]
    if not any(turn.calls for turn in replies) and any(call.tool != CHAT for call in actions):
        return turns[:1] + _pair_written_calls(replies, actions)
    executed_calls = [call for call in actions if call.tool != CHAT]
    matched_turns: list[tuple[Turn, list[RecordedCall]]] = []
    for turn in replies:
        turn_calls: list[RecordedCall] = []
        for call in turn.calls:
            if executed_calls and executed_calls[0].problem and (call.problem or UNPARSED in call.arguments):
                call.result = executed_calls.pop(0).result
                call.problem = call.problem or build_unreadable_call(call.arguments[UNPARSED]).problem
                turn_calls.append(call)
            elif (
                executed_calls and executed_calls[0].tool == call.tool and executed_calls[0].arguments == call.arguments
            ):
                turn_calls.append(executed_calls.pop(0))
            elif call.tool in (CHAT, SUBMIT_ANSWER):
                call.executed = call.tool == CHAT
                turn_calls.append(call)
        if (
            not turn.calls
            and executed_calls
            and executed_calls[0].problem
            and _is_unreadable_reply(turn, executed_calls[0])
        ):
            turn_calls.append(executed_calls.pop(0))
            turn.content = ""
        matched_turns.append((turn, turn_calls))
    if executed_calls:
        return turns[:1] + _build_turns(actions)
    for turn, turn_calls in matched_turns:
        turn.calls = turn_calls
    return turns


def _is_unreadable_reply(turn: Turn, call: RecordedCall) -> bool:
    """Return whether a turn without calls is the reply in which the environment found no readable call."""
    text = turn.content.strip()
    return not text or "<tool_call>" in text or text in str(call.arguments.get(UNPARSED))


def _move_complaints(turns: list[Turn]) -> list[Turn]:
    """Return the turns with each complaint about an unreadable call moved to the result of that call.

    The environment wrote it with the role of the user, but the user did not say it.
    """
    remaining_turns: list[Turn] = []
    for turn in turns:
        call = remaining_turns[-1].calls[-1] if remaining_turns and remaining_turns[-1].calls else None
        if turn.role == "user" and call is not None and call.problem:
            complaint = turn.content.startswith(COMPLAINT) if call.result is None else turn.content == call.result
            if complaint:
                call.result = turn.content
                continue
        remaining_turns.append(turn)
    return remaining_turns


def _drop_unexecuted_calls(turn: Turn) -> Turn:
    """Drop calls without a result: without a list of actions they do not count as executed. Keep unreadable ones."""
    turn.calls = [call for call in turn.calls if call.result is not None or call.tool == CHAT or call.problem]
    return turn


def _pair_written_calls(replies: list[Turn], actions: list[RecordedCall]) -> list[Turn]:
    """Return the turns of calls that were written in the text: one assistant message per action, by order."""
    action_turns = _build_turns(actions)
    assistant_turns = [turn for turn in action_turns if turn.role == "assistant"]
    if len(assistant_turns) == len(replies):
        for turn, spoken in zip(assistant_turns, replies, strict=True):
            turn.reasoning = spoken.reasoning
            turn.content = turn.content or spoken.content
    return action_turns


def _build_turns(actions: list[RecordedCall]) -> list[Turn]:
    turns: list[Turn] = []
    for call in actions:
        if call.tool != CHAT:
            turns.append(Turn("assistant", calls=[call]))
            continue
        turns.append(Turn("assistant", _get_message_text(call)))
        if call.result is not None:
            turns.append(Turn("user", call.result))
    return turns


def _get_message_text(call: RecordedCall) -> str:
    content = call.arguments.get("content", call.arguments.get("message", ""))
    return clean_text(content) if isinstance(content, str) else clean_text(str(content))


def _build_steps(turns: list[Turn]) -> Iterator[RunStep]:
    """Yield the steps in order. The text and reasoning before calls belong to the first call."""
    number = 0
    for turn in turns:
        if turn.role == "user":
            yield RunStep(kind="user", turn=number, content=turn.content)
            continue
        number += 1
        content, reasoning = turn.content, turn.reasoning
        if not turn.calls:
            yield RunStep(kind="message", turn=number, content=content, reasoning=reasoning)
        for call in turn.calls:
            yield from _build_call_steps(call, number, content, reasoning)
            content = reasoning = ""


def _build_call_steps(call: RecordedCall, number: int, content: str, reasoning: str) -> Iterator[RunStep]:
    if call.tool == CHAT:
        words = "\n\n".join(part for part in (content, _get_message_text(call)) if part)
        yield RunStep(kind="message", turn=number, content=words, reasoning=reasoning)
        if call.result is not None:
            yield RunStep(kind="user", turn=number, content=call.result)
        return
    yield RunStep(
        kind="call",
        turn=number,
        content=content,
        reasoning=reasoning,
        tool=call.tool,
        arguments=call.arguments,
        recorded=call.result,
        problem=call.problem,
        executed=call.executed,
        injected=call.injected,
    )
