"""Rows of ShareGPT, Alpaca and EnvScaler's SFT data as `messages` and `tools`, as written by `sft.py` and others.

The text of a turn is read as LlamaFactory reads it: reasoning in `<think>`, calls in `<tool_call>` or as the JSON of a
`function_call`, results in `<tool_response>` in the order of their calls. A row with `mask_history` teaches only its
last turn. Ambiguous data is refused with its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.sft import BETWEEN_RESULTS
from synthesis.json_reader import get_json_type, read_json

Row = dict[str, Any]
SHAREGPT = {"conversations", "system", "tools", "mask_history"}
ALPACA = {"instruction", "input", "output", "system", "tools", "history", "mask_history"}
ENVSCALER = {"traj_type", "task_info", "user_messages", "steps"}
SPEAKERS = {
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "function_call": "assistant",
    "observation": "tool", "tool": "tool", "system": "system",
}  # fmt: skip
_THINK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
_CALL = re.compile(r"\n?<tool_call>\s*(.*?)\s*</tool_call>", re.DOTALL)
_RESULT = re.compile(r"<tool_response>\n?(.*?)\n?</tool_response>", re.DOTALL)


def is_other_form(row: Row) -> bool:
    """Return whether a row has one of these formats, by its fields."""
    return "conversations" in row or {"instruction", "output"} <= row.keys() or isinstance(row.get("messages"), str)


def read_other_form(row: Row, most_levels: int) -> Row:
    """Return the row with `messages`, or `prompt` and `completion`, and `tools`; other fields stay unchanged.

    Raise FormatError with the place inside the row.
    """
    if isinstance(row.get("messages"), str):
        return _read_envscaler_row(row, most_levels)
    own_fields = SHAREGPT if "conversations" in row else ALPACA
    rest = {name: value for name, value in row.items() if name not in own_fields}
    turns = _read_sharegpt_turns(row) if own_fields is SHAREGPT else _read_alpaca_turns(row)
    messages = [*_read_system(row), *_read_messages(turns, most_levels)]
    masked = row.get("mask_history", False)
    if not isinstance(masked, bool):
        raise FormatError("mask_history", f"expected true or false, found a {get_json_type(masked)}")
    spoken: Row = {"prompt": messages[:-1], "completion": messages[-1:]} if masked else {"messages": messages}
    return {**rest, **spoken, "tools": _read_tools(row, most_levels)}


def _read_text(value: Any, place: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise FormatError(place, f"expected text, found a {get_json_type(value)}")
    return value


def _read_system(row: Row) -> list[Row]:
    system_text = _read_text(row.get("system"), "system")
    return [{"role": "system", "content": system_text}] if system_text else []


def _read_tools(row: Row, most_levels: int) -> list[Any]:
    """Return the tools, given as JSON text of a list, each with its name or in OpenAI's spelling."""
    raw_tools = row.get("tools")
    if raw_tools is None or raw_tools == "":
        return []
    listed = read_json(raw_tools, "tools", most_levels=most_levels) if isinstance(raw_tools, str) else raw_tools
    if not isinstance(listed, list):
        raise FormatError("tools", f"expected a list, or JSON text of one, found a {get_json_type(listed)}")
    return [{"type": "function", "function": tool} if _is_bare_tool(tool) else tool for tool in listed]


def _is_bare_tool(tool: Any) -> bool:
    return isinstance(tool, dict) and "function" not in tool


def _read_sharegpt_turns(row: Row) -> Iterator[tuple[str, str, str]]:
    """Yield (tag, text, place) of each turn."""
    listed = row["conversations"]
    if not isinstance(listed, list) or not listed:
        raise FormatError("conversations", "expected a list of turns, each with `from` and `value`")
    for number, turn in enumerate(listed):
        place = f"conversations.{number}"
        if not isinstance(turn, dict) or not turn.keys() <= {"from", "value"}:
            raise FormatError(place, "expected an object with `from` and `value` and nothing else")
        tag = turn.get("from")
        if not isinstance(tag, str) or tag not in SPEAKERS:
            raise FormatError(f"{place}.from", f"is none of {', '.join(SPEAKERS)}")
        if not isinstance(turn.get("value"), str):
            raise FormatError(f"{place}.value", f"expected text, found a {get_json_type(turn.get('value'))}")
        yield tag, turn["value"], f"{place}.value"


