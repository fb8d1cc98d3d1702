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
    arguments_of,
    text_of,
    told_user,
    turns_of,
    unreadable,
)
from synthesis.formats.values import (
    clean,
    flag_field,
    key_field,
    list_field,
    number_field,
    object_field,
    opened,
    read_or_fail,
    record_of,
    shorten,
    text_field,
)
from synthesis.json_reader import json_type

COMPLAINT = "Error: Failed to parse"
"""How EnvScaler answers a reply that it cannot read; it says so as the user."""
Parsed = tuple[str, RunRecord | Failure]


def parse_runs(entries: list[Entry]) -> Iterator[Parsed]:
    """Each entry's place with its run, or with the reason why it is none."""
    for entry in entries:
        yield entry.place, read_or_fail(run, entry)


def run(entry: Entry) -> RunRecord:
    """One recorded run. Raises `FormatError` with the place of what is wrong."""
    place = entry.place
    raw, parts = take_parts(record_of(entry.value, place), RunParts, place)
    info = object_field(raw, "task_info", place)
    if info is None:
        hint = "; this is no recorded run: import it as environments or scenarios" if "env_id" in raw else ""
        raise FormatError(f"{place}.task_info", f"missing{hint}")
    instruction = text_field(info, "task", f"{place}.task_info")
    turns = turns_of(list_field(raw, "messages", place), f"{place}.messages")
    actions = _actions(raw, place)
    # An attempt that was lost at its start did nothing, and says how it ended.
    if not parts.outcome and not actions and not any(turn.role == "assistant" for turn in turns):
        raise FormatError(place, "neither `messages` nor `trajectory` holds anything the agent did")
    steps = list(_steps(_without_complaints(_joined(turns, actions))))
    if (steps or not parts.outcome) and (not steps or steps[0].kind != "user"):
        steps.insert(0, RunStep(kind="user", content=instruction))
    steps = _restore_steps(_with_user_calls(steps, raw, place), parts, place)
    spoken = [step.content for step in steps if step.kind == "message"]
    talk = bool(_user_messages(raw, place)) or sum(step.kind == "user" for step in steps) > 2
    return RunRecord(
        environment_key=key_field(info, "env_id", f"{place}.task_info"),
        task_key=key_field(info, "task_id", f"{place}.task_info", default="?"),
        policy=shorten(text_field(raw, "model", place), 200),
        conversational=talk if parts.conversational is None else parts.conversational,
        steps=tuple(steps),
        answer=told_user(spoken, talk) if parts.answer is None else parts.answer,
        recorded_reward=number_field(raw, "total_reward", place),
        terminated=flag_field(raw, "terminated", place, True),
        truncated=flag_field(raw, "truncated", place, False),
        seed=parts.seed,
        now=parts.now,
        validation=parts.validation,
        raw=raw,
        parts=parts,
    )


def _restore_steps(steps: list[RunStep], parts: RunParts, place: str) -> list[RunStep]:
    """The steps with those that the format has no place for. Raises FormatError: they do not fit together."""
    whole = list(steps)
    for given in sorted(parts.refused, key=lambda one: one.index):
        if given.index > len(whole):
            raise FormatError(f"{place}.envarium.refused", f"the run has {len(whole)} steps before step {given.index}")
        told = given.model_dump(include={"turn", "content", "reasoning", "tool", "arguments", "by"})
        step = RunStep(kind="call", recorded=given.observation or None, executed=False, refused=given.error, **told)
        whole.insert(given.index, step)
    if parts.turns and len(parts.turns) != len(whole):
        raise FormatError(f"{place}.envarium.turns", f"{len(parts.turns)} turns of {len(whole)} steps")
    return [
        step.model_copy(update={"turn": turn})
        for step, turn in zip(whole, parts.turns or (step.turn for step in whole), strict=True)
    ]


