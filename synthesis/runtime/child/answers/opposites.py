"""Words that say the opposite of what was asked: taken for free, paid for owed, begins for ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from .lexicon import words
from .tokens import Token

if TYPE_CHECKING:
    from .statements import Candidate

Side = tuple[frozenset[str], frozenset[str]]
"""How words of one sense begin, and those of them that can mean nothing else."""


def _side(stems: str, certain: str) -> Side:
    return words(stems) | words(certain), words(certain)


_PAIRS: tuple[tuple[Side, Side], ...] = (
    (
        _side("free left leav availab vacan remain empty open spare unoccup", "free available vacant empty unoccupied"),
        _side("tak occup full us gone book reserv enrol fill sold", "taken occupied used booked reserved filled sold"),
    ),
    (
        _side("ow open due outstand unpaid remain left leav rest still", "owes owe owing unpaid outstanding"),
        _side("pa settl clear collect charg took", "paid settled cleared"),
    ),
    (
        _side("get got receiv refund reimburs return back compens", "refund refunded reimbursed"),
        _side("pay paid paying ow charg", "pays owes owe"),
    ),
    (
        _side("start begin beg", "starts start begins begin"),
        _side("finish done over end through ready", "finished finishes ends"),
    ),
    (
        _side("arriv reach", "arrives arrive arriving reaches"),
        _side("depart leav set", "departs depart departing leaves leave"),
    ),
    (_side("first earliest", "first earliest"), _side("last final", "last")),
    (_side("early earlier", "early earlier"), _side("late later", "late later")),
    (_side("profit surplus gain", "profit surplus"), _side("loss deficit shortfall", "loss deficit shortfall")),
    (_side("buy bought purchas", "bought buys"), _side("sell sold sale", "sold sells")),
    (_side("lend lent", "lent lends"), _side("borrow", "borrowed borrows")),
    (
        _side("add more increas rise rose", "added increased rose"),
        _side("remov less fewer decreas fell", "removed decreased fell"),
    ),
    (
        _side("accept approv grant allow", "accepted approved granted"),
        _side("refus reject declin", "refused rejected declined"),
    ),
)
_EASING = words("can could may might must should would still yet unless until till")
"""`can still be taken` is free, `must be paid` is owed."""
_EASING_PAIRS = frozenset([("to", "be"), ("to", "pay"), ("has", "to"), ("have", "to"), ("had", "to"), ("not", "yet")])
_OPENERS = words("after once when with having if as since because where whenever")
"""From here to the value, or from here on behind it, it is about another matter: `240.00 after the locker is paid`."""
_DENIALS = words("nothing nobody none no not never neither nor")
_JOINING = words("and & plus while whereas")


def opposed(
    tokens: Sequence[Token],
    clause: Sequence[int],
    one: Candidate,
    candidates: Sequence[Candidate],
    hints: Sequence[str],
) -> bool:
    """Whether what stands with a value says the opposite of what the hints ask for, and nothing that they ask for.

    `clause` numbers the clauses of the tokens. A word stands with the value that is nearest to it.
    """
    against, said = _senses(hints)
    if not against:
        return False
    places = list(_with(tokens, clause, one, candidates))
    texts = [tokens[at].text for at in places]
    if (_EASING | _DENIALS) & set(texts) or any(pair in _EASING_PAIRS for pair in pairwise(texts)):
        return False
    return any(text in against for text in texts) and not any(text.startswith(said) for text in texts)


def contradiction(hints: Sequence[str]) -> str:
    """A word that says the opposite of what the hints ask for; empty where they have none."""
    return min(_senses(hints)[0], default="")


def _senses(hints: Sequence[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """(words that contradict what the hints ask for, beginnings of those that say it); a hint for both says neither."""
    against: frozenset[str] = frozenset()
    said: frozenset[str] = frozenset()
    lowered = [hint.lower() for hint in hints if hint]
    for left, right in _PAIRS:
        meant = [{hint for hint in lowered for stem in side[0] if _akin(hint, stem)} for side in (left, right)]
        if bool(meant[0]) == bool(meant[1]):
            continue
        own, other = (left, right) if meant[0] else (right, left)
        against |= other[1]
        said |= own[0] | meant[0] | meant[1]
    asked = tuple(hint for hint in lowered if hint in said)
    against = frozenset(word for word in against if not word.startswith(asked))
    return against, tuple(stem for stem in said if not any(word.startswith(stem) for word in against))


def _akin(hint: str, stem: str) -> bool:
    return hint == stem or (len(stem) > 3 and hint.startswith(stem)) or (len(hint) > 3 and stem.startswith(hint))


def _with(
    tokens: Sequence[Token], clause: Sequence[int], one: Candidate, candidates: Sequence[Candidate]
) -> Iterator[int]:
    """The places of the words that stand with a value: in its clause, nearer to it than to another, or before its colon
    where each value has one (`free: 17, taken: 3`)."""
    number = clause[one.first]
    near = [other for other in candidates if clause[other.first] == number]
    begin = end = one.first
    while begin and clause[begin - 1] == number:
        begin -= 1
    while end + 1 < len(tokens) and clause[end + 1] == number:
        end += 1
    if len(candidates) > 1 and all(_label(tokens, clause, other, candidates) for other in candidates):
        yield from _label(tokens, clause, one, candidates)
    for other in near:
        gap = range(min(other.last, one.last) + 1, max(other.first, one.first))
        cuts = [at for at in gap if tokens[at].text in _JOINING]
        if cuts and other.first < one.first:
            begin = max(begin, cuts[-1] + 1)
        elif cuts:
            end = min(end, cuts[-1] - 1)
    if any(tokens[at].text in _OPENERS for at in range(begin, one.first)):
        begin = one.first
    end = next((at - 1 for at in range(one.last + 1, end + 1) if tokens[at].text in _OPENERS), end)
    for at in range(begin, end + 1):
        if all(_distance(at, one) <= _distance(at, other) for other in near):
            yield at


def _label(tokens: Sequence[Token], clause: Sequence[int], one: Candidate, candidates: Sequence[Candidate]) -> range:
    """The places of what stands before a colon right before a value; empty where another value stands there."""
    end = one.first - 1
    if end < 1 or tokens[end].raw != ":":
        return range(0)
    begin = end
    while begin and clause[begin - 1] == clause[end]:
        begin -= 1
    return range(0) if any(begin <= other.first < end for other in candidates) else range(begin, end)


def _distance(at: int, one: Candidate) -> int:
    return one.first - at if at < one.first else max(0, at - one.last)
