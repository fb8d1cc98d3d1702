"""Days in a text: dates, ordinals, weekdays, tomorrow."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from .lexicon import listed, words
from .statements import Candidate
from .tokens import Token, text_at

MONTHS = listed("january february march april may june july august september october november december")
_MONTH = {name: number for number, name in enumerate(MONTHS, 1)}
_MONTH |= {name[:3]: number for number, name in enumerate(MONTHS, 1)} | {"sept": 9}
DAYS = listed("monday tuesday wednesday thursday friday saturday sunday")
_WEEKDAY = {name: number for number, name in enumerate(DAYS)}
_WEEKDAY |= {short: _WEEKDAY[name] for name in DAYS for short in (name[:3], name + "s")}
_WEEKDAY |= {"tues": 1, "weds": 2, "thur": 3, "thurs": 3}
_UNCAPPED = frozenset({"sun", "sat", "mon", "fri", "wed", "may", "mar", "dec", "jan", "march"})
"""Words of their own unless written with a capital."""
_ORDINALS = listed(
    "_ first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_ORDINAL = {word: number for number, word in enumerate(_ORDINALS) if number} | {"thirtieth": 30}
_ENDINGS = frozenset({"st", "nd", "rd", "th"})
_BETWEEN = words(", ( . ; : - \u2013 \u2014 the on a an is was which that being")
"""What may stand between a weekday and the date that it is the weekday of."""
MOST_BETWEEN = 5


class Day:
    """A day as a text names it; what it leaves out is None. `relative`: days from today."""

    __slots__ = ("day", "month", "relative", "weekday", "year")

    def __init__(
        self,
        year: int | None = None,
        month: int | None = None,
        day: int | None = None,
        weekday: int | None = None,
        relative: int | None = None,
    ) -> None:
        self.year, self.month, self.day, self.weekday, self.relative = year, month, day, weekday, relative

    def fits(self, wanted: datetime.date, today: datetime.date | None) -> bool:
        """Whether this can be the wanted day; a bare weekday is one of the seven days from today on."""
        if self.relative is not None:
            return today is not None and wanted == today + datetime.timedelta(self.relative)
        if self.day is None and today is not None and not 0 <= (wanted - today).days <= 7:
            return False
        parts = (
            (self.year, wanted.year),
            (self.month, wanted.month),
            (self.day, wanted.day),
            (self.weekday, wanted.weekday()),
        )
        return all(own is None or own == other for own, other in parts)


def dates(tokens: list[Token], today: datetime.date | None) -> list[Candidate]:
    """Days. The value of a candidate is the tuple of days that it may stand for; one with month and day is strong."""
    found: list[Candidate] = []
    at = 0
    while at < len(tokens):
        one = _date(tokens, at) or _weekday(tokens, at) or _relative(tokens, at, today)
        if one is None:
            at += 1
            continue
        if found and _same_day(tokens, found[-1], one):
            one = _merged(found.pop(), one)
        found.append(one)
        at = one.last + 1
    return found


def _same_day(tokens: Sequence[Token], left: Candidate, right: Candidate) -> bool:
    """`Thursday, 16 April`, `16 April (Thursday)`, `16 April, which is a Thursday`."""
    gap = [token.text for token in tokens[left.last + 1 : right.first]]
    bare = [all(day.weekday is not None and day.day is None for day in one.value) for one in (left, right)]
    return bare[0] != bare[1] and len(gap) <= MOST_BETWEEN and _BETWEEN.issuperset(gap)


def _merged(left: Candidate, right: Candidate) -> Candidate:
    named, dated = (left, right) if left.value[0].day is None else (right, left)
    weekday = named.value[0].weekday
    days = tuple(Day(day.year, day.month, day.day, weekday, day.relative) for day in dated.value)
    return Candidate(left.first, right.last, days, strong=dated.strong)


def _date(tokens: Sequence[Token], at: int) -> Candidate | None:
    token = tokens[at]
    if token.kind == "number":
        return _numeric(tokens, at) or _day_first(tokens, at)
    if _month(token):
        return _month_first(tokens, at)
    if token.text in _ORDINAL or (token.text in ("twenty", "thirty") and text_at(tokens, at + 1) == "-"):
        return _day_first(tokens, at)
    return None


def _month(token: Token) -> int:
    if token.kind != "word" or (token.text in _UNCAPPED and not token.raw[0].isupper()):
        return 0
    return _MONTH.get(token.text, 0)


def _numeric(tokens: Sequence[Token], at: int) -> Candidate | None:
    """2026-04-16, 16.04.2026, 16/4/26, 16.4., 20260416."""
    raw, last = tokens[at].raw, at
    parts = [raw]
    if raw.count(".") == 2:
        parts = raw.split(".")
    elif text_at(tokens, at + 1) in ("-", "/", ".") and at + 2 < len(tokens):
        sign = text_at(tokens, at + 1)
        while text_at(tokens, last + 1) == sign and tokens[last + 1].glued and len(parts) < 3:
            if last + 2 >= len(tokens) or tokens[last + 2].kind != "number" or not tokens[last + 2].glued:
                break
            parts.append(tokens[last + 2].raw)
            last += 2
    elif raw.count(".") == 1 and text_at(tokens, at + 1) == "." and tokens[at + 1].glued:
        day, month = raw.split(".")
        if len(day) <= 2 and len(month) <= 2 and 1 <= int(day) <= 31 and 1 <= int(month) <= 12 and month[0] != "0":
            # 5.90. at the end of a sentence is no day; 16.4. in the middle of one is.
            following = text_at(tokens, at + 2)
            return Candidate(at, at + 1, (Day(None, int(month), int(day)),), strong=True) if following else None
        return None
    if len(parts) == 1 and len(raw) == 8 and raw.isdigit() and raw[:2] in ("19", "20"):
        parts = [raw[:4], raw[4:6], raw[6:]]
    if not all(part.isdigit() for part in parts):
        return None
    days = _readings(parts)
    if last + 1 < len(tokens) and text_at(tokens, last + 1)[:1] == "t" and tokens[last + 1].glued:
        last = at if not days else last
    return Candidate(at, last, days, strong=True) if days else None


def _readings(parts: list[str]) -> tuple[Day, ...]:
    numbers = [int(part) for part in parts]
    if len(parts) == 3 and len(parts[0]) == 4:
        orders = [(numbers[0], numbers[1], numbers[2])]
    elif len(parts) == 3 and len(parts[2]) in (2, 4) and len(parts[0]) <= 2:
        year = numbers[2] if len(parts[2]) == 4 else 2000 + numbers[2]
        orders = [(year, numbers[1], numbers[0]), (year, numbers[0], numbers[1])]
    else:
        return ()
    return tuple(Day(y, m, d) for y, m, d in orders if 1 <= m <= 12 and 1 <= d <= 31)


def _ordinal(tokens: Sequence[Token], at: int) -> tuple[int, int, bool] | None:
    """(day of a month, its last token, whether it is said as an ordinal)."""
    token = tokens[at] if at < len(tokens) else None
    if token is None:
        return None
    if token.text in _ORDINAL:
        return _ORDINAL[token.text], at, True
    if token.text in ("twenty", "thirty") and text_at(tokens, at + 1) == "-" and text_at(tokens, at + 2) in _ORDINAL:
        return (20 if token.text == "twenty" else 30) + _ORDINAL[text_at(tokens, at + 2)], at + 2, True
    if token.kind != "number" or not token.raw.isdigit() or not 1 <= int(token.raw[:4]) <= 31 or len(token.raw) > 2:
        return None
    if at and token.glued and tokens[at - 1].raw not in "(\n":
        return None
    if text_at(tokens, at + 1) in _ENDINGS and tokens[at + 1].glued:
        return int(token.raw), at + 1, True
    return int(token.raw), at, False


def _day_first(tokens: Sequence[Token], at: int) -> Candidate | None:
    """16 April 2026, 16. April, the 16th of April; without a month only as an ordinal (`the 16th`)."""
    found = _ordinal(tokens, at)
    if found is None:
        return None
    day, last, ordinal = found
    place = last + 1
    while text_at(tokens, place) in (".", "of", "-", "day") and place - last < 3:
        place += 1
    month = _month(tokens[place]) if place < len(tokens) else 0
    if month and not (text_at(tokens, last + 1) == "." and not tokens[last + 1].glued):
        year, end = _year(tokens, place + 1)
        return Candidate(at, end if year else place, (Day(year, month, day),), strong=True)
    if not month and text_at(tokens, last + 1) in ("or", "and", "/", "-", "to", ","):
        # 16 or 17 April: both are of the month that is named once.
        after = _ordinal(tokens, last + 2)
        place = after[1] + 1 if after else len(tokens)
        place += text_at(tokens, place) in (".", "of")
        month = _month(tokens[place]) if place < len(tokens) else 0
        if month:
            return Candidate(at, last, (Day(_year(tokens, place + 1)[0], month, day),), strong=True)
    if ordinal and (
        tokens[at].kind == "number" or (text_at(tokens, at - 1) == "the" and text_at(tokens, last + 1) in ("", "."))
    ):
        return Candidate(at, last, (Day(None, None, day),), strong=tokens[at].kind == "number")
    return None


def _month_first(tokens: Sequence[Token], at: int) -> Candidate | None:
    """April 16th, 2026."""
    month = _month(tokens[at])
    place = at + 1
    while text_at(tokens, place) in (".", "the") and place - at < 3:
        place += 1
    found = _ordinal(tokens, place)
    if found is None:
        return None
    day, last, _ = found
    year, end = _year(tokens, last + 1)
    return Candidate(at, end if year else last, (Day(year, month, day),), strong=True)


def _year(tokens: Sequence[Token], at: int) -> tuple[int | None, int]:
    while text_at(tokens, at) in (",", ".", "-"):
        at += 1
    raw = text_at(tokens, at)
    return (int(raw), at) if len(raw) == 4 and raw.isdigit() and raw[:2] in ("19", "20") else (None, at)


def _weekday(tokens: Sequence[Token], at: int) -> Candidate | None:
    token = tokens[at]
    if token.kind != "word" or token.text not in _WEEKDAY or (token.text in _UNCAPPED and not token.raw[0].isupper()):
        return None
    return Candidate(at, at, (Day(weekday=_WEEKDAY[token.text]),), strong=False)


def _relative(tokens: Sequence[Token], at: int, today: datetime.date | None) -> Candidate | None:
    days = {"today": 0, "tonight": 0, "tomorrow": 1}.get(tokens[at].text)
    if days is None or today is None:
        return None
    if days == 1 and text_at(tokens, at - 1) == "after" and text_at(tokens, at - 2) == "day":
        days = 2
    return Candidate(at, at, (Day(relative=days),), strong=False)
