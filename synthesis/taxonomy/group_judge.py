"""Judge that groups labels of a tree as a person does: groups with a name, every label in one (ours)."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from synthesis.contracts import Frozen, Message
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.prompts import fence_text, get_prompt

STAGE = "group"
COMMENT_CHARS = 2_000
NAME_CHARS = 200


class OfferedLabel(Frozen):
    """A label to be grouped: its first-level label (`above`), and some of the labels in it (`below`)."""

    id: int
    name: str
    above: str = ""
    below: tuple[str, ...] = ()


class GroupBrief(Frozen):
    """Input of a judge: the labels, and the guideline for people."""

    guideline: str = ""
    labels: tuple[OfferedLabel, ...]


class LabelGroup(Frozen):
    """A label that replaces others. `labels` are numbers of labels that were offered."""

    name: str = Field(min_length=1, max_length=NAME_CHARS)
    labels: tuple[int, ...] = Field(min_length=1)


class GroupReply(Frozen):
    """Reply of a judge: every label in exactly one group."""

    comment: str = Field(max_length=COMMENT_CHARS)
    groups: tuple[LabelGroup, ...] = Field(min_length=1)
    confidence: int = Field(ge=1, le=3)


async def group_labels(asker: Asker, brief: GroupBrief, item: str, require: Callable[[GroupReply], None]) -> GroupReply:
    """Return the judge's groups. `require` raises InputError, whose message the judge is sent, if they are not usable.

    Raises MalformedReply: no valid reply after a bounded number of tries; LLMError.
    """
    words = get_prompt("judge", "group").render(
        guideline=fence_text("guideline", brief.guideline or "Nothing further."),
        count=str(len(brief.labels)),
        labels=fence_text("labels", "\n".join(map(_format_label, brief.labels))),
    )
    call = StageCall(site=Site(role="judge", stage=STAGE, item=item), messages=(Message(role="user", content=words),))
    return await asker.structured(call, GroupReply, require)


def _format_label(label: OfferedLabel) -> str:
    below = f" (holds {', '.join(label.below)})" if label.below else ""
    return f"{label.id}: {label.name}{f', below {label.above}' if label.above else ''}{below}"
