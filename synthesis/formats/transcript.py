"""Conversation of an agent as turns: text, reasoning and calls with their results, in any dialect."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Injection
from synthesis.errors import FormatError
from synthesis.formats.values import clean_text
from synthesis.json_reader import get_json_type, read_json, require_usable

THINK = re.compile(r"^\s*<think(?:ing)?>(.*?)</think(?:ing)?>\s*", re.DOTALL)
CALL_OPENS = re.compile(r"<tool_call>\s*(?=\{)")
CALL_CLOSES = re.compile(r"(?<=\})\s*</tool_call>")
RESPONSE = "<tool_response>", "</tool_response>"
UNPARSED = "(arguments that are not a JSON object)"
UNNAMED = "(no name)"
NAMED = re.compile(r'"name"\s*:\s*"([^"\\]{1,200})"')
READ_FOR_NAME = 20_000
CHAT = "chat_with_user"


@dataclass
class RecordedCall:
    tool: str
    arguments: dict[str, Any]
    id: str = ""
    result: str | None = None
    problem: str = ""
    """Why what the agent wrote cannot be read as a call at all; it never reached the environment then."""
    executed: bool = True
    """Whether it may have reached the environment: not an answer that was submitted."""
    injected: Injection | None = None
    """How a disturbance affected it, if the record contains that."""


@dataclass
class Turn:
    """One message of the user, or one of the assistant with the calls it made."""

    role: str
    content: str = ""
    reasoning: str = ""
    calls: list[RecordedCall] = field(default_factory=list)


def parse_turns(messages: list[Any], place: str) -> list[Turn]:
    """Return the turns of a conversation without system messages; tool messages become results of their calls."""
    turns: list[Turn] = []
    unanswered = _UnansweredCalls()
    for index, message in enumerate(messages):
        where = f"{place}[{index}]"
        if not isinstance(message, dict):
            raise FormatError(where, f"expected an object, found a {get_json_type(message)}")
        role = message.get("role") if isinstance(message.get("role"), str) else ""
        content = read_message_text(message.get("content"), f"{where}.content")
        response = _extract_response(content) if role == "user" else None
        if role in {"tool", "function"} or (response is not None and turns and turns[-1].calls):
            result = content if response is None else response
            unanswered.answer(str(message.get("tool_call_id") or ""), result)
        elif role == "assistant":
            turns.append(_parse_assistant_turn(message, content, where))
            unanswered.begin_turn(turns[-1].calls)
        elif role == "user":
            turns.append(Turn("user", content))
            unanswered.begin_turn([])
        elif role not in {"system", "developer"}:
            raise FormatError(f"{where}.role", f"unknown role {clean_text(str(message.get('role')))[:40]!r}")
    return turns


def build_spoken_answer(words: Iterable[str], conversational: bool) -> str:
    """Return the answer that checks read: the agent's last message, or in a conversation all its messages."""
    spoken = [text for text in words if text.strip()]
    return "\n\n".join(spoken if conversational else spoken[-1:])


def read_message_text(value: Any, place: str) -> str:
    """Return message content as text: a text, null, or the text parts of a list."""
    if isinstance(value, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in value]
        return clean_text("\n".join(part for part in parts if isinstance(part, str)))
    if value is not None and not isinstance(value, str):
        raise FormatError(place, f"expected text, found a {get_json_type(value)}")
    return clean_text(value or "")


def _parse_assistant_turn(message: dict[str, Any], content: str, place: str) -> Turn:
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    thought = THINK.match(content)
    if thought:
        content = content[thought.end() :]
        reasoning = reasoning or thought[1].strip()
    if not isinstance(reasoning, str):
        raise FormatError(f"{place}.reasoning", f"expected text, found a {get_json_type(reasoning)}")
    listed = message.get("tool_calls")
    if listed is None and isinstance(message.get("function_call"), dict):
        listed = [{"function": message["function_call"]}]
    if not isinstance(listed, list | None):
        raise FormatError(f"{place}.tool_calls", f"expected a list, found a {get_json_type(listed)}")
    calls = [_parse_call(item) for item in listed or []]
    if not calls and "<tool_call>" in content:
        texts, rest = _extract_calls(content)
        calls = [_parse_call(text) for text in texts]
        content = rest.strip() if calls else content
    return Turn("assistant", content, clean_text(reasoning), calls)