def _with_user_calls(steps: list[RunStep], raw: dict[str, Any], place: str) -> list[RunStep]:
    """The steps with the calls of the simulated user, which stand in the list of what was executed alone: each before
    the words that follow so many of the user's. Raises FormatError."""
    waiting = deque(_user_calls(raw, place))
    if not waiting:
        return steps
    whole, said = list[RunStep](), 0
    for step in steps:
        while step.kind == "user" and waiting and waiting[0][0] <= said:
            whole.append(waiting.popleft()[1].model_copy(update={"turn": step.turn}))
        said += step.kind == "user"
        whole.append(step)
    last = whole[-1].turn if whole else 0
    return whole + [call.model_copy(update={"turn": last}) for _, call in waiting]


def _user_calls(raw: dict[str, Any], place: str) -> list[tuple[int, RunStep]]:
    """Each call of the simulated user, with how much it had said before. EnvScaler has no such entries."""
    calls: list[tuple[int, RunStep]] = []
    for index, item in enumerate(list_field(raw, "trajectory", place)):
        where = f"{place}.trajectory[{index}]"
        if not _is_users(item, where):
            continue
        action = _action(item, where)
        said = number_field(item, "after_user_messages", where)
        if action is None or action.problem or said is None:
            raise FormatError(where, "a call of the user needs `action` and `after_user_messages`")
        step = RunStep(
            kind="call",
            by="user",
            content=text_field(item, "content", where),
            reasoning=text_field(item, "reasoning_content", where),
            tool=action.tool,
            arguments=action.arguments,
            recorded=_observation(item.get("observation"), where),
        )
        calls.append((int(said), step))
    return calls


def _is_users(item: Any, place: str) -> bool:
    """Whether an entry says that the simulated user made the call. Raises FormatError: it names somebody else."""
    whose = item.get("by", "agent") if isinstance(item, dict) else "agent"
    if whose not in ("agent", "user"):
        raise FormatError(f"{place}.by", "expected `agent` or `user`")
    return bool(whose == "user")


def _user_messages(raw: dict[str, Any], place: str) -> list[Any]:
    """The simulated user's own conversation: present, and longer than the task, in conversational runs only."""
    return list_field(raw, "user_messages", place)[1:]


def _actions(raw: dict[str, Any], place: str) -> list[RecordedCall]:
    """What the environment executed, the first entry (the task) left out."""
    actions = []
    for index, item in enumerate(list_field(raw, "trajectory", place)):
        where = f"{place}.trajectory[{index}]"
        if not isinstance(item, dict):
            raise FormatError(where, f"expected an object, found a {json_type(item)}")
        action = None if _is_users(item, where) else _action(item, where)
        if action is not None:
            action.result = _observation(item.get("observation"), where)
            action.injected = _injection(item.get("injected"), f"{where}.injected")
            actions.append(action)
    return actions


def _action(item: dict[str, Any], place: str) -> RecordedCall | None:
    """What the environment was given: a call, the text of a reply in which it found none, or nothing (the task)."""
    written, seen = item.get("action"), item.get("observation")
    text = seen.get("content") if isinstance(seen, dict) else seen
    complained = isinstance(text, str) and text.startswith(COMPLAINT)
    action = written
    if isinstance(written, str):
        try:
            action = opened(written, "")
        except FormatError:
            return unreadable(written)
    if complained and not (isinstance(action, dict) and isinstance(action.get("name"), str) and action["name"].strip()):
        return unreadable("" if written is None else written)
    if action is None:
        return None
    if not isinstance(action, dict):
        raise FormatError(f"{place}.action", f"expected an object, found a {json_type(action)}")
    name = text_field(action, "name", f"{place}.action", required=True)
    return RecordedCall(name[:200], arguments_of(action.get("arguments")))


def _injection(value: Any, place: str) -> Injection | None:
    """How this site says that a call was disturbed. EnvScaler has no such field."""
    if value is None:
        return None
    try:
        return Injection.model_validate(value)
    except ValidationError as error:
        raise FormatError(place, error.errors(include_url=False, include_input=False)[0]["msg"]) from error


def _observation(value: Any, place: str) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    if value is None:
        return None
    if isinstance(value, int | float | bool):
        return str(value)
    return text_of(value if isinstance(value, str | list) else str(opened(value, place)), f"{place}.observation")


