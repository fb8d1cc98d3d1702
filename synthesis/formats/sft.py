"""Conversations as records for supervised fine-tuning: what TRL and LlamaFactory read, one JSON object each.

`trl`: `messages` and `tools` as chat templates take them (arguments are objects, reasoning is `reasoning_content`).
`sharegpt`: LlamaFactory's `conversations` with `system` and `tools` (a JSON string). `alpaca`: LlamaFactory's
`instruction`, `output` and `history`, calls spelled in Qwen's tags, as EnvScaler's released data is.

With `mask_history` (EnvScaler, B.2) n turns of the agent become n records: each ends with one turn, the only one to be
learnt, and the turns before it have lost their reasoning, as a thinking model's chat template would have it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

from pydantic import Field

from synthesis.contracts import Frozen, Message, PromptStyle, Tool, ToolCall
from synthesis.errors import FormatError
from synthesis.formats.call_results import match_results
from synthesis.formats.transcript import UNPARSED, text_of, turns_of
from synthesis.formats.values import opened
from synthesis.json_reader import MAX_DEPTH, require_usable

SftFormat = Literal["trl", "sharegpt", "alpaca"]
FORMATS: tuple[SftFormat, ...] = get_args(SftFormat)
RECORD_LEVELS = MAX_DEPTH + 20
_TAG = re.compile(r"<(?=/?(?:tool_call|tool_response|think)>|\|)")
"""What begins a tag or a control token, which readers of sharegpt and alpaca look for in the text itself."""
BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"
"""How LlamaFactory itself joins the results of one turn's calls into one observation."""


class Conversation(Frozen):
    """What an agent saw and said, from the system message on, and the tools it was offered beside it.

    With a text style (`react`, `call`) the tools stand in the system message, calls and results in the words.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    style: PromptStyle = "tools"


class Shape(Frozen):
    """How records are written. Without `reasoning` none is."""

    format: SftFormat = "trl"
    reasoning: bool = True
    mask_history: bool = False


class _Side(Frozen):
    """One side of an exchange, as LlamaFactory counts: what was put to the agent, or the agent's turn."""

    tag: Literal["human", "observation", "gpt", "function_call"]
    words: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[str, ...] = Field(default=())


def records_of(conversation: Conversation, shape: Shape) -> Iterator[dict[str, Any]]:
    """The records of one conversation, none where the agent said nothing. Raises FormatError where it fits no record
    of this format."""
    kept = [_in_style(message, conversation.style) for message in conversation.messages]
    tools = conversation.tools if conversation.style == "tools" else ()
    # LlamaFactory is told by a setting beside the file; whoever has the file alone, by a column.
    masked = {"mask_history": True} if shape.mask_history else {}
    for messages in _parts(kept, shape):
        if shape.format == "trl":
            record = _trl(messages, tools, shape)
        elif shape.format == "sharegpt":
            record = _sharegpt(messages, tools) | masked
        else:
            record = _alpaca(messages, tools) | masked
        require_usable(record, "", most_levels=RECORD_LEVELS)
        yield record


def loading(shape: Shape, file: str) -> dict[str, Any]:
    """What a trainer must be told beside the file: without it LlamaFactory reads neither the system message nor the
    tools, and learns the turns before the last as well."""
    if shape.format == "trl":
        return {}
    columns = ("system", "tools")
    if shape.format == "sharegpt":
        named = {"messages": "conversations", **{column: column for column in columns}}
    else:
        named = {"prompt": "instruction", "query": "input", "response": "output"}
        named |= {column: column for column in (*columns, "history")}
    entry = {"file_name": file, "formatting": shape.format, "columns": named}
    return {"dataset_info": {"train": entry}, "arguments": {"mask_history": shape.mask_history}}


def spelled(record: dict[str, Any]) -> str:
    """A record as one line."""
    return json.dumps(record) + "\n"


def turns(conversation: Conversation) -> int:
    """How many turns the agent took."""
    return sum(message.role == "assistant" for message in conversation.messages)


