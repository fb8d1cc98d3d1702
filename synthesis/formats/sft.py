"""Conversations as records for supervised fine-tuning: one JSON object each, as TRL and LlamaFactory read them.

`trl`: `messages` and `tools` as chat templates take them (arguments are objects, reasoning is `reasoning_content`).
`sharegpt`: LlamaFactory's `conversations` with `system` and `tools` (a JSON string). `alpaca`: LlamaFactory's
`instruction`, `output` and `history`, calls in Qwen's tags, as in EnvScaler's released data.

With `mask_history` (EnvScaler, B.2) n turns of the agent become n records: each ends with one turn, the only one to be
learnt, and the turns before it have lost their reasoning, as in a thinking model's chat template.
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
from synthesis.formats.transcript import UNPARSED, parse_turns, read_message_text
from synthesis.formats.values import decode_json
from synthesis.json_reader import MAX_DEPTH, require_usable

SftFormat = Literal["trl", "sharegpt", "alpaca"]
FORMATS: tuple[SftFormat, ...] = get_args(SftFormat)
RECORD_LEVELS = MAX_DEPTH + 20
_TAG = re.compile(r"<(?=/?(?:tool_call|tool_response|think)>|\|)")
"""What begins a tag or a control token, which readers of sharegpt and alpaca look for in the text itself."""
BETWEEN_RESULTS = "\n</tool_response>\n<tool_response>\n"
"""How LlamaFactory itself joins the results of one turn's calls into one observation."""


class Conversation(Frozen):
    """Messages that an agent saw and wrote, from the system message on, and the tools offered to it.

    With a text style (`react`, `call`) the tools are in the system message, calls and results in the text.
    """

    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    style: PromptStyle = "tools"


class Shape(Frozen):
    """Format of the records. Without `reasoning` none is written."""

    format: SftFormat = "trl"
    reasoning: bool = True
    mask_history: bool = False


class _Side(Frozen):
    """One side of an exchange in LlamaFactory's terms: the input of the agent, or the agent's turn."""

    tag: Literal["human", "observation", "gpt", "function_call"]
    words: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[str, ...] = Field(default=())


def build_sft_records(conversation: Conversation, shape: Shape) -> Iterator[dict[str, Any]]:
    """Yield the records of one conversation, none if the agent said nothing. Raise FormatError if it fits no record of
    this format.
    """
    styled_messages = [_strip_text_calls(message, conversation.style) for message in conversation.messages]
    tools = conversation.tools if conversation.style == "tools" else ()
    # LlamaFactory reads a setting outside the file; the column is for users who have only the file.
    masked = {"mask_history": True} if shape.mask_history else {}
    for messages in _split_parts(styled_messages, shape):
        if shape.format == "trl":
            record = _build_trl_record(messages, tools, shape)
        elif shape.format == "sharegpt":
            record = _build_sharegpt_record(messages, tools) | masked
        else:
            record = _build_alpaca_record(messages, tools) | masked
        require_usable(record, "", most_levels=RECORD_LEVELS)
        yield record


def build_loading_config(shape: Shape, file: str) -> dict[str, Any]:
    """Return the settings that a trainer needs with the file.

    Without them LlamaFactory reads neither the system message nor the tools, and learns the turns before the last as
    well.
    """
    if shape.format == "trl":
        return {}
    columns = ("system", "tools")
    if shape.format == "sharegpt":
        column_names = {"messages": "conversations", **{column: column for column in columns}}
    else:
        column_names = {"prompt": "instruction", "query": "input", "response": "output"}
        column_names |= {column: column for column in (*columns, "history")}
    entry = {"file_name": file, "formatting": shape.format, "columns": column_names}
    return {"dataset_info": {"train": entry}, "arguments": {"mask_history": shape.mask_history}}


def format_record_line(record: dict[str, Any]) -> str:
    """Return a record as one line."""
    return json.dumps(record) + "\n"


def count_turns(conversation: Conversation) -> int:
    """Count the turns of the agent."""
    return sum(message.role == "assistant" for message in conversation.messages)


