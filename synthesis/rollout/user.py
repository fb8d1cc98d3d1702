"""The simulated user of a conversation: it has the intent, sees the agent's words alone, and ends the talk."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Protocol

from synthesis.contracts import Frozen, Message, Usage, UserKind
from synthesis.errors import EnvariumError
from synthesis.llm import ChatModel
from synthesis.llm.chat import last_heard
from synthesis.prompts import hashes, prompt

STOP = "###STOP###"
"""Ends the talk where it stands alone on a line; inside other text it is text."""
TRIES = 3
LONGEST = 8_000
_WORD = re.compile(r"\w")


class UserTurn(Frozen):
    """What the user said, without the stop line; `stopped` when there was one."""

    content: str = ""
    reasoning: str = ""
    stopped: bool = False
    usage: Usage = Usage()


class UnusableUser(EnvariumError):
    """The simulated user gave nothing usable, also when asked again. Not the agent's fault: never a reward of 0."""

    def __init__(self, message: str, usage: Usage) -> None:
        super().__init__(message)
        self.usage = usage


class User(Protocol):
    """Speaks for the person who wants something. `name` and `prompts` (name to SHA-256) are kept as provenance."""

    @property
    def name(self) -> str: ...

    @property
    def prompts(self) -> dict[str, str]: ...

    async def say(self, talk: Sequence[Message]) -> UserTurn:
        """The next thing the user says. `talk` holds the user's and the agent's words so far, and is empty at the
        start. Raises InfrastructureError, UnusableUser."""
        ...


class SimulatedUser:
    """A user played by an LLM: `base`, or `optimised` after the rules of AutoForge's appendix A.2."""

    def __init__(self, model: ChatModel, intent: str, kind: UserKind = "optimised", **parameters: Any) -> None:
        self.model = model
        self.kind = kind
        self.parameters = parameters
        self._role = prompt("user", kind)
        self._opening = prompt("user", "opening")
        self._again = prompt("user", "again")
        self._system = self._role.render(intent=intent, stop=STOP)

    @property
    def name(self) -> str:
        return f"{self.kind} ({self.model.name})"

    @property
    def prompts(self) -> dict[str, str]:
        return hashes(self._role, self._opening, self._again)

    def heard(self) -> float:
        """When the model's server last sent something (`time.monotonic`)."""
        return last_heard(self.model)

    async def say(self, talk: Sequence[Message]) -> UserTurn:
        """The next line. An unusable one is asked for again, at most twice, then it is an UnusableUser."""
        heard = [Message(role="system", content=self._system), Message(role="user", content=self._opening.render())]
        heard += [_swapped(message) for message in talk]
        usage, reason = Usage(), ""
        for _ in range(TRIES):
            again = [Message(role="user", content=self._again.render(reason=reason))] if reason else []
            reply = await self.model.complete([*heard, *again], **self.parameters)
            usage += reply.usage
            content, stopped = split_stop(reply.message.content)
            reason = unusable(reply.message, content, stopped, first=not talk)
            if not reason:
                return UserTurn(content=content, reasoning=reply.message.reasoning, stopped=stopped, usage=usage)
        raise UnusableUser(f"The simulated user's words could not be used, {TRIES} times: {reason}.", usage)


def _swapped(message: Message) -> Message:
    return Message(role="assistant" if message.role == "user" else "user", content=message.content)


def split_stop(text: str) -> tuple[str, bool]:
    """(what was said, whether a line held the stop token alone). What follows that line is dropped."""
    kept: list[str] = []
    for line in text.strip().splitlines():
        if line.strip() == STOP:
            return "\n".join(kept).strip(), True
        kept.append(line)
    return "\n".join(kept).strip(), False


def unusable(message: Message, content: str, stopped: bool, *, first: bool) -> str:
    """Why a user's reply cannot be used, or nothing."""
    if message.tool_calls:
        return "it made a call, and a user has no tools"
    if first and stopped:
        return "it ended the talk before it began"
    if stopped:
        return ""
    if not _WORD.search(content):
        return "there was nothing said in it"
    return f"it is longer than {LONGEST} characters" if len(content) > LONGEST else ""
