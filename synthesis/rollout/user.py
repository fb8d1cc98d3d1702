"""The simulated user of a conversation: it has the intent, sees the agent's words and the results of its own tools, and
ends the talk.

It does not see the agent's calls, and the agent does not see the user's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, Protocol

from synthesis.contracts import Frozen, Message, Tool, ToolCall, Usage, UserKind
from synthesis.errors import EnvariumError
from synthesis.llm import ChatModel
from synthesis.llm.chat import get_last_heard
from synthesis.prompts import get_prompt, map_prompt_hashes

STOP = "###STOP###"
"""Ends the conversation if it is alone on a line; inside other text it is text."""
TRIES = 3
LONGEST = 8_000
MOST_ROUNDS = 6
"""So many times the user may call tools of its own before it says something."""
MOST_CALLS = 8
"""So many calls it may make at once."""
TOO_MANY_ROUNDS = f"it made calls again, after {MOST_ROUNDS} times without a word; say something now"
TOO_MANY_CALLS = f"not carried out, nor any call behind it: at most {MOST_CALLS} calls at once"
_WORD = re.compile(r"\w")


class UserTurn(Frozen):
    """The user's words, without the stop line; `stopped` if there was one.

    With `calls` it says nothing yet: it is asked again once they are executed.
    """

    content: str = ""
    reasoning: str = ""
    stopped: bool = False
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = Usage()


class UnusableUser(EnvariumError):
    """The simulated user gave no usable reply, also when asked again. Not the agent's fault: never a reward of 0."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage


class User(Protocol):
    """The person who wants something done. `name` and `prompts` (name to SHA-256) are stored as provenance."""

    @property
    def name(self) -> str: ...

    @property
    def prompts(self) -> dict[str, str]: ...

    async def say(self, talk: Sequence[Message]) -> UserTurn:
        """Return the user's next words, or the calls that it makes before. Raise InfrastructureError, UnusableUser.

        `talk` holds the user's and the agent's words so far, with the calls that the user made (messages of its own)
        and their results, and is empty at the start. After a bounded number of calls the user has to say something.
        """
        ...


class SimulatedUser:
    """A user played by an LLM: `base`, or `optimised` after the rules of AutoForge's appendix A.2.

    `tools` are its own, called natively whatever the agent's prompt style; it may have none.
    """

    def __init__(
        self,
        model: ChatModel,
        intent: str,
        kind: UserKind = "optimised",
        tools: Sequence[Tool] = (),
        **parameters: Any,
    ) -> None:
        self.model = model
        self.kind = kind
        self.tools = tuple(tools)
        self.parameters = parameters
        self._role = get_prompt("user", kind)
        self._tools = get_prompt("user", "tools")
        self._opening = get_prompt("user", "opening")
        self._again = get_prompt("user", "again")
        words = self._role.render(intent=intent, stop=STOP)
        # The intent is data and comes last, so that no text after it can be mistaken for a part of it.
        self._system = f"{self._tools.render()}\n\n{words}" if self.tools else words

    @property
    def name(self) -> str:
        return f"{self.kind} ({self.model.name})"

    @property
    def prompts(self) -> dict[str, str]:
        return map_prompt_hashes(self._role, self._opening, self._again, *([self._tools] if self.tools else []))

    def heard(self) -> float:
        """Return when the model's server last sent something (`time.monotonic`)."""
        return get_last_heard(self.model)

    async def say(self, talk: Sequence[Message]) -> UserTurn:
        """Return the next line, or calls. Request an unusable reply again, at most twice, then raise UnusableUser."""
        seen_messages = [
            Message(role="system", content=self._system),
            Message(role="user", content=self._opening.render()),
        ]
        seen_messages += [_swap_role(message) for message in talk]
        usage, reason = Usage(), ""
        for _ in range(TRIES):
            again = [Message(role="user", content=self._again.render(reason=reason))] if reason else []
            reply = await self.model.complete([*seen_messages, *again], self.tools, **self.parameters)
            usage += reply.usage
            content, stopped = split_stop(reply.message.content)
            reason = self._find_problem(reply.message, content, stopped, talk)
            if reason:
                continue
            calls = _limit_calls(reply.message.tool_calls)
            if calls:
                content, stopped = content[:LONGEST], False
            thought = reply.message.reasoning
            return UserTurn(content=content, reasoning=thought, stopped=stopped, calls=calls, usage=usage)
        raise UnusableUser(f"The simulated user's words could not be used, {TRIES} times: {reason}.", usage)

    def _find_problem(self, message: Message, content: str, stopped: bool, talk: Sequence[Message]) -> str:
        if self.tools and message.tool_calls:
            return TOO_MANY_ROUNDS if _count_rounds(talk) >= MOST_ROUNDS else ""
        return find_reply_problem(message, content, stopped, first=not any(map(_is_words, talk)))


def _is_words(message: Message) -> bool:
    """Return whether a message of the talk is words between user and agent: no call of the user's, and no result."""
    return message.role != "tool" and not message.tool_calls


def _count_rounds(talk: Sequence[Message]) -> int:
    """Return how many times the user made calls since it or the agent said something."""
    rounds = 0
    for message in reversed(talk):
        if _is_words(message):
            break
        rounds += bool(message.tool_calls)
    return rounds


def _limit_calls(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """Return at most as many calls as are allowed at once, then one refused call for the rest."""
    if len(calls) <= MOST_CALLS:
        return tuple(calls)
    refused = calls[MOST_CALLS].model_copy(update={"arguments": {}, "error": TOO_MANY_CALLS})
    return (*calls[:MOST_CALLS], refused)


def _swap_role(message: Message) -> Message:
    """Return a message of the talk from the view of the user's model: the user's words and calls are its own."""
    if message.role == "tool":
        return message
    role: Literal["assistant", "user"] = "assistant" if message.role == "user" else "user"
    return Message(role=role, content=message.content, tool_calls=message.tool_calls)


def split_stop(text: str) -> tuple[str, bool]:
    """Return (the words, whether a line held the stop token alone). Text after that line is dropped."""
    kept_lines: list[str] = []
    for line in text.strip().splitlines():
        if line.strip() == STOP:
            return "\n".join(kept_lines).strip(), True
        kept_lines.append(line)
    return "\n".join(kept_lines).strip(), False


def find_reply_problem(message: Message, content: str, stopped: bool, *, first: bool) -> str:
    """Return the reason why a user's reply cannot be used, or an empty text."""
    if message.tool_calls:
        return "it made a call, and a user has no tools"
    if first and stopped:
        return "it ended the talk before it began"
    if stopped:
        return ""
    if not _WORD.search(content):
        return "there was nothing said in it"
    return f"it is longer than {LONGEST} characters" if len(content) > LONGEST else ""
