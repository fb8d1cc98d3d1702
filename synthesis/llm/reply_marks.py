"""Marks in the text of a reply: fenced blocks, and the thoughts of a model before its answer."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from synthesis.errors import InputError

_OPENING = re.compile(r"(?:^|\s)(`{3,}|~{3,})[ \t]*([\w+#.-]*)$")
_INFO = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w+#.-]+)[ \t:{]+[^`~]*$")
"""A fence with more than a language behind it, such as the name of a file."""


@dataclass(frozen=True)
class Block:
    """One block: its language as written, its text, its place in the reply, and whether its fence is closed."""

    language: str
    body: str
    start: int
    end: int
    closed: bool = True


def find_blocks(text: str) -> list[Block]:
    """Return all blocks in order. One ends at the first line that begins or ends with a fence like its first one."""
    blocks: list[Block] = []
    inside: list[str] | None = None
    language = fence = ""
    start = at = 0
    for line in text.split("\n"):
        bare = line.rstrip()
        if inside is None:
            opening = _OPENING.search(bare[-80:]) or (_INFO.match(bare) if len(bare) < 200 else None)
            if opening:
                inside, fence, language, start = [], opening[1], opening[2], at
        elif bare.endswith(fence) or bare.lstrip().startswith(fence):
            rest = bare.rpartition(fence)[0].rstrip()
            body = "\n".join([*inside, rest] if rest else inside)
            blocks.append(Block(language, body, start, at + len(line)))
            inside = None
        else:
            inside.append(line)
        at += len(line) + 1
    if inside is not None:
        blocks.append(Block(language, "\n".join(inside), start, len(text), closed=False))
    return blocks


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


def strip_thoughts(text: str, is_answer: re.Pattern[str]) -> str:
    """Return the reply without the model's thoughts before it. Raise InputError if it only thinks.

    A mark inside the answer itself is part of the answer: no answer follows it.
    """
    ends = [match.end() for match in _ENDS.finditer(text)]
    for end, until in reversed(list(itertools.pairwise([*ends, len(text)]))):
        if is_answer.search(text, end, until):
            return text[end:]
    if (
        ends
        and (is_answer.search(text) is None or text[ends[-1] :].strip())
        and not _is_inside_answer(text, ends[0], is_answer)
    ):
        return text[ends[-1] :]
    if ends:
        return text
    begin = _BEGINS.search(text)
    if begin is None:
        return text
    if not text[: begin.start()].strip():
        raise InputError("it thinks and does not come to an answer")
    return text[: begin.start()]


def strip_marks(text: str) -> str:
    """Return the text without marks of chat templates."""
    return _MARKS.sub("", text)


def _is_inside_answer(text: str, end: int, is_answer: re.Pattern[str]) -> bool:
    """Return whether an answer begins before the mark that ends there, and no thought does."""
    first = is_answer.search(text)
    begin = _BEGINS.search(text)
    return first is not None and first.start() < end and (begin is None or begin.start() > first.start())
