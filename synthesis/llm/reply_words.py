"""Words around an answer: they decide between two answers, and classify a reply without one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from synthesis.errors import InputError

MOST = 1_000_000
"""Characters of a reply that are read at all."""
MOST_ANSWERS = 1_000
"""A reply with more objects, or blocks of code, is refused."""
MOST_DRAFTS = 20
"""Most other answers before the one that is meant."""
BETWEEN = 1_000
"""Characters behind a draft, and before what takes its place, that may say so."""
BEFORE = 100
"""Characters before an answer that may say it is a draft."""
_CORRECTION = re.compile(
    r"\b(final(ly)?|correct(ed|ion|ing)|revis(ed|ing|ion)|instead|actually|fix(ed|ing|es)|updat(ed|ing)|wait|mistake|"
    r"rewrit(e|ten|ing)|repair(ed|ing|s)?|adjust(ed|ing)|but|so|hence|thus|therefore|however|hmm+|oops|no,|refined?|"
    r"improv(ed|ing)|better|on (second|further) (thought|reflection)|on reflection|together|complete|whole|full|"
    r"clean(ed)?|after (checking|review|thinking)|redo|again|my answer|the answer|let me|let's|simplif(ied|ying)|"
    r"forgot|missed|missing|wrong|not (quite )?right|violates?)\b"
    r"|<(?:answer|final\w*|output|result|json|response|solution)>|boxed|最终|修正|更正|korrigiert|endgültig",
    re.IGNORECASE,
)
"""Words between two answers by which the later one takes the earlier one's place."""
_CHOICE = re.compile(
    r"\b(alternativ(ely|e)|option|either|as another|another (way|possibility|option|version|answer|one)|you could also|"
    r"a second (one|version|answer|option)|version (2|two|b)|variant|whichever|your choice|second (option|answer))\b",
    re.IGNORECASE,
)
"""Words by which both are offered."""
_ASIDE = re.compile(
    r"\b(draft|first (try|attempt|version|thought|sketch)|initial(ly)?|original|current|example|for instance|such as|"
    r"format|schema|template|shape|sketch|rough|e\.g\.)",
    re.IGNORECASE,
)
"""Words before an object or block by which it is no answer."""
_REFUSAL = re.compile(
    r"\b(I('m| am) sorry|I (can('|\u2019|no)t|am unable to|won('|\u2019)t|must decline)|as an AI)\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Read:
    """The value that was read from a reply, with the repairs."""

    value: Any
    repairs: frozenset[str] = frozenset()


def require_readable_length(text: str) -> str:
    """Return the reply. Raise InputError if it is too long to be read."""
    if len(text) > MOST:
        raise InputError(f"it has {len(text):,} characters; at most {MOST:,} are read")
    return text


def require_few(answers: int, what: str) -> None:
    """Raise InputError if a reply holds too many answers to find the right one."""
    if answers > MOST_ANSWERS:
        raise InputError(f"it holds more than {MOST_ANSWERS:,} {what}; write the one that you mean, once")


def is_draft_replaced(text: str, start: int, end: int, later: int) -> bool:
    """Return whether the words mean that an answer at `later` replaces the one from `start` to `end`."""
    between = text[end:later]
    if len(between) > 2 * BETWEEN:
        between = f"{between[:BETWEEN]}\n{between[-BETWEEN:]}"
    if _CHOICE.search(between):
        return False
    if _CORRECTION.search(between):
        return True
    return bool(_ASIDE.search(text, max(0, start - BEFORE), start))


def is_refusal(text: str) -> bool:
    """Return whether a model refuses to answer."""
    return bool(_REFUSAL.search(text[:MOST]))


def describe_missing_answer(text: str, asked: str, none: str) -> str:
    """Return the reason for refusing a reply without an answer."""
    if text.lstrip()[:15].lower().startswith(("<!doctype", "<html")):
        return f"it is a page of HTML, not {asked}"
    return f"it is a refusal, not {asked}" if is_refusal(text) else f"it holds {none}"
