"""Words that hide tools and their order (AW 3.1.1, "Difficulty Scaling"): they state the aim, not the way.

A model rewrites the final words; code refuses a rewriting that still lists steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pydantic import Field

from synthesis.drafts import TaskDraft
from synthesis.prompts import fence_text, get_prompt
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.task_context import Unfit, World, reject_unfit_replies
from synthesis.tool_walk.chain_words import describe_calls

ORDER = "tells_order"
MOST_ORDERED = 1
"""Most words of order in an instruction: one may belong to what is wanted."""
_ORDERED = re.compile(
    r"\b(?:first(?:ly)?|second(?:ly)?|then|next|after(?:wards| that)|finally|lastly|step \d+)\b(?=,| )"
    r"|^\s*(?:\d+[.)]|[-*])\s",
    re.IGNORECASE | re.MULTILINE,
)
_BEFORE = re.compile(r"(?:^|[.!?;:,]\s+|\band\s+|^\s*)$", re.IGNORECASE)


class HiddenReply(AuthorReply):
    """The rewritten words."""

    instruction: str = Field(min_length=20, max_length=6_000)


async def hide_order(kit: Kit, world: World, task: TaskDraft, require_sound: Callable[[str], None]) -> str:
    """Return the rewritten instruction. `require_sound` raises Unfit for words that are invalid as final words.

    Raises Rejected (`tells_order` and the reasons of `require_sound`) and as `Kit.ask`.
    """
    assert task.blueprint is not None
    words = get_prompt("tool_walk", "hide").render(
        about=prompt_text.format_introduction(world.record),
        chain=describe_calls(task.blueprint),
        query=fence_text("query", task.instruction),
    )

    def check_reply(reply: HiddenReply) -> None:
        require_sound(reply.instruction)
        ordered = find_order_words(reply.instruction)
        if len(ordered) > MOST_ORDERED:
            told = ", ".join(repr(word) for word in ordered[:5])
            raise Unfit(ORDER, f"the words still tell the order of steps ({told}); say what is wanted in the end")

    with reject_unfit_replies():
        return (await kit.ask("author", "hide", words, HiddenReply, check_reply)).instruction


def find_order_words(words: str) -> list[str]:
    """Return words and marks that order steps, if they begin a sentence or a part of one; also bullets of a list."""
    return [
        match[0].strip()
        for match in _ORDERED.finditer(words)
        if not match[0].strip()[0].isalpha() or _BEFORE.search(words[: match.start()])
    ]
