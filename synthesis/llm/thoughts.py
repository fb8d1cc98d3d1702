"""Thoughts in a reply's words: what a model says to itself before its answer, in the marks of its family."""

from __future__ import annotations

import itertools
import re

from synthesis.errors import InputError

_NAMES = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning|analysis|scratchpad|reflection|inner_monologue)"
_ENDS = re.compile(
    rf"</{_NAMES}>|\[/THINK\]|◁/think▷|<\|(?:end_of_thought|END_THINKING|/thinking)\|>"
    r"|<\|channel\|>final(?: [^<\n]{0,80})?<\|message\|>|(?<=[.!?\s])assistantfinal",
)
_BEGINS = re.compile(
    rf"<{_NAMES}>|\[THINK\]|◁think▷|<\|(?:begin_of_thought|START_THINKING|thinking)\|>"
    r"|<\|channel\|>analysis<\|message\|>"
)
_MARKS = re.compile(
    r"<\|(?:im_end|im_start|eot_id|eom_id|end|return|endoftext|end_of_text|end_of_turn|begin_of_solution|"
    r"end_of_solution|START_RESPONSE|END_RESPONSE|python_tag|end_of_box|begin_of_box|user|assistant)\|>"
    r"|<(?:end_of_turn|start_of_turn|eos)>|</s>|<\uff5cend▁of▁sentence\uff5c>"
)
"""Signs of chat templates that a server let through."""


def spoken(text: str, is_answer: re.Pattern[str]) -> str:
    """The reply without what the model thought before it. Raises InputError where it only thinks.

    A sign that stands inside the answer itself is part of the answer: nothing that answers follows it.
    """
    ends = [match.end() for match in _ENDS.finditer(text)]
    for end, until in reversed(list(itertools.pairwise([*ends, len(text)]))):
        if is_answer.search(text, end, until):
            return text[end:]
    if ends and (is_answer.search(text) is None or text[ends[-1] :].strip()) and not _inside(text, ends[0], is_answer):
        return text[ends[-1] :]
    if ends:
        return text
    begin = _BEGINS.search(text)
    if begin is None:
        return text
    if not text[: begin.start()].strip():
        raise InputError("it thinks and does not come to an answer")
    return text[: begin.start()]


def plain(text: str) -> str:
    """The same without signs of chat templates around it."""
    return _MARKS.sub("", text)


def _inside(text: str, end: int, is_answer: re.Pattern[str]) -> bool:
    """Whether an answer begins before the sign that ends there, and no thought does."""
    first = is_answer.search(text)
    begin = _BEGINS.search(text)
    return first is not None and first.start() < end and (begin is None or begin.start() > first.start())
