"""What a text says about candidates found in it: asserted, denied, hedged, superseded, or one of a choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from .lexicon import (
    ABBREVIATIONS,
    AFTERTHOUGHTS,
    ANYBODY,
    ARTICLES,
    BOUNDS,
    CORRECTIONS,
    HEDGE_PAIRS,
    HEDGES,
    LESS,
    MOVES,
    NEARLY,
    NEGATORS,
    PAUSES,
    SENTENCE_ENDS,
    SUPERSEDED,
    TURNS,
    WRONG,
)
from .opposites import opposed
from .tokens import Token

MOST_CANDIDATES = 200
"""More values of one kind in one answer: it cannot be told which is meant."""


class CannotTell(BaseException):
    """The text hedges, offers a choice or contradicts itself.

    No `Exception`: a check that catches those must not make a yes of it.
    """


class Candidate:
    """A value that a text may assert, at tokens `first` to `last`.

    `value` is whatever its kind compares; `strong`: its unit or form says that it is of the kind asked for.
    """

    __slots__ = ("choice", "denied", "first", "hedged", "last", "strong", "value")

    def __init__(self, first: int, last: int, value: Any, *, strong: bool) -> None:
        self.first, self.last, self.value, self.strong = first, last, value, strong
        self.denied = self.hedged = self.choice = False


class _Layout:
    """Where the sentences and the clauses of a text begin: a number for each token."""

    def __init__(self, tokens: Sequence[Token], inside: set[int]) -> None:
        self.sentence: list[int] = []
        self.clause: list[int] = []
        sentence = clause = 0
        for at, token in enumerate(tokens):
            if at not in inside and _opens(tokens, at):
                clause += 1
            self.sentence.append(sentence)
            self.clause.append(clause)
            if at in inside:
                continue
            if token.raw in SENTENCE_ENDS and not _abbreviated(tokens, at):
                sentence, clause = sentence + 1, clause + 1
            elif token.raw in PAUSES and not _interrupted(tokens, at):
                clause += 1


def judge(
    tokens: Sequence[Token],
    candidates: list[Candidate],
    fits: Callable[[Candidate], bool],
    beside: Callable[[Candidate], bool] = lambda candidate: False,
    explained: Callable[[list[Candidate]], bool] = lambda rivals: False,
    asked: Sequence[str] = (),
    spans: bool = False,
    about: Sequence[str] = (),
) -> bool:
    """Whether the text asserts a candidate that fits.

    Other values are no contradiction where they are denied, `explained` (the parts of a sum), or stand outside the
    clauses with an `asked` word while the wanted value stands in one. Those that are `beside` (known to belong to the
    matter) are none unless it is the other way round. `spans`: "8 to 9" is no choice, as with times. `about` are words
    for what is asked that need not stand there, but whose opposite must not. Raises CannotTell.
    """
    if not any(map(fits, candidates)):
        return False
    if len(candidates) > MOST_CANDIDATES:
        raise CannotTell(f"more than {MOST_CANDIDATES} values are named")
    layout = _Layout(tokens, {at for one in candidates for at in range(one.first, one.last + 1)})
    _spread_strength(tokens, candidates)
    _mark(tokens, layout, candidates, fits, spans)
    wanted = [one for one in candidates if fits(one)]
    asserted = [one for one in wanted if not one.denied]
    if not asserted:
        return False
    if len(asserted) < len(wanted):
        raise CannotTell("the value is both asserted and denied")
    if any(one.choice for one in asserted):
        raise CannotTell("the value is one of a choice")
    if all(one.hedged for one in asserted):
        raise CannotTell("the value is not said for certain")
    if all(opposed(tokens, layout.clause, one, candidates, (*asked, *about)) for one in asserted):
        raise CannotTell("what is said of the value is the opposite of what was asked")
    strong = any(one.strong for one in wanted)
    rivals = [one for one in candidates if not fits(one) and not one.denied and (one.strong or not strong)]
    if not rivals or explained(rivals):
        return True
    places = _asked(tokens, layout, asked)
    answering = [one for one in rivals if layout.clause[one.first] in places]
    if any(layout.clause[one.first] in places for one in asserted):
        answering = [one for one in answering if not beside(one)]
        foreign = answering
    else:
        foreign = [one for one in rivals if not beside(one)]
    if foreign:
        raise CannotTell("another value is named beside it")
    if answering:
        raise CannotTell("another value stands where the answer should")
    return True


def _opens(tokens: Sequence[Token], at: int) -> bool:
    token = tokens[at]
    if token.kind != "word":
        return token.raw == "-" and not token.glued and at + 1 < len(tokens) and not tokens[at + 1].glued
    if token.text in TURNS:
        return True
    following = tokens[at + 1].text if at + 1 < len(tokens) else ""
    return token.text in ("and", "so", "then", "yet") and (following in NEGATORS or not _lists(tokens, at + 1))


def _lists(tokens: Sequence[Token], at: int) -> bool:
    """Whether what begins here goes on with an enumeration rather than with a clause of its own."""
    return at < len(tokens) and (
        tokens[at].kind == "number" or tokens[at].text in ARTICLES or tokens[at].raw[0].isupper()
    )


def _abbreviated(tokens: Sequence[Token], at: int) -> bool:
    if tokens[at].raw != "." or not tokens[at].glued or not at:
        return False
    before = tokens[at - 1]
    follows = at + 1 < len(tokens) and tokens[at + 1].kind != "sign" and tokens[at + 1].raw != "\n"
    if before.text in ABBREVIATIONS:
        return follows
    if before.kind == "word" and len(before.raw) == 1:
        # p.m. ends a sentence only where another begins.
        return follows and (tokens[at + 1].glued or not tokens[at + 1].raw[0].isupper() or before.raw.isupper())
    # 16. April; but "It is 10. No, 12."
    return False


def _interrupted(tokens: Sequence[Token], at: int) -> bool:
    """`do not, as of today, get`: what is denied comes behind the pause."""
    pauses = [place for place in range(max(0, at - 8), at + 1) if tokens[place].raw == ","]
    return tokens[at].raw == "," and any(
        place and (tokens[place - 1].text in ("not", "never") or tokens[place - 1].text.endswith("n't"))
        for place in pauses[-2:]
    )


def _spread_strength(tokens: Sequence[Token], candidates: list[Candidate]) -> None:
    """`table 10 or 12`: the second is a table too."""
    for left, right in pairwise(candidates):
        between = [token.text for token in tokens[left.last + 1 : right.first]]
        if len(between) > 4 or left.strong == right.strong:
            continue
        joining = [text for text in between if text not in ARTICLES and text not in NEGATORS]
        if any(text in ("or", "/") for text in joining) or (
            joining in (["and"], [","], ["-"], ["\u2013"], ["&"], ["to"], ["but"], [",", "but"])
            and _ends(tokens, right)
        ):
            left.strong = right.strong = True


def _ends(tokens: Sequence[Token], candidate: Candidate) -> bool:
    """Whether nothing that could be its noun follows."""
    return candidate.last + 1 >= len(tokens) or tokens[candidate.last + 1].kind == "sign"


def _mark(
    tokens: Sequence[Token],
    layout: _Layout,
    candidates: list[Candidate],
    fits: Callable[[Candidate], bool],
    spans: bool,
) -> None:
    inside = {at for one in candidates for at in range(one.first, one.last + 1)}
    unsure = _unsure(tokens, layout, inside)
    for number, one in enumerate(candidates):
        start = candidates[number - 1].last + 1 if number else 0
        one.denied = _denied(tokens, layout, one, start, candidates)
        one.denied = one.denied or (not fits(one) and _called_off(tokens, layout, one))
        one.hedged = layout.sentence[one.first] in unsure or _approximate(tokens, one)
        one.hedged = one.hedged or _doubted(tokens, layout, one, inside)
    for left, right in pairwise(candidates):
        if layout.sentence[left.first] != layout.sentence[right.first] or fits(left) == fits(right):
            continue
        between = [token.text for token in tokens[left.last + 1 : right.first]]
        if _choice(between) or (not spans and between in (["-"], ["\u2013"], ["to"])):
            left.choice = right.choice = not (left.denied or right.denied)
    for number, one in enumerate(candidates):
        following = candidates[number + 1] if number + 1 < len(candidates) else None
        if _texts(tokens, one.last + 1, 1) == ["or"] and not (following and fits(following) == fits(one)):
            one.hedged = True
        place = one.first - 1
        while place > 0 and tokens[place].text in ARTICLES:
            place -= 1
        before = candidates[number - 1] if number else None
        if place >= 0 and tokens[place].text == "or" and not (before and fits(before) == fits(one)):
            one.hedged = True
    _retract(tokens, layout, candidates)


def _choice(between: list[str]) -> bool:
    return any(text in ("or", "versus", "vs", "alternatively") for text in between) or between == ["/"]


def _unsure(tokens: Sequence[Token], layout: _Layout, inside: set[int]) -> set[int]:
    """The sentences that hedge as a whole."""
    found = set()
    for at, token in enumerate(tokens):
        following = tokens[at + 1].text if at + 1 < len(tokens) else ""
        hedges = token.text in HEDGES or (token.text, following) in HEDGE_PAIRS
        if at not in inside and (token.raw == "?" or hedges):
            found.add(layout.sentence[at])
    return found


def _texts(tokens: Sequence[Token], start: int, count: int) -> list[str]:
    return [token.text for token in tokens[max(0, start) : start + count]] if start + count > 0 else []


def _approximate(tokens: Sequence[Token], one: Candidate) -> bool:
    before = _texts(tokens, one.first - 3, 3) if one.first >= 3 else _texts(tokens, 0, one.first)
    near = [text for text in before[-2:] if text not in ARTICLES] or before[-1:]
    if near and near[-1] in NEARLY:
        return True
    if any(pair in BOUNDS for pair in pairwise(before)):
        return True
    behind = _texts(tokens, one.last + 1, 2)
    return behind[:1] == ["ish"] or tuple(behind) in AFTERTHOUGHTS


def _doubted(tokens: Sequence[Token], layout: _Layout, one: Candidate, inside: set[int]) -> bool:
    """`10 is not theirs`, `10? No`: a denial behind the value may be about something else."""
    for at in range(one.last + 1, len(tokens)):
        if layout.clause[at] != layout.clause[one.first] or at in inside:
            return False
        text = tokens[at].text
        gone = text == "no" and _texts(tokens, at + 1, 1) in (["more"], ["longer"])
        if gone or text in WRONG or text in ("not", "never") or text.endswith("n't"):
            following = range(at + 1, min(at + 4, len(tokens)))
            return not any(place in inside for place in following)
    return False


def _denied(tokens: Sequence[Token], layout: _Layout, one: Candidate, start: int, candidates: list[Candidate]) -> bool:
    """Whether a negation before it, in its clause, is about it."""
    clause = layout.clause[one.first]
    begin = one.first
    while begin and layout.clause[begin - 1] == clause:
        begin -= 1
    texts = [token.text for token in tokens[begin : one.first]]
    until = len(texts) - 1 - texts[::-1].index("until") if "until" in texts else -1
    for place, text in enumerate(texts):
        following = texts[place + 1] if place + 1 < len(texts) else ""
        if f"{text} {following}" in LESS:
            if begin + place >= start:
                return True
        elif place > until and _negates(tokens, begin + place, following):
            return True
    if texts[:1] == ["but"] and begin and tokens[begin - 1].text in ANYBODY:
        return True
    near = [text for text in texts if text in SUPERSEDED]
    if near and begin + len(texts) - 1 - texts[::-1].index(near[-1]) >= start:
        return True
    return _moved_from(tokens, texts, one) or _gone(tokens, one, candidates)


def _negates(tokens: Sequence[Token], at: int, following: str) -> bool:
    """Whether a word denies what comes behind it in its clause; `following` is the next one there, empty at its end."""
    text = tokens[at].text
    if text in WRONG:
        return True
    if text not in NEGATORS and not text.endswith("n't"):
        return False
    if text == "no" and (
        following in ("problem", "doubt", "worries", "later", "earlier", ".", "other", "change", "changes")
    ):
        return False
    if (
        text == "no"
        and not following
        and at
        and tokens[at - 1].kind == "word"
        and tokens[at - 1].text not in ("is", "get")
    ):
        # "table no 10"
        return False
    return following not in ("only", "later", "until", "before")


def _moved_from(tokens: Sequence[Token], texts: list[str], one: Candidate) -> bool:
    """`moved from 8:00 to 8:30`: the first is no more."""
    return "from" in texts and bool(MOVES & set(texts)) and "to" in _texts(tokens, one.last + 1, 4)


def _called_off(tokens: Sequence[Token], layout: _Layout, one: Candidate) -> bool:
    """`the cancelled one at 17:15`."""
    clause = layout.clause[one.first]
    near = range(max(0, one.first - 8), one.first)
    return any(tokens[at].text.startswith("cancel") for at in near if layout.clause[at] == clause)


def _gone(tokens: Sequence[Token], one: Candidate, candidates: list[Candidate]) -> bool:
    """`the one at 8:00 is cancelled`, `8:00 has been moved to 8:30`."""
    end = min((other.first for other in candidates if other.first > one.last), default=len(tokens))
    for at in range(one.last + 1, end):
        if tokens[at].raw in SENTENCE_ENDS or tokens[at].text in ("and", "but"):
            return False
        if tokens[at].text.startswith(("cancel", "void")):
            return True
        if tokens[at].text in MOVES and end < len(tokens):
            return "to" in [token.text for token in tokens[at + 1 : end]]
    return False


def _retract(tokens: Sequence[Token], layout: _Layout, candidates: list[Candidate]) -> None:
    """`It is 10. No, it is 12.`: a correction takes back what was said before it, where it says something itself."""
    starts = [
        at
        for at in range(1, len(tokens))
        if tokens[at].text in CORRECTIONS
        and layout.clause[at] != layout.clause[at - 1]
        and (
            at + 1 < len(tokens)
            and (tokens[at + 1].raw in (",", ":", ".", "-", "\u2013", "\u2014") or tokens[at].text == "correction")
        )
    ]
    for at in starts:
        ahead = [one for one in candidates if one.first > at]
        if ahead and not all(one.denied for one in ahead):
            for one in candidates:
                one.denied = one.denied or one.last < at


def _asked(tokens: Sequence[Token], layout: _Layout, asked: Sequence[str]) -> set[int]:
    """The clauses that hold a word which begins like one that was asked for."""
    stems = tuple(asked)
    return {layout.clause[at] for at, token in enumerate(tokens) if stems and token.text.startswith(stems)}
