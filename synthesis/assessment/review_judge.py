"""A judge that reviews as a person does: one verdict on a task, a tool or an attempt, with reasons (ours)."""

from __future__ import annotations

from pydantic import Field

from synthesis.contracts import Frozen, Message
from synthesis.errors import InputError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.prompts import fenced, prompt

STAGE = "review"
COMMENT_CHARS = 2_000


class OfferedCode(Frozen):
    """A verdict or a reason that can be named, and what it means."""

    code: str
    words: str
    needs_reason: bool = False


class ReviewBrief(Frozen):
    """What a judge is told: the object as text, and what can be said of it."""

    what: str
    object: str
    guideline: str = ""
    verdicts: tuple[OfferedCode, ...]
    reasons: tuple[OfferedCode, ...] = ()


class ReviewReply(Frozen):
    """What a judge replies: `verdict` and `reasons` are codes of those it was offered."""

    comment: str = Field(max_length=COMMENT_CHARS)
    verdict: str
    reasons: tuple[str, ...] = Field(default=(), max_length=10)


def review_words(brief: ReviewBrief) -> str:
    """The question."""
    return prompt("judge", "review").render(
        what=brief.what,
        guideline=fenced("guideline", brief.guideline or "Nothing further."),
        object=fenced("object", brief.object),
        verdicts=_listed(brief.verdicts),
        reasons=_listed(brief.reasons) or "None.",
    )


def _listed(choices: tuple[OfferedCode, ...]) -> str:
    needs = {True: " (needs at least one reason)", False: ""}
    return "\n".join(f"- `{one.code}`: {one.words}{needs[one.needs_reason]}" for one in choices)


async def review_verdict(asker: Asker, brief: ReviewBrief, item: str) -> ReviewReply:
    """The judge's verdict. Raises MalformedReply: none that fits after a bounded number of tries; LLMError."""
    site = Site(role="judge", stage=STAGE, item=item, theme="", sample=0)
    call = StageCall(site=site, messages=(Message(role="user", content=review_words(brief)),))
    return await asker.structured(call, ReviewReply, lambda reply: require_offered(brief, reply))


def require_offered(brief: ReviewBrief, reply: ReviewReply) -> None:
    """Raises InputError: a verdict or reason that was not offered, or no reason where one is needed."""
    verdict = next((one for one in brief.verdicts if one.code == reply.verdict), None)
    if verdict is None:
        raise InputError(f"verdict is one of {', '.join(one.code for one in brief.verdicts)}")
    known = {one.code for one in brief.reasons}
    unknown = [code for code in reply.reasons if code not in known]
    if unknown:
        raise InputError(f"there is no reason {unknown[0][:40]!r}; name those that were offered, or none")
    if verdict.needs_reason and not reply.reasons:
        raise InputError(f"the verdict {verdict.code} needs at least one reason")
