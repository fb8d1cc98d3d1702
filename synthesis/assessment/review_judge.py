"""Judge that reviews as a person does: one verdict on a task, a tool or an attempt, with reasons (ours)."""

from __future__ import annotations

from pydantic import Field

from synthesis.contracts import Frozen, Message
from synthesis.errors import InputError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.prompts import fence_text, get_prompt

STAGE = "review"
COMMENT_CHARS = 2_000


class OfferedCode(Frozen):
    """Verdict or reason that can be named, and its meaning."""

    code: str
    words: str
    needs_reason: bool = False


class ReviewBrief(Frozen):
    """Input of a judge: the object as text, and the verdicts and reasons offered."""

    what: str
    object: str
    guideline: str = ""
    verdicts: tuple[OfferedCode, ...]
    reasons: tuple[OfferedCode, ...] = ()


class ReviewReply(Frozen):
    """Reply of a judge: `verdict` and `reasons` are codes of those it was offered."""

    comment: str = Field(max_length=COMMENT_CHARS)
    verdict: str
    reasons: tuple[str, ...] = Field(default=(), max_length=10)


def build_review_prompt(brief: ReviewBrief) -> str:
    """Return the prompt."""
    return get_prompt("judge", "review").render(
        what=brief.what,
        guideline=fence_text("guideline", brief.guideline or "Nothing further."),
        object=fence_text("object", brief.object),
        verdicts=_format_choices(brief.verdicts),
        reasons=_format_choices(brief.reasons) or "None.",
    )


def _format_choices(choices: tuple[OfferedCode, ...]) -> str:
    needs = {True: " (needs at least one reason)", False: ""}
    return "\n".join(f"- `{one.code}`: {one.words}{needs[one.needs_reason]}" for one in choices)


async def ask_review_verdict(asker: Asker, brief: ReviewBrief, item: str) -> ReviewReply:
    """Return the judge's verdict. Raise MalformedReply if none fits after a bounded number of tries; LLMError."""
    site = Site(role="judge", stage=STAGE, item=item, theme="", sample=0)
    call = StageCall(site=site, messages=(Message(role="user", content=build_review_prompt(brief)),))
    return await asker.structured(call, ReviewReply, lambda reply: require_offered_codes(brief, reply))


def require_offered_codes(brief: ReviewBrief, reply: ReviewReply) -> None:
    """Raise InputError for a verdict or reason that was not offered, or a missing reason."""
    verdict = next((one for one in brief.verdicts if one.code == reply.verdict), None)
    if verdict is None:
        raise InputError(f"verdict is one of {', '.join(one.code for one in brief.verdicts)}")
    offered_reasons = {one.code for one in brief.reasons}
    unknown = [code for code in reply.reasons if code not in offered_reasons]
    if unknown:
        raise InputError(f"there is no reason {unknown[0][:40]!r}; name those that were offered, or none")
    if verdict.needs_reason and not reply.reasons:
        raise InputError(f"the verdict {verdict.code} needs at least one reason")