def read_conversation(messages: Any, tools: Any, place: str = "") -> Conversation:
    """A conversation in OpenAI's spelling, as other systems record it. Raises FormatError: it is malformed, or does not
    begin with a system message, so that nobody knows what the agent was told."""
    if not isinstance(messages, list) or not isinstance(messages[0] if messages else None, dict):
        raise FormatError(f"{place}messages", "no conversation is stored")
    if messages[0].get("role") not in ("system", "developer"):
        raise FormatError(f"{place}messages", "what the agent was told first (the system message) is not stored")
    kept = [Message(role="system", content=text_of(messages[0].get("content"), f"{place}messages[0]"))]
    for number, turn in enumerate(turns_of(messages, f"{place}messages"), 1):
        if turn.role == "user":
            kept.append(Message(role="user", content=turn.content))
            continue
        calls = []
        for index, call in enumerate(turn.calls, 1):
            error = "its arguments are no JSON object" if UNPARSED in call.arguments else ""
            identity = call.id or f"call_{number}_{index}"
            calls.append(ToolCall(id=identity, name=call.tool, arguments=call.arguments, error=error))
        reply = Message(role="assistant", content=turn.content, reasoning=turn.reasoning, tool_calls=tuple(calls))
        results = [(tool_call.id, call.result) for tool_call, call in zip(calls, turn.calls, strict=True)]
        kept += [reply, *(Message(role="tool", content=r, tool_call_id=i) for i, r in results if r is not None)]
    return Conversation(messages=tuple(kept), tools=read_tools(tools, place))


def read_tools(tools: Any, place: str = "") -> tuple[Tool, ...]:
    """Tools in OpenAI's spelling. Raises FormatError."""
    listed = opened(tools, f"{place}tools")
    if not isinstance(listed, list):
        raise FormatError(f"{place}tools", "the tools that the agent was offered are not stored")
    offered = []
    for index, item in enumerate(listed):
        inner = item.get("function", item) if isinstance(item, dict) else None
        parameters = inner.get("parameters") if isinstance(inner, dict) else None
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str) or not isinstance(parameters, dict):
            raise FormatError(f"{place}tools[{index}]", "a tool needs a name and the schema of its parameters")
        described = text_of(inner.get("description"), f"{place}tools[{index}].description")
        offered.append(Tool(name=inner["name"], description=described, parameters=parameters))
    return tuple(offered)


def _in_style(message: Message, style: PromptStyle) -> Message:
    """In a text style the calls stand in the words already."""
    return message if style == "tools" else message.model_copy(update={"tool_calls": ()})


def _parts(messages: list[Message], shape: Shape) -> Iterator[list[Message]]:
    """The conversation up to the agent's last turn; with `mask_history` up to each of them."""
    ends = [number for number, message in enumerate(messages, 1) if message.role == "assistant"]
    for end in ends if shape.mask_history else ends[-1:]:
        part = messages[:end]
        earlier = part[:-1]
        if shape.mask_history or not shape.reasoning:
            earlier = [_without_reasoning(message) for message in earlier]
        yield [*earlier, part[-1] if shape.reasoning else _without_reasoning(part[-1])]


def _without_reasoning(message: Message) -> Message:
    return message.model_copy(update={"reasoning": ""}) if message.reasoning else message


def _trl(messages: list[Message], tools: Sequence[Tool], shape: Shape) -> dict[str, Any]:
    written: list[dict[str, Any]] = []
    turn: tuple[ToolCall, ...] = ()
    for answered in match_results(messages):
        turn = turn if answered.message.role == "tool" else answered.message.tool_calls
        written.append(_trl_message(answered.message, "" if answered.call is None else turn[answered.call].name))
    listed = [{"type": "function", "function": about} for about in _about(tools)]
    if shape.mask_history:
        return {"prompt": written[:-1], "completion": written[-1:], "tools": listed}
    return {"messages": written, "tools": listed}


def _trl_message(message: Message, tool: str) -> dict[str, Any]:
    """`tool` is the one whose result the message is."""
    written: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        return written | {"tool_call_id": message.tool_call_id} | ({"name": tool} if tool else {})
    if message.reasoning:
        written["reasoning_content"] = message.reasoning
    if message.tool_calls:
        written["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in map(_readable, message.tool_calls)
        ]
    return written


def _about(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]


def _readable(call: ToolCall) -> ToolCall:
    if call.error or not call.name:
        raise FormatError(f"the call of {call.name or 'a tool without a name'}", call.error or "it names no tool")
    return call