def read_conversation(messages: Any, tools: Any, place: str = "") -> Conversation:
    """Return a conversation in OpenAI's spelling, as other systems record it.

    Raise FormatError if it is malformed, or does not begin with a system message, so that the agent's instructions are
    unknown.
    """
    if not isinstance(messages, list) or not isinstance(messages[0] if messages else None, dict):
        raise FormatError(f"{place}messages", "no conversation is stored")
    if messages[0].get("role") not in ("system", "developer"):
        raise FormatError(f"{place}messages", "the system message that the agent received first is not stored")
    read_messages = [
        Message(role="system", content=read_message_text(messages[0].get("content"), f"{place}messages[0]"))
    ]
    for number, turn in enumerate(parse_turns(messages, f"{place}messages"), 1):
        if turn.role == "user":
            read_messages.append(Message(role="user", content=turn.content))
            continue
        calls = []
        for index, call in enumerate(turn.calls, 1):
            error = "its arguments are no JSON object" if UNPARSED in call.arguments else ""
            identity = call.id or f"call_{number}_{index}"
            calls.append(ToolCall(id=identity, name=call.tool, arguments=call.arguments, error=error))
        reply = Message(role="assistant", content=turn.content, reasoning=turn.reasoning, tool_calls=tuple(calls))
        results = [(tool_call.id, call.result) for tool_call, call in zip(calls, turn.calls, strict=True)]
        read_messages += [
            reply,
            *(Message(role="tool", content=r, tool_call_id=i) for i, r in results if r is not None),
        ]
    return Conversation(messages=tuple(read_messages), tools=read_tools(tools, place))


def read_tools(tools: Any, place: str = "") -> tuple[Tool, ...]:
    """Return tools in OpenAI's spelling. Raise FormatError if they are malformed."""
    listed = decode_json(tools, f"{place}tools")
    if not isinstance(listed, list):
        raise FormatError(f"{place}tools", "the tools that the agent was offered are not stored")
    offered = []
    for index, item in enumerate(listed):
        inner = item.get("function", item) if isinstance(item, dict) else None
        parameters = inner.get("parameters") if isinstance(inner, dict) else None
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str) or not isinstance(parameters, dict):
            raise FormatError(f"{place}tools[{index}]", "a tool needs a name and the schema of its parameters")
        described = read_message_text(inner.get("description"), f"{place}tools[{index}].description")
        offered.append(Tool(name=inner["name"], description=described, parameters=parameters))
    return tuple(offered)


def _strip_text_calls(message: Message, style: PromptStyle) -> Message:
    """Return the message without calls in a text style, in which the text already has them."""
    return message if style == "tools" else message.model_copy(update={"tool_calls": ()})


def _split_parts(messages: list[Message], shape: Shape) -> Iterator[list[Message]]:
    """Yield the conversation up to the agent's last turn; with `mask_history` up to each of them."""
    ends = [number for number, message in enumerate(messages, 1) if message.role == "assistant"]
    for end in ends if shape.mask_history else ends[-1:]:
        part = messages[:end]
        earlier = part[:-1]
        if shape.mask_history or not shape.reasoning:
            earlier = [_drop_reasoning(message) for message in earlier]
        yield [*earlier, part[-1] if shape.reasoning else _drop_reasoning(part[-1])]


def _drop_reasoning(message: Message) -> Message:
    return message.model_copy(update={"reasoning": ""}) if message.reasoning else message


def _build_trl_record(messages: list[Message], tools: Sequence[Tool], shape: Shape) -> dict[str, Any]:
    written: list[dict[str, Any]] = []
    turn: tuple[ToolCall, ...] = ()
    for answered in match_results(messages):
        turn = turn if answered.message.role == "tool" else answered.message.tool_calls
        written.append(_build_trl_message(answered.message, "" if answered.call is None else turn[answered.call].name))
    listed = [{"type": "function", "function": about} for about in _describe_tools(tools)]
    if shape.mask_history:
        return {"prompt": written[:-1], "completion": written[-1:], "tools": listed}
    return {"messages": written, "tools": listed}


def _build_trl_message(message: Message, tool: str) -> dict[str, Any]:
    """Return a message as TRL reads it. `tool` is the tool whose result the message is."""
    written: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        return written | {"tool_call_id": message.tool_call_id} | ({"name": tool} if tool else {})
    if message.reasoning:
        written["reasoning_content"] = message.reasoning
    if message.tool_calls:
        written["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in map(_require_readable, message.tool_calls)
        ]
    return written


