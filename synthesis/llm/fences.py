"""Fenced blocks of a reply: backticks or tildes, read line by line, for a reply may be long and hostile."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPENING = re.compile(r"(?:^|\s)(`{3,}|~{3,})[ \t]*([\w+#.-]*)$")
_INFO = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*([\w+#.-]+)[ \t:{]+[^`~]*$")
"""A fence with more than a language behind it, such as the name of a file."""


@dataclass(frozen=True)
class Block:
    """One block: its language as written, its text, where it stands in the reply, and whether its fence is closed."""

    language: str
    body: str
    start: int
    end: int
    closed: bool = True


def blocks_in(text: str) -> list[Block]:
    """All blocks in order. One ends at the first line that begins or ends with a fence like the one that opened it."""
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
