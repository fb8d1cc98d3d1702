"""Numbers in a text: digits with either kind of separators, words, fractions and dozens."""

from __future__ import annotations

import re
from fractions import Fraction

from .lexicon import listed
from .tokens import Token

ONES = listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
TENS = listed("_ _ twenty thirty forty fifty sixty seventy eighty ninety")
SMALL = {word: number for number, word in enumerate(ONES)} | {"nil": 0, "fourty": 40}
SMALL |= {word: 10 * number for number, word in enumerate(TENS) if number > 1}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "dozen": 12}
_BROKEN = {"half": Fraction(1, 2), "quarter": Fraction(1, 4), "quarters": Fraction(1, 4), "third": Fraction(1, 3)}
MOST_DIGITS = 15


class Numeral:
    """A number at tokens `first` to `last`, with the values that it may stand for.

    `spelled`: in words. `pronoun`: a "one" that may mean no number. `code`: it is part of one (`B7`, `T-10`), whose
    letters are `prefix`.
    """

    __slots__ = ("code", "first", "last", "prefix", "pronoun", "spelled", "values")

    def __init__(self, first: int, last: int, values: set[Fraction], *, spelled: bool = False) -> None:
        self.first, self.last, self.values, self.spelled = first, last, values, spelled
        self.pronoun = self.code = False
        self.prefix = ""


def numerals(tokens: list[Token]) -> list[Numeral]:
    """Every number in the text, from left to right; none overlaps another."""
    found: list[Numeral] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        numeral = None
        if token.kind == "number":
            numeral = _written(tokens, at)
        elif token.kind == "word" and (token.text in SMALL or token.text in ("a", "an", "half")):
            numeral = _spelled(tokens, at)
        if numeral is None:
            at += 1
            continue
        _code(tokens, numeral)
        found.append(numeral)
        at = numeral.last + 1
    return found


def readings(text: str) -> set[Fraction]:
    """What digits with separators may mean: `2,175` is 2175 and 2.175; empty for what is no number (`1.2.3`)."""
    if len(text) > MOST_DIGITS + 6 or ":" in text:
        return set()
    text = text.replace("'", "")
    signs = [sign for sign in text if sign in ".,"]
    if not signs:
        return {Fraction(int(text))}
    groups = re.split("[.,]", text)
    if len(set(signs)) == 2:
        whole, last = groups[:-1], groups[-1]
        if signs.count(signs[-1]) == 1 and _grouped(whole):
            return {Fraction("".join(whole) + "." + last)}
        return set()
    if len(signs) > 1:
        return {Fraction("".join(groups))} if _grouped(groups) else set()
    found = {Fraction(".".join(groups))}
    if _grouped(groups) and groups[0][0] != "0":
        found.add(Fraction("".join(groups)))
    return found


def _grouped(groups: list[str]) -> bool:
    return 1 <= len(groups[0]) <= 3 and all(len(group) == 3 for group in groups[1:])


def _written(tokens: list[Token], at: int) -> Numeral | None:
    text, last = tokens[at].raw, at
    # 1 597,45: groups of three behind single spaces.
    while last + 1 < len(tokens) and len(re.split("[.,]", text)[0]) <= 12 and text.isdigit():
        after = tokens[last + 1]
        group = re.split("[.,]", after.raw)[0]
        first = len(tokens[at].raw) <= 3
        if after.kind != "number" or after.start - tokens[last].end != 1 or len(group) != 3 or not first:
            break
        text, last = text + after.raw, last + 1
    values = readings(text) if last > at or "," in text or "." in text or "'" in text else readings(tokens[at].raw)
    if last > at and values:
        values = {min(values)} if "." in text or "," in text else values
    if not values:
        return None
    numeral = Numeral(at, last, values)
    _scale(tokens, numeral)
    _fraction(tokens, numeral)
    if at and tokens[at - 1].raw == "-" and tokens[at].glued and not tokens[at - 1].glued:
        numeral.values = {-value for value in numeral.values}
    if at and tokens[at - 1].text == "minus":
        numeral.values = {-value for value in numeral.values}
    return numeral


