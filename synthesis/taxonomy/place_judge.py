"""Judge that places an item on a tree as a person does: one node or none, confidence, and reason (ours)."""

from __future__ import annotations

from pydantic import Field

from synthesis.contracts import Frozen, Message
from synthesis.errors import InputError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.prompts import fence_text, get_prompt

STAGE = "place"
COMMENT_CHARS = 2_000
ASKED_AT_ONCE = 400
"""A tree of more nodes is asked about in two steps: the first level, then what is below the one that was chosen."""


class OfferedPlace(Frozen):
    """A node that can be chosen. `path` is the ids from the first level down to it, `words` the names."""

    id: int
    path: tuple[int, ...]
    words: str


class PlaceBrief(Frozen):
    """Input of a judge about one item."""

    what: str
    object: str
    guideline: str = ""
    places: tuple[OfferedPlace, ...]


class PlaceReply(Frozen):
    """Reply of a judge: the number of a place that was offered, or None if none fits."""

    comment: str = Field(max_length=COMMENT_CHARS)
    place: int | None
    confidence: int = Field(ge=1, le=3)


async def place_item(asker: Asker, brief: PlaceBrief, item: str) -> PlaceReply:
    """Return the judge's place. Raises MalformedReply: no valid reply after a bounded number of tries; LLMError."""
    if len(brief.places) <= ASKED_AT_ONCE:
        return await _ask_place(asker, brief, brief.places, f"{item}/all")
    first = tuple(one for one in brief.places if len(one.path) == 1)[:ASKED_AT_ONCE]
    branch = await _ask_place(asker, brief, first, f"{item}/first")
    if branch.place is None:
        return branch
    below = [one for one in brief.places if one.path[0] == branch.place]
    nearest = sorted(below, key=lambda one: len(one.path))[:ASKED_AT_ONCE]
    return await _ask_place(asker, brief, tuple(nearest), f"{item}/below")


async def _ask_place(asker: Asker, brief: PlaceBrief, places: tuple[OfferedPlace, ...], item: str) -> PlaceReply:
    words = get_prompt("judge", "place").render(
        what=brief.what,
        guideline=fence_text("guideline", brief.guideline or "Nothing further."),
        object=fence_text("object", brief.object),
        places=fence_text("places", "\n".join(f"{one.id}: {one.words}" for one in places)),
    )
    offered_ids = {one.id for one in places}

    def require_offered(reply: PlaceReply) -> None:
        if reply.place is not None and reply.place not in offered_ids:
            raise InputError(f"there is no place {reply.place}; choose a number that was offered, or null")

    site = Site(role="judge", stage=STAGE, item=item)
    call = StageCall(site=site, messages=(Message(role="user", content=words),))
    return await asker.structured(call, PlaceReply, require_offered)