def _sharegpt(messages: list[Message], tools: Sequence[Tool]) -> dict[str, Any]:
    system, sides = _sides(messages)
    conversations = [{"from": side.tag, "value": _sharegpt_value(side)} for side in sides]
    return {"conversations": conversations, "system": system, "tools": json.dumps(_about(tools), ensure_ascii=False)}


def _sharegpt_value(side: _Side) -> str:
    if side.tag == "observation":
        return BETWEEN_RESULTS.join(side.results)
    thought = _thought(side.reasoning)
    if not side.calls:
        return thought + side.words
    made = [{"name": call.name, "arguments": call.arguments} for call in side.calls]
    calls = _json_text(made if len(made) > 1 else made[0])
    # LlamaFactory takes words beside a call only where the call stands in tags.
    return f"{thought}{side.words}\n<tool_call>{calls}</tool_call>" if side.words else thought + calls


def _alpaca(messages: list[Message], tools: Sequence[Tool]) -> dict[str, Any]:
    system, sides = _sides(messages)
    pairs = [[_alpaca_text(put), _alpaca_text(reply)] for put, reply in zip(sides[::2], sides[1::2], strict=True)]
    return {
        "instruction": pairs[-1][0],
        "input": "",
        "output": pairs[-1][1],
        "system": system,
        "tools": json.dumps(_about(tools), ensure_ascii=False),
        "history": pairs[:-1],
    }


def _alpaca_text(side: _Side) -> str:
    if side.tag == "observation":
        return "\n".join(f"<tool_response>\n{result}\n</tool_response>" for result in side.results)
    made = [_json_text({"name": call.name, "arguments": call.arguments}) for call in side.calls]
    calls = [f"<tool_call>\n{text}\n</tool_call>" for text in made]
    return _thought(side.reasoning) + "\n".join(part for part in (side.words, *calls) if part)


def _json_text(value: Any) -> str:
    """JSON in which no tag is spelled: `<` of one is escaped, so that an argument cannot end its call."""
    return _TAG.sub(r"\\u003c", json.dumps(value, ensure_ascii=False))


def _require_untagged(number: int, message: Message) -> None:
    """Raise FormatError if words, reasoning or a result spell a tag that would be read as the end of them."""
    own = (message.content, message.reasoning) if message.role in ("assistant", "tool") else ()
    found = next((tag for text in own for tag in re.findall(r"</?(?:tool_call|tool_response|think)>", text)), "")
    if found:
        raise FormatError(f"message {number}", f"spells {found}, which this format reads as a mark; take trl")


def _thought(reasoning: str) -> str:
    return f"<think>\n{reasoning.strip()}\n</think>\n\n" if reasoning.strip() else ""


def _sides(messages: list[Message]) -> tuple[str, list[_Side]]:
    """The system message, and what was put to the agent and what it said in strict alternation. Raises FormatError."""
    system = messages[0].content if messages and messages[0].role == "system" else ""
    sides: list[_Side] = []
    for number, message in enumerate(messages, 1):
        _require_untagged(number, message)
    for answered in match_results(messages[1 if system else 0 :]):
        message, before = answered.message, sides[-1] if sides else None
        if message.role == "tool" and before is not None and before.tag == "observation":
            sides[-1] = before.model_copy(update={"results": (*before.results, message.content)})
            continue
        side = _side(message)
        if (side.tag in ("gpt", "function_call")) != (len(sides) % 2 == 1):
            raise FormatError(f"message {len(sides) + 1}", "agent and user (or tool) must take turns in this format")
        sides.append(side)
    _require_whole_results(sides)
    return system, sides


def _require_whole_results(sides: Sequence[_Side]) -> None:
    """Raise FormatError if a turn's calls have fewer or more results: here nothing but their order tells them apart."""
    for number, (turn, answer) in enumerate(pairwise(sides), 1):
        if answer.tag == "observation" and len(answer.results) != len(turn.calls):
            raise FormatError(
                f"message {number + 1}", f"{len(answer.results)} results of {len(turn.calls)} calls; each needs its own"
            )


def _side(message: Message) -> _Side:
    if message.role == "tool":
        return _Side(tag="observation", results=(message.content,))
    if message.role != "assistant":
        return _Side(tag="human", words=message.content)
    calls = tuple(map(_readable, message.tool_calls))
    tag: Literal["gpt", "function_call"] = "function_call" if calls else "gpt"
    return _Side(tag=tag, words=message.content, reasoning=message.reasoning, calls=calls)
