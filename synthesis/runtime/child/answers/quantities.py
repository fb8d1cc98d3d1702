"""Amounts of money, durations and plain numbers in a text, with their units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from .clock_times import clock_times
from .dates import dates
from .lexicon import words
from .numerals import SMALL, Numeral, numerals
from .statements import Candidate
from .tokens import Token, text_at

_MAJOR = {
    "€": "EUR", "eur": "EUR", "euro": "EUR", "euros": "EUR", "$": "USD", "usd": "USD", "dollar": "USD",
    "dollars": "USD", "£": "GBP", "gbp": "GBP", "pound": "GBP", "pounds": "GBP", "chf": "CHF", "franc": "CHF",
    "francs": "CHF", "¥": "JPY", "yen": "JPY", "bucks": "USD",
}  # fmt: skip
_MINOR = words("cent cents ct cts c p pence penny ¢")
_SECONDS = {
    "second": 1, "seconds": 1, "sec": 1, "secs": 1, "s": 1, "minute": 60, "minutes": 60, "min": 60, "mins": 60,
    "m": 60, "hour": 3600, "hours": 3600, "hr": 3600, "hrs": 3600, "h": 3600, "day": 86400, "days": 86400,
    "week": 604800, "weeks": 604800,
}  # fmt: skip
_UNITS = words(
    "kg kilo kilos kilogram kilograms g gram grams t tonne tonnes l litre litres ml km m cm mm gb mb "
    "tb gib mib % percent per° am pm o'clock uhr"
)
"""Units of neither money nor time: a number with one is no amount of those."""


def _taken(found: Sequence[Candidate]) -> set[int]:
    return {at for one in found for at in range(one.first, one.last + 1)}


def amounts(tokens: list[Token], currency: str, bare: str) -> list[Candidate]:
    """Money. The value of a candidate is the set of amounts in hundredths that it may stand for.

    A number without any unit is read in major units (`bare="major"`) or in hundredths (`"cents"`), and is weak unless
    it has two decimals.
    """
    every = numerals(tokens)
    other = _taken([*dates(tokens, None), *(time for time in clock_times(tokens) if time.strong)])
    found: list[Candidate] = []
    skip = -1
    for number, numeral in enumerate(every):
        if numeral.first <= skip or numeral.pronoun or (numeral.first in other and not _money_sign(tokens, numeral)):
            continue
        following = every[number + 1] if number + 1 < len(every) else None
        one = _amount(tokens, numeral, following, currency, bare)
        if one is not None:
            found.append(one)
            skip = one.last
    return found


def _money_sign(tokens: Sequence[Token], numeral: Numeral) -> bool:
    return text_at(tokens, numeral.first - 1) in _MAJOR or text_at(tokens, numeral.last + 1) in _MAJOR


def _amount(
    tokens: Sequence[Token], numeral: Numeral, following: Numeral | None, currency: str, bare: str
) -> Candidate | None:
    before, after = text_at(tokens, numeral.first - 1), text_at(tokens, numeral.last + 1)
    if before == "-":
        before = text_at(tokens, numeral.first - 2)
    named = _MAJOR.get(before) or _MAJOR.get(after)
    first = numeral.first - (before in _MAJOR and numeral.first > 0)
    last = numeral.last + (after in _MAJOR and before not in _MAJOR)
    values = {value * 100 for value in _as_money(tokens, numeral)}
    if named:
        if currency and named != currency:
            return Candidate(first, last, set(), strong=True)
        cents = _cents(tokens, last, following)
        if cents is not None:
            values, last = {value + cents[0] for value in values}, cents[1]
        return Candidate(first, last, values, strong=True)
    if after in _MINOR and (after not in ("c", "p") or tokens[numeral.last + 1].glued):
        return Candidate(numeral.first, numeral.last + 1, set(numeral.values), strong=True)
    if (
        numeral.code
        or after in _UNITS
        or after in _SECONDS
        or ((after == "/" or before == "/") and not numeral.spelled)
    ):
        return None
    pair = _pair(tokens, numeral, following)
    if pair is not None:
        return Candidate(numeral.first, pair[1], {pair[0]}, strong=False)
    decimals = _decimals(tokens, numeral)
    if decimals is None and bare == "cents":
        return Candidate(numeral.first, numeral.last, set(numeral.values), strong=False)
    return Candidate(numeral.first, numeral.last, values, strong=decimals == 2)


def _decimals(tokens: Sequence[Token], numeral: Numeral) -> int | None:
    """How many digits stand behind the last separator; None without one."""
    raw = tokens[numeral.last].raw
    place = max(raw.rfind("."), raw.rfind(","))
    return len(raw) - place - 1 if place >= 0 and raw[0].isdigit() else None


def _as_money(tokens: Sequence[Token], numeral: Numeral) -> set[Fraction]:
    """Three digits behind a separator are thousands: nobody writes tenths of a cent."""
    return {value for value in numeral.values if _decimals(tokens, numeral) != 3 or value.denominator == 1}


def _cents(tokens: Sequence[Token], last: int, following: Numeral | None) -> tuple[Fraction, int] | None:
    """`5 euros 90`, `five euros and ninety cents`: the hundredths behind the unit and where they end."""
    if following is None or following.code or len(following.values) != 1:
        return None
    gap = [token.text for token in tokens[last + 1 : following.first]]
    value = next(iter(following.values))
    after = text_at(tokens, following.last + 1)
    if value.denominator != 1 or not 0 <= value < 100:
        return None
    if after in _MINOR and gap in ([], ["and"], [","]):
        return value, following.last + 1
    alone = after in ("", ".", ",", "!", ";", ")", "\n", "in", "for", "altogether", "together")
    return (value, following.last) if not gap and alone and value >= 10 else None


def _pair(tokens: Sequence[Token], numeral: Numeral, following: Numeral | None) -> tuple[Fraction, int] | None:
    """`five ninety` in words."""
    if following is None or not (numeral.spelled and following.spelled) or following.first != numeral.last + 1:
        return None
    whole, part = next(iter(numeral.values)), next(iter(following.values))
    return (whole * 100 + part, following.last) if 10 <= part < 100 and part.denominator == 1 else None


def durations(tokens: list[Token], bare: str) -> list[Candidate]:
    """Lengths of time. The value is the set of seconds that a candidate may stand for; bare numbers are in `bare`."""
    every = {numeral.first: numeral for numeral in numerals(tokens)}
    dated = _taken(dates(tokens, None))
    found: list[Candidate] = []
    at = 0
    while at < len(tokens):
        one = None if at in dated else _duration(tokens, at, every, bare)
        if one is None:
            at += 1
            continue
        if found and _goes_on(tokens, found[-1], one):
            last = found.pop()
            one = Candidate(last.first, one.last, {a + b for a in last.value for b in one.value}, strong=True)
        found.append(one)
        at = one.last + 1
    return found


def _goes_on(tokens: Sequence[Token], left: Candidate, right: Candidate) -> bool:
    """`1 hour and 15 minutes`: the second has a smaller unit, or none right behind hours (`1h15`)."""
    gap = [token.text for token in tokens[left.last + 1 : right.first]]
    unit, other = _SECONDS.get(tokens[left.last].text, 0), _SECONDS.get(tokens[right.last].text, 0)
    if gap not in ([], ["and"], [","]) or (unit <= 60 and not (unit == 60 and other == 1)):
        return False
    if right.strong:
        return 0 < other < unit
    last = right.last + 1 >= len(tokens) or tokens[right.last + 1].kind == "sign"
    return not gap and unit == 3600 and (tokens[right.first].glued or last)


def _duration(tokens: Sequence[Token], at: int, every: dict[int, Numeral], bare: str) -> Candidate | None:
    texts = [token.text for token in tokens[at : at + 8]]
    for phrase, seconds in _PHRASES:
        if texts[: len(phrase)] == phrase:
            return Candidate(at, at + len(phrase) - 1, {Fraction(seconds)}, strong=True)
    clock = tokens[at].raw.split(":") if tokens[at].kind == "number" else []
    if len(clock) == 2 and len(clock[1]) == 2:
        value = {Fraction(int(clock[0]) * 3600 + int(clock[1]) * 60)}
        unit = text_at(tokens, at + 1) in ("h", "hr", "hrs", "hour", "hours")
        return Candidate(at, at + unit, value, strong=unit)
    numeral = every.get(at)
    if numeral is None or (numeral.code and not _after_hours(tokens, at)):
        return None
    place = numeral.last + 1
    if text_at(tokens, place) == "-":
        place += 1
    unit_text = text_at(tokens, place)
    if unit_text in _SECONDS and (len(unit_text) > 1 or tokens[place].glued or unit_text == "h"):
        scale = _SECONDS[unit_text]
        return Candidate(at, place, {value * scale for value in numeral.values}, strong=True)
    if numeral.pronoun or text_at(tokens, numeral.last + 1) in _UNITS | _MINOR | _MAJOR.keys():
        return None
    return Candidate(at, numeral.last, {value * _SECONDS[bare] for value in numeral.values}, strong=False)


def _after_hours(tokens: Sequence[Token], at: int) -> bool:
    return at >= 2 and tokens[at - 1].text == "h" and tokens[at - 2].kind == "number"


_PHRASES: list[tuple[list[str], int]] = [
    (phrase.split(), seconds)
    for phrase, seconds in {
        "three quarters of an hour": 2700,
        "three - quarters of an hour": 2700,
        "a quarter of an hour": 900,
        "quarter of an hour": 900,
        "a quarter hour": 900,
        "an hour and three quarters": 6300,
        "an hour and a quarter": 4500,
        "an hour and a half": 5400,
        "half an hour": 1800,
        "a half hour": 1800,
        "an hour": 3600,
        "a minute": 60,
        "a day": 86400,
        "a week": 604800,
    }.items()
]


def counts(tokens: list[Token], units: Mapping[str, Fraction], codes: Sequence[str]) -> list[Candidate]:
    """Plain numbers. The value is the set of numbers; strong beside one of the `units`, before or behind it, and then
    so many times what that unit is worth.

    Money, dates and times of day are none; neither is what follows "of" (`3 of 20`), nor a code unless its letters are
    among `codes`.
    """
    other = _taken([*dates(tokens, None), *(time for time in clock_times(tokens) if time.strong)])
    found = []
    for numeral in numerals(tokens):
        foreign = numeral.code and numeral.prefix not in codes and _worth(numeral.prefix, units) is None
        if numeral.first in other or foreign:
            continue
        after = text_at(tokens, numeral.last + 1)
        if _money_sign(tokens, numeral) or after in _MINOR - {"c", "p"}:
            continue
        if _total(tokens, numeral, units):
            continue
        scale = _unit_beside(tokens, numeral, units)
        strong = scale is not None or numeral.code
        if (numeral.pronoun and not strong and not _alone(tokens, numeral)) or not _own_unit(after, units):
            continue
        values = {value * (scale or 1) for value in numeral.values}
        found.append(Candidate(numeral.first, numeral.last, values, strong=strong))
    found += _nothing(tokens, units)
    return sorted(found, key=lambda one: one.first)


def _worth(text: str, units: Mapping[str, Fraction]) -> Fraction | None:
    """What the unit that a word names is worth, if it names one; short ones are meant whole."""
    return next(
        (worth for unit, worth in units.items() if text == unit or (len(unit) > 2 and text.startswith(unit))), None
    )


def _own_unit(after: str, units: Mapping[str, Fraction]) -> bool:
    """Whether the unit behind a number is not one of another quantity."""
    foreign = (after in _SECONDS and len(after) > 1) or after in _UNITS
    return not (units and foreign) or _worth(after, units) is not None


def _alone(tokens: Sequence[Token], numeral: Numeral) -> bool:
    return len([token for token in tokens if token.kind != "sign"]) <= 1 or text_at(tokens, numeral.last + 1) in (
        ".",
        "",
    )


def _total(tokens: Sequence[Token], numeral: Numeral, units: Mapping[str, Fraction]) -> bool:
    """The 20 of `3 of 20`, `3 out of the 20` and `3/20`, but not of `table 10/20`."""
    before = [token.text for token in tokens[max(0, numeral.first - 4) : numeral.first]]
    before = [text for text in before if text not in ("the", "our", "its", "all", "out")]
    if len(before) < 2 or before[-1] not in ("of", "/"):
        return False
    if before[-1] == "/" and _worth(text_at(tokens, numeral.first - 3), units) is not None:
        return False
    return before[-2].isdigit() or before[-2] in SMALL


def _unit_beside(tokens: Sequence[Token], numeral: Numeral, units: Mapping[str, Fraction]) -> Fraction | None:
    after = [token.text for token in tokens[numeral.last + 1 : numeral.last + 4]]
    before = [token.text for token in tokens[max(0, numeral.first - 3) : numeral.first]]
    while before and before[-1] in ("number", "no", ".", "-", ":", "nr"):
        before.pop()
    for place, text in enumerate(after):
        worth = _worth(text, units)
        if worth is not None:
            return worth
        if text in SMALL or (not text[:1].isalpha() and not (text == "-" and place == 0)):
            break
    return _worth(before[-1], units) if before else None


def _nothing(tokens: Sequence[Token], units: Mapping[str, Fraction]) -> list[Candidate]:
    """`no places`, `none`: nought."""
    found = []
    for at, token in enumerate(tokens):
        near = [other.text for other in tokens[at + 1 : at + 4]]
        unit = any(_worth(text, units) is not None for text in near)
        if token.text == "none" or (token.text == "no" and unit and not any(text.isdigit() for text in near)):
            found.append(Candidate(at, at, {Fraction(0)}, strong=unit))
    return found