def _scale(tokens: list[Token], numeral: Numeral) -> None:
    after = tokens[numeral.last + 1] if numeral.last + 1 < len(tokens) else None
    if after is not None and after.text in _SCALES:
        numeral.values = {value * _SCALES[after.text] for value in numeral.values}
        numeral.last += 1


def _fraction(tokens: list[Token], numeral: Numeral) -> None:
    """`2 1/2` and `2½`, and a bare `1/2`."""
    texts = [token.raw for token in tokens[numeral.last + 1 : numeral.last + 4]]
    if len(texts) == 3 and texts[1] == "/" and texts[0] in "1235" and texts[2] in "2348":
        part = Fraction(int(texts[0]), int(texts[2]))
        if part < 1 and tokens[numeral.last + 2].glued and tokens[numeral.last + 3].glued:
            numeral.values = {value + part for value in numeral.values}
            numeral.last += 3
            return
    _and_half(tokens, numeral)


def _spelled(tokens: list[Token], at: int) -> Numeral | None:
    texts = [token.text for token in tokens[at : at + 12]]
    if texts[0] in ("a", "an"):
        if texts[1:2] and texts[1] in _SCALES:
            return Numeral(at, at + 1, {Fraction(_SCALES[texts[1]])}, spelled=True)
        return None
    if texts[0] == "half":
        return Numeral(at, at + 2, {Fraction(6)}, spelled=True) if texts[1:3] == ["a", "dozen"] else None
    total, last, here = 0, 0, 0
    part: int | None = None
    while here < len(texts):
        word = texts[here]
        if word in SMALL:
            value = SMALL[word]
            if part is not None and not ((part % 100 >= 20 and part % 10 == 0 and 0 < value < 10) or part % 100 == 0):
                break
            part = (part or 0) + value
        elif word in _SCALES and part is not None:
            part = part * _SCALES[word]
            if word != "hundred":
                total, part = total + part, 0
        elif word in ("and", "-") and here + 1 < len(texts) and texts[here + 1] in SMALL and _joins(word, part, total):
            here += 1
            continue
        else:
            break
        last = here
        here += 1
    numeral = Numeral(at, at + last, {Fraction(total + (part or 0))}, spelled=True)
    numeral.pronoun = last == 0 and texts[0] == "one"
    if texts[last + 1 : last + 2] == ["point"]:
        digits = [str(SMALL[word]) for word in texts[last + 2 : last + 6] if word in SMALL and SMALL[word] < 10]
        if digits:
            numeral.values = {Fraction(f"{total + (part or 0)}.{''.join(digits)}")}
            numeral.last += 1 + len(digits)
    _and_half(tokens, numeral)
    if at and tokens[at - 1].text == "minus":
        numeral.values = {-value for value in numeral.values}
    return numeral


def _joins(word: str, part: int | None, total: int) -> bool:
    """`twenty-five`, `two hundred and five`; not `ten and six`."""
    if word == "-":
        return part is not None and part % 100 >= 20 and part % 10 == 0
    return (part is not None and part >= 100 and part % 100 == 0) or (not part and total > 0)


def _and_half(tokens: list[Token], numeral: Numeral) -> None:
    """`two and a half`, `one and three quarters`."""
    texts = [token.text for token in tokens[numeral.last + 1 : numeral.last + 4]]
    if texts[:2] == ["and", "a"] and texts[2:] and texts[2] in ("half", "quarter"):
        part = _BROKEN[texts[2]]
    elif texts[:2] == ["and", "three"] and texts[2:] == ["quarters"]:
        part = Fraction(3, 4)
    else:
        return
    numeral.values = {value + part for value in numeral.values}
    numeral.last += 3


def _code(tokens: list[Token], numeral: Numeral) -> None:
    """Whether letters stand glued before it (`B7`, `T-10`, `A1B2`), or behind it with more digits."""
    if numeral.spelled:
        return
    first = tokens[numeral.first]
    before = tokens[numeral.first - 1] if numeral.first else None
    if before is None or not first.glued:
        return
    if before.kind == "word":
        numeral.code, numeral.prefix = True, before.text
    elif before.raw in "-_./" and before.glued and numeral.first > 1:
        ahead = tokens[numeral.first - 2]
        if ahead.kind == "word":
            numeral.code, numeral.prefix = True, ahead.text
            numeral.values = {abs(value) for value in numeral.values}
