"""The helpers that checks call: whether a text says a value, in any usual spelling."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations

from . import labels, quantities
from .clock_times import clock_times
from .dates import DAYS, dates
from .refusals import refuses
from .statements import Candidate, CannotTell, judge
from .tokens import MOST_CHARS, Token, cut, joined

Number = int | float | str
MOST_PARTS = 12
MOST_PIECES = 100


def says_number(
    texts: object,
    value: Number,
    unit: str | Sequence[str] | Mapping[str, Number] = (),
    *,
    beside: Sequence[Number] = (),
    codes: Sequence[str] = (),
    asked: Sequence[str] = (),
) -> bool:
    """Whether the text says a plain number: 12, twelve, a dozen, 1 597,45.

    `unit` names what is counted (`"table"`, `("place", "space")`; plurals come by themselves): with one, other numbers
    are other matters; a mapping says what each is worth (`{"kg": 1, "g": "0.001"}`). `beside` are numbers that belong
    to the matter and may stand there too. `codes` are letters of codes that stand for the number (`"t"`: T-10). Raises
    CannotTell.
    """
    tokens = _read(texts)
    found = quantities.counts(tokens, units_of(unit), [code.lower() for code in codes])
    about = [] if isinstance(unit, Mapping) else [unit] if isinstance(unit, str) else unit
    return _judge_values(tokens, found, _exact(value), [_exact(one) for one in beside], asked, about)


def says_money(
    texts: object,
    cents: int,
    *,
    beside: Sequence[int] = (),
    currency: str = "",
    bare: str = "major",
    asked: Sequence[str] = (),
) -> bool:
    """Whether the text says an amount, given in hundredths: 590 is said by 5.90, 5,90 €, EUR 5.90, five euros ninety
    and 590 cents, and not by 590 or 590 euros.

    `beside` are other amounts of the matter, in hundredths; the parts of a sum need not be named. `currency` (EUR, USD,
    GBP, CHF, JPY) refuses others. With `bare="cents"` a whole number without a unit is one of hundredths; otherwise one
    that would fit so cannot be told. Raises CannotTell.
    """
    tokens = _read(texts)
    found = quantities.amounts(tokens, currency, bare)
    wanted = Fraction(cents)
    if bare != "cents" and not any(wanted in one.value for one in found):
        short = {cents * 100 for cents in (wanted,)}
        if any(not one.strong and one.value == short for one in found) and abs(cents) >= 100:
            raise CannotTell("a number without a unit: it may be one of hundredths")
    return _judge_values(tokens, found, wanted, [Fraction(one) for one in beside], asked)


def says_duration(
    texts: object,
    minutes: Number,
    *,
    seconds: int = 0,
    beside: Sequence[Number] = (),
    bare: str = "minutes",
    asked: Sequence[str] = (),
) -> bool:
    """Whether the text says a length of time, given in minutes and seconds: 75 min, 1 hour 15 minutes, 1:15 h, 1h15, an
    hour and a quarter. A number alone is in `bare` (seconds, minutes, hours, days, weeks); `beside` are other lengths
    of the matter, in minutes. Raises CannotTell."""
    tokens = _read(texts)
    found = quantities.durations(tokens, bare)
    return _judge_values(tokens, found, _exact(minutes) * 60 + seconds, [_exact(one) * 60 for one in beside], asked)


def says_time(
    texts: object,
    time: str,
    *,
    on: str = "",
    today: str = "",
    weekday: str = "",
    beside: Sequence[str] = (),
    asked: Sequence[str] = (),
) -> bool:
    """Whether the text says a time of day, `HH:MM`: 20:15, 8:15 pm, 8.15 p.m., quarter past eight in the evening.

    Without a half of the day, 8:15 is either, 08:15 only the morning. `on` is the day that it is about (`YYYY-MM-DD`):
    another day or weekday anywhere is a contradiction; `today` makes "tomorrow" and weekdays into days. With `weekday`
    (`"friday"`) another weekday is one only where it stands with the time. Raises CannotTell.
    """
    tokens = _read(texts)
    if on:
        _require_day(tokens, on, today)
    found = clock_times(tokens)
    wanted = _minute(time)
    others = {_minute(one) for one in beside}
    if weekday:
        _require_weekday(tokens, [one for one in found if wanted in one.value], found, weekday)
    return judge(
        tokens,
        found,
        lambda one: wanted in one.value,
        lambda one: bool(others & one.value),
        asked=asked,
        spans=True,
    )


def says_date(
    texts: object, date: str, *, today: str = "", beside: Sequence[str] = (), asked: Sequence[str] = ()
) -> bool:
    """Whether the text says a day, `YYYY-MM-DD`: 16 April 2026, 16. April, April 16th, 16/04/2026, the 16th.

    A year or weekday that is named must be right. A date that may be read in two ways fits if one way does. With
    `today`, "tomorrow" and bare weekdays are days too. Raises CannotTell.
    """
    tokens = _read(texts)
    wanted, now = datetime.date.fromisoformat(date), datetime.date.fromisoformat(today) if today else None
    others = [datetime.date.fromisoformat(one) for one in beside]
    found = dates(tokens, now)
    if any(one.strong for one in found):
        found = [one for one in found if one.strong or _names(one, wanted, now) is False]
    return judge(
        tokens,
        found,
        lambda one: _names(one, wanted, now),
        lambda one: any(_names(one, other, now) for other in others),
        asked=asked,
    )


def says_name(
    texts: object,
    name: str,
    others: Sequence[str] = (),
    *,
    beside: Sequence[str] = (),
    asked: Sequence[str] = (),
    code: bool = False,
) -> bool:
    """Whether the text names somebody or something, whatever case, accents, articles and titles.

    `others` are the names that it could be confused with: part of a name is enough where no other shares it, and
    another name asserted beside it is a contradiction unless it is in `beside`. `code`: names are codes, whole or not
    at all (`AE16-3TN8`). Raises CannotTell.
    """
    tokens = _read(texts)
    free = {*beside} - {name}
    known = [name, *(one for one in dict.fromkeys([*others, *beside]) if one != name)]
    found = (labels.codes if code else labels.names)(tokens, known)
    if any(one.value == {0} for one in found):
        found = [one for one in found if one.strong or 0 not in one.value]
    elif any(0 in one.value for one in found):
        raise CannotTell("part of a name that others share")
    return judge(
        tokens,
        found,
        lambda one: one.value == {0},
        lambda one: any(known[index] in free for index in one.value),
        asked=asked,
    )


def says_list(texts: object, names: Sequence[str], others: Sequence[str] = (), *, code: bool = False) -> bool:
    """Whether the text names each of `names`, in any order, and asserts none of `others`. Raises CannotTell."""
    return all(says_name(texts, name, others, beside=names, code=code) for name in names)


def mentions(texts: object, *phrases: str) -> bool:
    """Whether one of the phrases stands in the text, whatever is said about it; `click*` is any word that begins so."""
    return bool(labels.phrases(_read(texts), phrases))


def denies(texts: object, *phrases: str) -> bool:
    """Whether the text denies one of the phrases wherever it stands ("does not click", "no clicks").

    Raises CannotTell.
    """
    tokens = _read(texts)
    found = labels.phrases(tokens, phrases)
    if not found:
        return False
    try:
        return not judge(tokens, found, lambda one: True)
    except CannotTell:
        if all(one.denied or one.hedged for one in found):
            return True
        raise


def says_cannot(texts: object, *about: str) -> bool:
    """Whether the text says that what was asked cannot be done here, for want of a tool or an option; `about` are words
    for the act (`"cancel*"`). Another reason, or a claim that it was done, is no such text. Raises CannotTell."""
    return refuses(_read(texts), about)


def _read(texts: object) -> list[Token]:
    text = joined(texts)
    if len(text) > MOST_CHARS:
        raise CannotTell(f"the text has more than {MOST_CHARS:,} characters")
    return cut(text)


def units_of(unit: str | Sequence[str] | Mapping[str, Number]) -> dict[str, Fraction]:
    """What each unit is worth, by its name in lower case."""
    if isinstance(unit, Mapping):
        return {name.lower(): _exact(worth) for name, worth in unit.items()}
    return {name.lower(): Fraction(1) for name in ([unit] if isinstance(unit, str) else unit) if name}


def _exact(value: Number) -> Fraction:
    return Fraction(str(value))


def _minute(time: str) -> int:
    hour, minute = time.split(":")
    return int(hour) * 60 + int(minute)


def _names(one: Candidate, wanted: datetime.date, today: datetime.date | None) -> bool:
    return any(day.fits(wanted, today) for day in one.value)


def _require_day(tokens: list[Token], on: str, today: str) -> None:
    """Raises CannotTell where a day is named that is not the one meant."""
    wanted, now = datetime.date.fromisoformat(on), datetime.date.fromisoformat(today) if today else None
    found = dates(tokens, now)
    foreign = [one for one in found if not _names(one, wanted, now)]
    if not foreign:
        return
    if len(foreign) == len(found):
        judge(tokens, found, lambda one: False)
        raise CannotTell("another day is named")
    judge(tokens, found, lambda one: _names(one, wanted, now))


def _require_weekday(tokens: list[Token], wanted: list[Candidate], times: list[Candidate], weekday: str) -> None:
    """Raises CannotTell where another weekday stands with the time, no other time or sentence between them."""
    place = DAYS.index(weekday)
    named = [one for one in dates(tokens, None) if one.value[0].weekday is not None]
    marks = [at for at, token in enumerate(tokens) if token.raw in (".", ";", "!", "?", "\n") and not token.glued]
    marks += [at for at, token in enumerate(tokens) if token.raw in ("!", "?", ";", "\n")]

    def beside(day: Candidate, time: Candidate) -> bool:
        first, last = min(day.last, time.last), max(day.first, time.first)
        others = [one.first for one in times if one is not time] + [one.first for one in named if one is not day]
        return not any(first < at < last for at in (*others, *marks))

    for time in wanted:
        with_it = [day for day in named if beside(day, time)]
        if with_it and all(day.value[0].weekday != place for day in with_it):
            raise CannotTell("another weekday stands with the time")


def _judge_values(
    tokens: list[Token],
    found: list[Candidate],
    wanted: Fraction,
    beside: list[Fraction],
    asked: Sequence[str],
    about: Sequence[str] = (),
) -> bool:
    explained: Callable[[list[Candidate]], bool] = lambda rivals: _adds_up(rivals, wanted)  # noqa: E731
    return judge(
        tokens,
        found,
        lambda one: wanted in one.value,
        lambda one: any(value in one.value for value in beside),
        explained,
        asked,
        about=about,
    )


def _adds_up(rivals: list[Candidate], wanted: Fraction) -> bool:
    """Whether the values named beside it are what it is made of: a sum, or a difference."""
    parts = [min(one.value) for one in rivals if one.value]
    if len(parts) < 2 or len(parts) != len(rivals) or len(parts) > MOST_PARTS:
        return False
    if max(parts) * 2 - sum(parts) == wanted:
        return True
    if len(parts) <= 3 and any(abs(a - b) == wanted for a, b in combinations(parts, 2)):
        return True
    for size in range(len(parts), 1, -1):
        for chosen in combinations(parts, size):
            if sum(chosen) == wanted:
                left = list(parts)
                for part in chosen:
                    left.remove(part)
                return all(any(_priced(part, price) for part in chosen) for price in left)
    return False


def _priced(total: Fraction, price: Fraction) -> bool:
    """Whether a part of the sum is so many times this, as of a price for each."""
    return price > 0 and (total / price).denominator == 1 and total / price <= MOST_PIECES