def _describe_tools(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    return [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]


def _require_readable(call: ToolCall) -> ToolCall:
    if call.error or not call.name:
        raise FormatError(f"the call of {call.name or 'a tool without a name'}", call.error or "it names no tool")
    return call


def _build_sharegpt_record(messages: list[Message], tools: Sequence[Tool]) -> dict[str, Any]:
    system, sides = _build_sides(messages)
    conversations = [{"from": side.tag, "value": _format_sharegpt_value(side)} for side in sides]
    return {
        "conversations": conversations,
        "system": system,
        "tools": json.dumps(_describe_tools(tools), ensure_ascii=False),
    }


def _format_sharegpt_value(side: _Side) -> str:
    if side.tag == "observation":
        return BETWEEN_RESULTS.join(side.results)
    thought = _format_thought(side.reasoning)
    if not side.calls:
        return thought + side.words
    call_objects = [{"name": call.name, "arguments": call.arguments} for call in side.calls]
    calls = _dump_untagged_json(call_objects if len(call_objects) > 1 else call_objects[0])
    # LlamaFactory accepts words with a call only if the call is in tags.
    return f"{thought}{side.words}\n<tool_call>{calls}</tool_call>" if side.words else thought + calls


def _build_alpaca_record(messages: list[Message], tools: Sequence[Tool]) -> dict[str, Any]:
    system, sides = _build_sides(messages)
    pairs = [
        [_format_alpaca_text(put), _format_alpaca_text(reply)]
        for put, reply in zip(sides[::2], sides[1::2], strict=True)
    ]
    return {
        "instruction": pairs[-1][0],
        "input": "",
        "output": pairs[-1][1],
        "system": system,
        "tools": json.dumps(_describe_tools(tools), ensure_ascii=False),
        "history": pairs[:-1],
    }


def _format_alpaca_text(side: _Side) -> str:
    if side.tag == "observation":
        return "\n".join(f"<tool_response>\n{result}\n</tool_response>" for result in side.results)
    call_texts = [_dump_untagged_json({"name": call.name, "arguments": call.arguments}) for call in side.calls]
    calls = [f"<tool_call>\n{text}\n</tool_call>" for text in call_texts]
    return _format_thought(side.reasoning) + "\n".join(part for part in (side.words, *calls) if part)


def _dump_untagged_json(value: Any) -> str:
    """Return JSON in which no tag is spelled: the `<` of a tag is escaped, so that an argument cannot end its call."""
    return _TAG.sub(r"\\u003c", json.dumps(value, ensure_ascii=False))


def _require_untagged(number: int, message: Message) -> None:
    """Raise FormatError if words, reasoning or a result spell a tag that would be read as the end of them."""
    own_texts = (message.content, message.reasoning) if message.role in ("assistant", "tool") else ()
    found_tag = next(
        (tag for text in own_texts for tag in re.findall(r"</?(?:tool_call|tool_response|think)>", text)), ""
    )
    if found_tag:
        raise FormatError(f"message {number}", f"spells {found_tag}, which this format reads as a mark; take trl")


def _format_thought(reasoning: str) -> str:
    return f"<think>\n{reasoning.strip()}\n</think>\n\n" if reasoning.strip() else ""


def _build_sides(messages: list[Message]) -> tuple[str, list[_Side]]:
    """Return the system message, and the agent's inputs and turns in strict alternation. Raise FormatError if they do
    not alternate.
    """
    system = messages[0].content if messages and messages[0].role == "system" else ""
    sides: list[_Side] = []
    for number, message in enumerate(messages, 1):
        _require_untagged(number, message)
    for answered in match_results(messages[1 if system else 0 :]):
        message, before = answered.message, sides[-1] if sides else None
        if message.role == "tool" and before is not None and before.tag == "observation":
            sides[-1] = before.model_copy(update={"results": (*before.results, message.content)})
            continue
        side = _build_side(message)
        if (side.tag in ("gpt", "function_call")) != (len(sides) % 2 == 1):
            raise FormatError(f"message {len(sides) + 1}", "agent and user (or tool) must take turns in this format")
        sides.append(side)
    _require_whole_results(sides)
    return system, sides


def _require_whole_results(sides: Sequence[_Side]) -> None:
    """Raise FormatError if a turn's calls have fewer or more results: here only their order distinguishes them."""
    for number, (turn, answer) in enumerate(pairwise(sides), 1):
        if answer.tag == "observation" and len(answer.results) != len(turn.calls):
            raise FormatError(
                f"message {number + 1}", f"{len(answer.results)} results of {len(turn.calls)} calls; each needs its own"
            )


def _build_side(message: Message) -> _Side:
    if message.role == "tool":
        return _Side(tag="observation", results=(message.content,))
    if message.role != "assistant":
        return _Side(tag="human", words=message.content)
    calls = tuple(map(_require_readable, message.tool_calls))
    tag: Literal["gpt", "function_call"] = "function_call" if calls else "gpt"
    return _Side(tag=tag, words=message.content, reasoning=message.reasoning, calls=calls)