def _joined(turns: list[Turn], actions: list[RecordedCall]) -> list[Turn]:
    """The conversation with the executed calls in it; the actions alone where the two do not fit together."""
    if not turns or not any(turn.role == "assistant" for turn in turns):
        return turns[:1] + _from_actions(actions)
    if not actions:
        return [_executed(turn) for turn in turns]
    replies = [turn for turn in turns if turn.role == "assistant"]
    if not any(turn.calls for turn in replies) and any(call.tool != CHAT for call in actions):
        return turns[:1] + _spoken_beside(replies, actions)
    wanted = [call for call in actions if call.tool != CHAT]
    kept: list[tuple[Turn, list[RecordedCall]]] = []
    for turn in replies:
        mine: list[RecordedCall] = []
        for call in turn.calls:
            if wanted and wanted[0].problem and (call.problem or UNPARSED in call.arguments):
                call.result = wanted.pop(0).result
                call.problem = call.problem or unreadable(call.arguments[UNPARSED]).problem
                mine.append(call)
            elif wanted and wanted[0].tool == call.tool and wanted[0].arguments == call.arguments:
                mine.append(wanted.pop(0))
            elif call.tool in (CHAT, SUBMIT_ANSWER):
                call.executed = call.tool == CHAT
                mine.append(call)
        if not turn.calls and wanted and wanted[0].problem and _wrote(turn, wanted[0]):
            mine.append(wanted.pop(0))
            turn.content = ""
        kept.append((turn, mine))
    if wanted:
        return turns[:1] + _from_actions(actions)
    for turn, mine in kept:
        turn.calls = mine
    return turns


def _wrote(turn: Turn, call: RecordedCall) -> bool:
    """Whether a turn without calls is the reply in which the environment found none that can be read."""
    text = turn.content.strip()
    return not text or "<tool_call>" in text or text in str(call.arguments.get(UNPARSED))


def _without_complaints(turns: list[Turn]) -> list[Turn]:
    """What the environment said of an unreadable call stands at the call: it is no word of the user's."""
    kept: list[Turn] = []
    for turn in turns:
        call = kept[-1].calls[-1] if kept and kept[-1].calls else None
        if turn.role == "user" and call is not None and call.problem:
            complaint = turn.content.startswith(COMPLAINT) if call.result is None else turn.content == call.result
            if complaint:
                call.result = turn.content
                continue
        kept.append(turn)
    return kept


def _executed(turn: Turn) -> Turn:
    """Without a list of actions, a call counts as executed when it has a result; one that cannot be read is kept."""
    turn.calls = [call for call in turn.calls if call.result is not None or call.tool == CHAT or call.problem]
    return turn


def _spoken_beside(replies: list[Turn], actions: list[RecordedCall]) -> list[Turn]:
    """Calls written into the text: one assistant message an action, by order."""
    made = _from_actions(actions)
    mine = [turn for turn in made if turn.role == "assistant"]
    if len(mine) == len(replies):
        for turn, spoken in zip(mine, replies, strict=True):
            turn.reasoning = spoken.reasoning
            turn.content = turn.content or spoken.content
    return made


def _from_actions(actions: list[RecordedCall]) -> list[Turn]:
    turns: list[Turn] = []
    for call in actions:
        if call.tool != CHAT:
            turns.append(Turn("assistant", calls=[call]))
            continue
        turns.append(Turn("assistant", _said(call)))
        if call.result is not None:
            turns.append(Turn("user", call.result))
    return turns


def _said(call: RecordedCall) -> str:
    content = call.arguments.get("content", call.arguments.get("message", ""))
    return clean(content) if isinstance(content, str) else clean(str(content))


def _steps(turns: list[Turn]) -> Iterator[RunStep]:
    """Steps in order. The text and reasoning before calls stand at the first of them."""
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
            yield from _call_steps(call, number, content, reasoning)
            content = reasoning = ""


def _call_steps(call: RecordedCall, number: int, content: str, reasoning: str) -> Iterator[RunStep]:
    if call.tool == CHAT:
        words = "\n\n".join(part for part in (content, _said(call)) if part)
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
