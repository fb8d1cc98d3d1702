"""An agent's conversation as turns: text, reasoning and calls with their results, whatever dialect it is in."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from synthesis.contracts import Injection
from synthesis.errors import FormatError
from synthesis.formats.values import clean
from synthesis.json_reader import json_type, read_json, require_usable

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
    """How a disturbance struck it, where the record says so."""


@dataclass
class Turn:
    """One message of the user, or one of the assistant with the calls it made."""

    role: str
    content: str = ""
    reasoning: str = ""
    calls: list[RecordedCall] = field(default_factory=list)


def turns_of(messages: list[Any], place: str) -> list[Turn]:
    """The turns of a conversation; system messages are no turns, tool messages go to their calls."""
    turns: list[Turn] = []
    unanswered = _UnansweredCalls()
    for index, message in enumerate(messages):
        where = f"{place}[{index}]"
        if not isinstance(message, dict):
            raise FormatError(where, f"expected an object, found a {json_type(message)}")
        role = message.get("role") if isinstance(message.get("role"), str) else ""
        content = text_of(message.get("content"), f"{where}.content")
        response = _response(content) if role == "user" else None
        if role in {"tool", "function"} or (response is not None and turns and turns[-1].calls):
            result = content if response is None else response
            unanswered.answer(str(message.get("tool_call_id") or ""), result)
        elif role == "assistant":
            turns.append(_assistant(message, content, where))
            unanswered.begin_turn(turns[-1].calls)
        elif role == "user":
            turns.append(Turn("user", content))
            unanswered.begin_turn([])
        elif role not in {"system", "developer"}:
            raise FormatError(f"{where}.role", f"unknown role {clean(str(message.get('role')))[:40]!r}")
    return turns


def told_user(words: Iterable[str], conversational: bool) -> str:
    """The answer that checks look at, of what an agent said in its turns: its last words, and in a conversation all
    that the user was told, whenever it was."""
    spoken = [text for text in words if text.strip()]
    return "\n\n".join(spoken if conversational else spoken[-1:])


def text_of(value: Any, place: str) -> str:
    """Message content: text, null, or a list of parts of which the text is taken."""
    if isinstance(value, list):
        parts = [part.get("text") if isinstance(part, dict) else part for part in value]
        return clean("\n".join(part for part in parts if isinstance(part, str)))
    if value is not None and not isinstance(value, str):
        raise FormatError(place, f"expected text, found a {json_type(value)}")
    return clean(value or "")


def _assistant(message: dict[str, Any], content: str, place: str) -> Turn:
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    thought = THINK.match(content)
    if thought:
        content = content[thought.end() :]
        reasoning = reasoning or thought[1].strip()
    if not isinstance(reasoning, str):
        raise FormatError(f"{place}.reasoning", f"expected text, found a {json_type(reasoning)}")
    listed = message.get("tool_calls")
    if listed is None and isinstance(message.get("function_call"), dict):
        listed = [{"function": message["function_call"]}]
    if not isinstance(listed, list | None):
        raise FormatError(f"{place}.tool_calls", f"expected a list, found a {json_type(listed)}")
    calls = [_call(item) for item in listed or []]
    if not calls and "<tool_call>" in content:
        texts, rest = _written_calls(content)
        calls = [_call(text) for text in texts]
        content = rest.strip() if calls else content
    return Turn("assistant", content, clean(reasoning), calls)


def _call(item: Any) -> RecordedCall:
    written = _usable(item) if isinstance(item, str) else item
    inner = written.get("function", written) if isinstance(written, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        return unreadable(item)
    item = written
    identity = item.get("id")
    arguments = arguments_of(inner.get("arguments"))
    return RecordedCall(clean(inner["name"])[:200], arguments, identity if isinstance(identity, str) else "")


def unreadable(written: Any) -> RecordedCall:
    """What an agent wrote where a call was due, kept as it stands; its name as far as it says one."""
    text = written if isinstance(written, str) else json.dumps(written)
    named = NAMED.search(text, 0, READ_FOR_NAME)
    return RecordedCall(
        clean(named[1]) if named else UNNAMED, {UNPARSED: clean(text)}, problem=_why_unreadable(written)
    )


def _why_unreadable(written: Any) -> str:
    if not isinstance(written, str):
        return "It names no tool."
    if not written.strip():
        return "What it wrote is not in the record."
    texts, _ = _written_calls(written)
    text = texts[0] if texts else written
    try:
        read_json(text)
    except FormatError as error:
        return clean(f"It is {error}.")
    return "It is no JSON object that names a tool."


def arguments_of(value: Any) -> dict[str, Any]:
    """A call's arguments as an object. What is none stays visible, and the call fails as it did when recorded."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return {}
    arguments = _usable(value)
    if isinstance(arguments, dict):
        return arguments
    return {UNPARSED: clean(value if isinstance(value, str) else json.dumps(value))}


def _usable(written: Any) -> Any:
    """JSON text read, or what was read of it already; None where it cannot be kept."""
    try:
        if isinstance(written, str):
            return read_json(written)
        require_usable(written, "")
    except FormatError:
        return None
    return written


def _response(content: str) -> str | None:
    """What stands in the one `<tool_response>` that a message consists of."""
    opens, closes = RESPONSE
    bare = content.strip()
    whole = bare.startswith(opens) and bare.endswith(closes) and len(bare) >= len(opens) + len(closes)
    return bare[len(opens) : -len(closes)].strip() if whole else None


def _written_calls(content: str) -> tuple[list[str], str]:
    """(the objects in `<tool_call>{...}</tool_call>`, the text without them), in one pass: each from its brace to the
    next brace with a closing tag behind it."""
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

    def oldest(self) -> RecordedCall | None:
        return _first_open(self.order)

    def named(self, identity: str) -> RecordedCall | None:
        return _first_open(self.by_id.get(identity, deque()))


def _first_open(calls: deque[RecordedCall]) -> RecordedCall | None:
    while calls and calls[0].result is not None:
        calls.popleft()
    return calls[0] if calls else None


class _UnansweredCalls:
    """Calls without a result. One goes to the call that it names, else to the last turn's first, else to the oldest."""

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
        call = self.last.named(identity) or self.older.named(identity) or self.last.oldest() or self.older.oldest()
        if call is not None:
            call.result = content
