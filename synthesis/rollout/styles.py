"""The format of calls and their results for an agent: native, ReAct text, or `func(args)` text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from synthesis.contracts import AnswerField, Message, PromptStyle, Tool, ToolCall
from synthesis.formats.answer_form import describe_fields
from synthesis.llm.wire import read_arguments
from synthesis.prompts import Prompt, get_prompt
from synthesis.rollout.calls import MOST_CALLS, read_calls

# Each matches within one line: endless line breaks of an LLM must not cost the square of their number.
_OBSERVED = re.compile(r"^[ \t]*Observation( \d+)?[ \t]*:", re.MULTILINE)
_ACTION = re.compile(r"^[ \t]*Action[ \t]*:[ \t]*(.*)$", re.MULTILINE)
_INPUT = re.compile(r"^[ \t]*Action Input[ \t]*:", re.MULTILINE)
_ANSWER = re.compile(r"^[ \t]*Answer[ \t]*:[ \t]*", re.MULTILINE)
_NEXT = re.compile(r"^[ \t]*(?:Thought|Answer)[ \t]*:", re.MULTILINE)
_THOUGHT = re.compile(r"^\s*Thought\s*:[ \t]*")
_FENCE = re.compile(r"\A```[\w-]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def build_system_message(
    style: PromptStyle,
    conversational: bool,
    documentation: str,
    tools: Sequence[Tool],
    form: Sequence[AnswerField] = (),
) -> tuple[Message, tuple[Prompt, ...]]:
    """Return the agent's first message, and the prompts it was made from. `tools` are the environment's alone."""
    role = get_prompt("agent", "conversation" if conversational else "task")
    manner = get_prompt("agent", style)
    calling = manner.render() if style == "tools" else manner.render(tools=_format_tools(tools))
    ending, used = _describe_ending(style, conversational, form)
    content = role.render(documentation=documentation, calling=calling, ending=ending)
    return Message(role="system", content=content), (role, manner, *used)


def _describe_ending(
    style: PromptStyle, conversational: bool, form: Sequence[AnswerField]
) -> tuple[str, tuple[Prompt, ...]]:
    """Return the instructions for ending the task, and their prompts."""
    if not form:
        words = get_prompt("agent", "end_task")
        return ("", ()) if conversational else (words.render(), (words,))
    ending_prompt = get_prompt(
        "agent", f"end_{'talk' if conversational else 'task'}_by_{'call' if style == 'tools' else 'message'}"
    )
    ending_text = ending_prompt.render() if style == "tools" else ending_prompt.render(fields=describe_fields(form))
    return f" {ending_text}" if conversational else ending_text, (ending_prompt,)


def _format_tools(tools: Sequence[Tool]) -> str:
    lines = []
    for tool in tools:
        about = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
        lines.append(json.dumps(about, ensure_ascii=False))
    return "\n".join(lines)


def read_message(style: PromptStyle, message: Message, tools: Sequence[Tool]) -> Message:
    """Return an LLM's message with the calls that its text contains.

    Text that it wrote itself in the place of an observation is dropped.
    """
    if style == "tools":
        return message
    if message.tool_calls:
        # It made native calls although none were offered; they are unambiguous.
        return message.model_copy(update={"content": message.content or _format_calls(message.tool_calls)})
    if style == "call":
        calls, _words = read_calls(message.content, [tool.name for tool in tools])
        return message.model_copy(update={"tool_calls": calls})
    text = message.content
    first = _ACTION.search(text)
    answered = _ANSWER.search(text)
    if first is None or (answered is not None and answered.start() < first.start()):
        return message
    made_up = _OBSERVED.search(text, first.end())
    text = text[: made_up.start()].rstrip() if made_up else text
    return message.model_copy(update={"content": text, "tool_calls": _read_actions(text)})


def _format_calls(calls: Sequence[ToolCall]) -> str:
    return "\n".join(f"{call.name} {json.dumps(call.arguments, ensure_ascii=False)}" for call in calls)


def _read_actions(text: str) -> tuple[ToolCall, ...]:
    matches = list(_ACTION.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    return tuple(
        _read_action(match, text[match.end() : end])
        for match, end in list(zip(matches, ends, strict=True))[:MOST_CALLS]
    )


def _read_action(match: re.Match[str], rest: str) -> ToolCall:
    name = match[1].strip().strip("`*\"'")
    input_match = _INPUT.search(rest)
    if input_match is None:
        missing = "an Action Input line with a JSON object is missing"
        return ToolCall(name=name[:200], raw=match[0].strip()[:20_000], error=missing)
    raw = _NEXT.split(rest[input_match.end() :], maxsplit=1)[0].strip()
    fenced = _FENCE.match(raw)
    arguments, error = read_arguments(fenced[1] if fenced else raw)
    return ToolCall(name=name[:200], arguments=arguments, raw=raw[:20_000], error=error)


def extract_words(style: PromptStyle, message: Message, tools: Sequence[Tool]) -> str:
    """Return the words of a message without its calls, thoughts and answer marks."""
    text = message.content
    if style == "tools" or not text:
        return text.strip()
    if style == "call":
        return read_calls(text, [tool.name for tool in tools])[1] if message.tool_calls else text.strip()
    if message.tool_calls:
        first = _ACTION.search(text)
        return _THOUGHT.sub("", text[: first.start()] if first else text).strip()
    answered = _ANSWER.search(text)
    return (text[answered.end() :] if answered else _THOUGHT.sub("", text)).strip()


def build_result_messages(style: PromptStyle, calls: Sequence[ToolCall], observations: Sequence[str]) -> list[Message]:
    """Return the messages with the results of an agent's calls, in their order."""
    if style == "tools":
        return [
            Message(role="tool", content=text, tool_call_id=call.id)
            for call, text in zip(calls, observations, strict=True)
        ]
    if len(observations) == 1:
        return [Message(role="user", content=f"Observation: {observations[0]}")]
    lines = [
        f"Observation {number} ({call.name}): {text}"
        for number, (call, text) in enumerate(zip(calls, observations, strict=True), 1)
    ]
    return [Message(role="user", content="\n".join(lines))]
