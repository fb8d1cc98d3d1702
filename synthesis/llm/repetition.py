"""Runaway repetition: a model that repeats the same text until its limit of tokens."""

from __future__ import annotations

from synthesis.llm.chat import Reply

TAIL = 8_000
"""So many characters at the end of a text are looked at."""
LONGEST_PERIOD = 1_000
LOOK_EVERY = 2_000
"""New characters after which a text that grows is looked at again, so that looking costs a fixed share."""
REASON = "repetition"
"""The `finish_reason` of a reply that was cut for it."""


def find_period(text: str) -> int:
    """Return the length of the part that a text's end repeats without end; 0 if there is none. Linear in `TAIL`."""
    if len(text) < TAIL:
        return 0
    tail = text[-TAIL:]
    place = tail.rfind(tail[-LONGEST_PERIOD:], 0, TAIL - 1)
    period = TAIL - LONGEST_PERIOD - place
    return 0 if place < 0 or period > LONGEST_PERIOD or tail[:-period] != tail[period:] else period


def cut_repetition(text: str) -> str:
    """Return the text up to its endless repetition, with the repeated part twice; unchanged if there is none."""
    period = find_period(text)
    if not period:
        return text
    low, high = 0, len(text) - TAIL
    while low < high:  # a binary search: from some place on it repeats itself, and before that it does not
        middle = (low + high) // 2
        if text[middle:-period] == text[middle + period :]:
            high = middle
        else:
            low = middle + 1
    return text[: low + 2 * period]


def strip_repetition(reply: Reply) -> Reply:
    """Return the reply, cut if its words or its thoughts repeat themselves without end."""
    message = reply.message
    content, reasoning = cut_repetition(message.content), cut_repetition(message.reasoning)
    if (content, reasoning) == (message.content, message.reasoning):
        return reply
    changed = message.model_copy(update={"content": content, "reasoning": reasoning})
    return reply.model_copy(update={"message": changed, "finish_reason": REASON})


class RepetitionWatch:
    """A watch on a text while it grows."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._new = 0

    def add(self, text: str) -> bool:
        """Add a piece, and return whether the text now repeats itself without end."""
        self._parts.append(text)
        self._new += len(text)
        if self._new < LOOK_EVERY:
            return False
        self._new = 0
        self._parts = ["".join(self._parts)[-TAIL:]]
        return find_period(self._parts[0]) > 0
