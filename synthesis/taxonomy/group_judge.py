"""A judge that puts labels of a tree together as a person does: groups with a name, every label in one (ours)."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from synthesis.contracts import Frozen, Message
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.prompts import fenced, prompt

STAGE = "group"
COMMENT_CHARS = 2_000
NAME_CHARS = 200


class OfferedLabel(Frozen):
    """A label that is to be grouped: the first-level one `above` it, and some of what it holds (`below`)."""

    id: int
    name: str
    above: str = ""
    below: tuple[str, ...] = ()


class GroupBrief(Frozen):
    """What a judge is told: the labels, and what people are told to go by."""

    guideline: str = ""
    labels: tuple[OfferedLabel, ...]


class LabelGroup(Frozen):
    """A label that others become. `labels` are numbers of labels that were offered."""

    name: str = Field(min_length=1, max_length=NAME_CHARS)
    labels: tuple[int, ...] = Field(min_length=1)


class GroupReply(Frozen):
    """What a judge replies: every label in exactly one group."""

    comment: str = Field(max_length=COMMENT_CHARS)
    groups: tuple[LabelGroup, ...] = Field(min_length=1)
    confidence: int = Field(ge=1, le=3)


async def grouped(asker: Asker, brief: GroupBrief, item: str, require: Callable[[GroupReply], None]) -> GroupReply:
    """The judge's groups. `require` raises InputError, whose words the judge is sent, where they are not usable.

    Raises MalformedReply: none that fits after a bounded number of tries; LLMError.
    """
    words = prompt("judge", "group").render(
        guideline=fenced("guideline", brief.guideline or "Nothing further."),
        count=str(len(brief.labels)),
        labels=fenced("labels", "\n".join(map(_line, brief.labels))),
    )
    call = StageCall(site=Site(role="judge", stage=STAGE, item=item), messages=(Message(role="user", content=words),))
    return await asker.structured(call, GroupReply, require)


def _line(label: OfferedLabel) -> str:
    below = f" (holds {', '.join(label.below)})" if label.below else ""
    return f"{label.id}: {label.name}{f', below {label.above}' if label.above else ''}{below}"