def _read_alpaca_turns(row: Row) -> Iterator[tuple[str, str, str]]:
    history = row.get("history") or []
    if not isinstance(history, list):
        raise FormatError("history", f"expected a list of pairs, found a {get_json_type(history)}")
    for number, pair in enumerate(history):
        if not isinstance(pair, list) or len(pair) != 2:
            raise FormatError(f"history.{number}", "expected a pair: what was put to the agent, and its reply")
        for side, (tag, text) in enumerate(zip(("user", "assistant"), pair, strict=True)):
            yield tag, _read_text(text, f"history.{number}.{side}"), f"history.{number}.{side}"
    input_texts = [_read_text(row.get(name), name) for name in ("instruction", "input")]
    yield "user", "\n".join(text for text in input_texts if text), "instruction"
    yield "assistant", _read_text(row.get("output"), "output"), "output"


def _read_messages(turns: Iterator[tuple[str, str, str]], most_levels: int) -> Iterator[Row]:
    open_calls: list[Row] = []
    for number, (tag, text, place) in enumerate(turns):
        role = SPEAKERS[tag]
        if role == "user" and open_calls and text.lstrip().startswith("<tool_response>"):
            role = "tool"
        if role == "tool":
            yield from _read_results(text, open_calls, place)
            open_calls = []
        elif role == "assistant":
            message = _read_reply(tag, text, number, place, most_levels)
            open_calls = message.get("tool_calls", [])
            yield message
        else:
            yield {"role": role, "content": text}


def _read_results(text: str, calls: Sequence[Row], place: str) -> Iterator[Row]:
    """Yield the results of calls, which only their order distinguishes. Raise FormatError unless each call has one."""
    if not calls:
        raise FormatError(place, "a result without a call in the turn before it")
    bare = text.strip()
    if bare.startswith("<tool_response>") and bare.endswith("</tool_response>"):
        results = _RESULT.findall(bare)
    else:
        results = text.split(BETWEEN_RESULTS)
    if len(results) != len(calls):
        raise FormatError(place, f"{len(results)} results of {len(calls)} calls; each call needs its own")
    for call, result in zip(calls, results, strict=True):
        yield {"role": "tool", "tool_call_id": call["id"], "content": result}


def _read_reply(tag: str, text: str, number: int, place: str, most_levels: int) -> Row:
    thought = _THINK.match(text)
    words, reasoning = (text[thought.end() :], thought[1].strip()) if thought else (text, "")
    spelled = [words] if tag == "function_call" and "<tool_call>" not in words else _CALL.findall(words)
    words = "" if spelled == [words] else _CALL.sub("", words)
    read_calls = [call for part in spelled for call in _read_calls(part, place, most_levels)]
    if tag == "function_call" and not read_calls:
        raise FormatError(place, "a `function_call` without a call: JSON of an object with `name` and `arguments`")
    calls = [
        {"id": f"call_{number}_{index}", "type": "function", "function": call}
        for index, call in enumerate(read_calls, 1)
    ]
    message: Row = {"role": "assistant", "content": words}
    message |= {"reasoning_content": reasoning} if reasoning else {}
    return message | ({"tool_calls": calls} if calls else {})


def _read_calls(text: str, place: str, most_levels: int) -> list[Row]:
    value = read_json(text, place, most_levels=most_levels)
    listed = value if isinstance(value, list) else [value]
    for call in listed:
        is_call = isinstance(call, dict) and call.keys() <= {"name", "arguments"}
        if not is_call or not isinstance(call.get("name"), str):
            raise FormatError(place, "a call is an object with `name` and `arguments` and nothing else")
    return listed


def _read_envscaler_row(row: Row, most_levels: int) -> Row:
    """Read one of EnvScaler's released rows: JSON in text."""
    rest = {name: value for name, value in row.items() if name not in ENVSCALER | {"messages", "tools"}}
    messages = read_json(row["messages"], "messages", most_levels=most_levels)
    info = row.get("task_info") if isinstance(row.get("task_info"), dict) else {}
    ids = {"environment": info.get("env_id"), "task": info.get("task_id")} if info else {}
    known_ids = {name: value for name, value in ids.items() if isinstance(value, str) and value}
    talks = {"setting": "conversation"} if row.get("traj_type") == "conversation" else {}
    return {**known_ids, **talks, **rest, "messages": messages, "tools": _read_tools(row, most_levels)}
