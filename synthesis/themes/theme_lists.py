"""Lists of themes in which a judge looks for ones that may be the same (ours).

Local vectors know words but not meanings: they find nothing in common between a cinema and a movie theatre. A judge
that sees many themes at once proposes pairs that vectors cannot; it still decides on each (`pair_judge.py`).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence

from pydantic import BaseModel, ConfigDict, StrictInt

from synthesis.contracts import Message
from synthesis.errors import InputError, LLMError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.prompts import fence_text, get_prompt

STAGE = "like_themes"
HALF = 60
"""A list shows two blocks of so many themes, so that every two themes stand together in one of the lists."""
MOST_LISTED = 600
"""Of more themes vectors alone propose pairs: the number of lists grows with the square."""
SHOWN = 300
"""Characters of a theme in a list."""
WHOLE = 8
"""Of a larger group not every two are proposed: each with the first and with the one before it."""
AskList = Callable[[Sequence[int]], Awaitable["LikeThemesReply"]]
"""The judge's groups of the texts with these indices, numbered from 1 in their order. Raises LLMError."""


class LikeThemesReply(BaseModel):
    """Reply to the prompt "like_themes": numbers of a list, grouped if they may be one."""

    model_config = ConfigDict(extra="ignore")

    groups: list[list[StrictInt]]


async def group_like_themes(asker: Asker, site: Site, texts: Sequence[str]) -> LikeThemesReply:
    """Return the judge's groups of one list. Raise MalformedReply and the errors of `Asker.reply`."""
    lines = [f"{number}. {_format_line(text)}" for number, text in enumerate(texts, 1)]
    words = get_prompt("themes", "like_themes").render(
        count=str(len(texts)), themes=fence_text("themes", "\n".join(lines))
    )

    def require_listed(reply: LikeThemesReply) -> None:
        wrong = sorted({number for group in reply.groups for number in group if not 1 <= number <= len(texts)})
        if wrong:
            numbers = ", ".join(map(str, wrong[:5]))
            raise InputError(f"`groups` names themes that are not listed ({numbers}). They go from 1 to {len(texts)}.")

    call = StageCall(site=site, messages=(Message(role="user", content=words),))
    return await asker.structured(call, LikeThemesReply, require_listed)


def _format_line(text: str) -> str:
    """Return a theme's name, which is its first line, and as much of the rest as fits."""
    name, _, about = text[:SHOWN].partition("\n")
    return f"{' '.join(name.split())}: {' '.join(about.split())}"


def build_lists(count: int) -> list[list[int]]:
    """Return the indices of each list: every two themes are together in one of them. None for more than
    `MOST_LISTED`."""
    if count < 2 or count > MOST_LISTED:
        return []
    blocks = [list(range(start, min(start + HALF, count))) for start in range(0, count, HALF)]
    if len(blocks) == 1:
        return blocks
    return [left + right for left, right in itertools.combinations(blocks, 2)]


async def propose_pairs(count: int, ask: AskList, at_once: int = 8) -> list[tuple[int, int]]:
    """Return pairs that the judge finds worth comparing, (earlier, later), in the order of their lists.

    A list without a usable reply proposes nothing. Raise the errors of `ask` other than LLMError.
    """
    gate = asyncio.Semaphore(at_once)

    async def propose_list_pairs(indices: Sequence[int]) -> list[tuple[int, int]]:
        async with gate:
            try:
                reply = await ask(indices)
            except LLMError:  # stored with the call; pairs proposed by vectors are still asked
                return []
        return [
            pair for group in reply.groups for pair in _list_pairs(sorted({indices[number - 1] for number in group}))
        ]

    tasks = [asyncio.ensure_future(propose_list_pairs(indices)) for indices in build_lists(count)]
    try:
        list_pairs = await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
    return list(dict.fromkeys(pair for pairs in list_pairs for pair in pairs))


def _list_pairs(group: Sequence[int]) -> list[tuple[int, int]]:
    if len(group) <= WHOLE:
        return list(itertools.combinations(group, 2))
    return [(group[0], other) for other in group[1:]] + list(itertools.pairwise(group[1:]))