def _parse_call(item: Any) -> RecordedCall:
    written = _parse_usable(item) if isinstance(item, str) else item
    inner = written.get("function", written) if isinstance(written, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return build_unreadable_call(item)
    item = written
    identity = item.get("id")
    arguments = parse_arguments(inner.get("arguments"))
    return RecordedCall(clean_text(inner["name"])[:200], arguments, identity if isinstance(identity, str) else "")


def build_unreadable_call(written: Any) -> RecordedCall:
    """Return a call with the text that an agent wrote instead of a readable one, and its name as far as it has one."""
    text = written if isinstance(written, str) else json.dumps(written)
    name_match = NAMED.search(text, 0, READ_FOR_NAME)
    return RecordedCall(
        clean_text(name_match[1]) if name_match else UNNAMED,
        {UNPARSED: clean_text(text)},
        problem=_explain_unreadable(written),
    )


def _explain_unreadable(written: Any) -> str:
    if not isinstance(written, str):
        return "It names no tool."
    if not written.strip():
        return "What it wrote is not in the record."
    texts, _ = _extract_calls(written)
    text = texts[0] if texts else written
    try:
        read_json(text)
    except FormatError as error:
        return clean_text(f"It is {error}.")
    return "It is no JSON object that names a tool."


def parse_arguments(value: Any) -> dict[str, Any]:
    """Return a call's arguments as an object. Text that is not one stays visible, and fails as in the recorded run."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    arguments = _parse_usable(value)
    if isinstance(arguments, dict):
        return arguments
    return {UNPARSED: clean_text(value if isinstance(value, str) else json.dumps(value))}


def _parse_usable(written: Any) -> Any:
    """Return JSON text parsed, or an already parsed value; None if it cannot be kept."""
    try:
        if isinstance(written, str):
            return read_json(written)
        require_usable(written, "")
    except FormatError:
        return None
    return written


def _extract_response(content: str) -> str | None:
    """Return the content of a message that consists of one `<tool_response>`; None for any other message."""
    opens, closes = RESPONSE
    bare = content.strip()
    is_whole = bare.startswith(opens) and bare.endswith(closes) and len(bare) >= len(opens) + len(closes)
    return bare[len(opens) : -len(closes)].strip() if is_whole else None


def _extract_calls(content: str) -> tuple[list[str], str]:
    """Return the objects in `<tool_call>{...}</tool_call>`, and the text without them.

    One pass: each object reaches from its brace to the next brace that a closing tag follows.
    """
    closes = CALL_CLOSES.finditer(content)
    close = next(closes, None)
    texts, rest, at = [], [], 0
    for opens in CALL_OPENS.finditer(content):
        while close is not None and close.start() <= opens.end():
            close = next(closes, None)
        if close is None:
            break
        if opens.start() >= at:
            texts.append(content[opens.end() : close.start()])
            rest.append(content[at : opens.start()])
            at = close.end()
    return texts, "".join(rest) + content[at:]


class _CallQueue:
    """Calls in their order, each found once, by its id or as the oldest."""

    def __init__(self) -> None:
        self.order: deque[RecordedCall] = deque()
        self.by_id: dict[str, deque[RecordedCall]] = {}

    def add(self, call: RecordedCall) -> None:
        self.order.append(call)
        if call.id:
            self.by_id.setdefault(call.id, deque()).append(call)

    def find_oldest(self) -> RecordedCall | None:
        return _find_first_open(self.order)

    def find_by_id(self, identity: str) -> RecordedCall | None:
        return _find_first_open(self.by_id.get(identity, deque()))


def _find_first_open(calls: deque[RecordedCall]) -> RecordedCall | None:
    while calls and calls[0].result is not None:
        calls.popleft()
    return calls[0] if calls else None


class _UnansweredCalls:
    """Calls without a result. A result goes to the call that it names, else to the last turn's first, else to the
    oldest.
    """

    def __init__(self) -> None:
        self.last, self.older = _CallQueue(), _CallQueue()

    def begin_turn(self, calls: list[RecordedCall]) -> None:
        for call in self.last.order:
            if call.result is None:
                self.older.add(call)
        self.last = _CallQueue()
        for call in calls:
            self.last.add(call)

    def answer(self, identity: str, content: str) -> None:
        call = (
            self.last.find_by_id(identity)
            or self.older.find_by_id(identity)
            or self.last.find_oldest()
            or self.older.find_oldest()
        )
        if call is not None:
            call.result = content
