"""Times of day in a text: 20:15, 8:15 pm, quarter past eight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .dates import dates
from .numerals import SMALL, Numeral, numerals
from .statements import Candidate
from .tokens import Token, text_at

_PARTS = {"morning": "am", "afternoon": "pm", "evening": "pm", "tonight": "pm"}
_NAMED = {"noon": 720, "midday": 720, "midnight": 0}
_LEADS = frozenset("at from until till by to before after past around about for is, -".replace(",", "").split())


def clock_times(tokens: list[Token]) -> list[Candidate]:
    """Times of day. The value is the set of minutes since midnight; strong where the form leaves no other reading."""
    spelled = {numeral.first: numeral for numeral in numerals(tokens)}
    dated = {at for one in dates(tokens, None) if one.strong for at in range(one.first, one.last + 1)}
    found = []
    at = 0
    while at < len(tokens):
        one = None if at in dated else _time(tokens, at, spelled)
        if one is None:
            at += 1
            continue
        found.append(one)
        at = one.last + 1
    return found


def _time(tokens: Sequence[Token], at: int, spelled: Mapping[int, Numeral]) -> Candidate | None:
    token = tokens[at]
    if token.text in _NAMED:
        return Candidate(at, at, {_NAMED[token.text]}, strong=True)
    if token.kind == "number":
        return _digital(tokens, at)
    if token.text in ("quarter", "half", "a") or token.text in SMALL:
        return _past(tokens, at) or _spoken(tokens, at)
    return None


def _digital(tokens: Sequence[Token], at: int) -> Candidate | None:
    raw, last, strong = tokens[at].raw, at, False
    if at and tokens[at].glued and tokens[at - 1].kind == "word":
        return None
    past = _past(tokens, at)
    if past is not None:
        return past
    separator = ":" if ":" in raw else "." if "." in raw else ""
    parts = raw.split(separator) if separator else [raw]
    if len(parts) == 1 and text_at(tokens, at + 1) == "h" and at + 2 < len(tokens):
        follower = tokens[at + 2]
        if follower.kind == "number" and follower.glued and len(follower.raw) == 2:
            parts, last, strong = [raw, follower.raw], at + 2, True
    if len(parts) == 1 and len(raw) == 4 and raw.isdigit() and text_at(tokens, at + 1) in ("hrs", "hours", "h"):
        parts, last, strong = [raw[:2], raw[2:]], at + 1, True
    if len(parts) == 1 and len(raw) == 4 and raw.isdigit() and raw[0] == "0":
        parts = [raw[:2], raw[2:]]
    if not all(part.isdigit() and len(part) <= 2 for part in parts) or len(parts) > 3:
        return None
    if len(parts) > 1 and any(len(part) != 2 for part in parts[1:]):
        return None
    hour, minute = int(parts[0]), int(parts[1]) if len(parts) > 1 else 0
    half, last = _half(tokens, last)
    clock = text_at(tokens, last + 1) in ("o'clock", "uhr", "oclock")
    if clock:
        last += 1
        half, last = _half(tokens, last) if not half else (half, last)
    if hour > 23 or minute > 59 or (len(parts) == 3 and int(parts[2]) > 59):
        return None
    if len(parts) == 1 and not half and not clock and not _led(tokens, at):
        return None
    strong = strong or separator == ":" or bool(half) or clock
    exact = len(parts[0]) == 2 and parts[0][0] == "0"
    return Candidate(at, last, _minutes(hour, minute, half, exact), strong=strong)


def _led(tokens: Sequence[Token], at: int) -> bool:
    """`at 8`: a bare number that may be an hour."""
    follower = tokens[at + 1] if at + 1 < len(tokens) else None
    noun = follower is not None and follower.kind != "sign" and follower.text not in ("on", "in", "today", "tomorrow")
    return (text_at(tokens, at - 1) in _LEADS or at == 0) and not noun


def _minutes(hour: int, minute: int, half: str, exact: bool) -> set[int]:
    if half == "am":
        return {hour % 12 * 60 + minute} if hour <= 12 else set()
    if half == "pm":
        return {(hour % 12 + 12) * 60 + minute} if hour <= 12 else {hour * 60 + minute}
    if exact or hour > 11 or hour == 0:
        return {hour * 60 + minute}
    return {hour * 60 + minute, (hour + 12) * 60 + minute}


def _half(tokens: Sequence[Token], last: int) -> tuple[str, int]:
    """Which half of the day is named behind a time, and where that ends: `pm`, `p.m.`, `in the evening`."""
    texts = [token.text for token in tokens[last + 1 : last + 6]]
    if texts[:1] and texts[0] in ("am", "pm"):
        return texts[0], last + 1
    if texts[:3] in (["a", ".", "m"], ["p", ".", "m"]):
        return texts[0] + "m", last + 3 + (texts[3:4] == ["."] and tokens[last + 4].glued)
    if texts[:2] == ["in", "the"] and texts[2:3] and texts[2] in _PARTS:
        return _PARTS[texts[2]], last + 3
    if texts[:2] == ["at", "night"]:
        return "pm", last + 2
    return "", last


def _small(tokens: Sequence[Token], at: int) -> tuple[int, int] | None:
    """A whole number up to 59, in words or digits, and its last token."""
    text = text_at(tokens, at)
    if text.isdigit() and len(text) <= 2 and int(text) < 60:
        return int(text), at
    if text not in SMALL:
        return None
    value = SMALL[text]
    if value >= 20:
        place = at + 2 if text_at(tokens, at + 1) == "-" else at + 1
        if 0 < SMALL.get(text_at(tokens, place), 0) < 10:
            return value + SMALL[text_at(tokens, place)], place
    return value, at


def _past(tokens: Sequence[Token], at: int) -> Candidate | None:
    """`quarter past eight`, `half past eight`, `ten to nine`, `five minutes past 8`."""
    start = at + 1 if text_at(tokens, at) == "a" else at
    word = text_at(tokens, start)
    if word in ("quarter", "half"):
        minutes, place = 15 if word == "quarter" else 30, start + 1
    else:
        found = _small(tokens, start)
        if found is None or start != at:
            return None
        minutes, place = found[0], found[1] + 1
        place += text_at(tokens, place) in ("minutes", "minute")
    sense = text_at(tokens, place)
    if sense not in ("past", "after", "to", "before", "of", "till"):
        return None
    named = _NAMED.get(text_at(tokens, place + 1))
    hour = _small(tokens, place + 1)
    if named is None and (hour is None or not 1 <= hour[0] <= 23):
        return None
    if word not in ("quarter", "half") and (
        sense not in ("past", "to") or (minutes % 5 and "minute" not in text_at(tokens, place - 1))
    ):
        return None
    if (
        sense == "to"
        and word not in ("quarter", "half")
        and (text_at(tokens, at).isdigit() or text_at(tokens, at - 1) == "from")
    ):
        # "10 to 12" is a range.
        return None
    offset = minutes if sense in ("past", "after") else -minutes
    if named is not None:
        return Candidate(at, place + 1, {(named + offset) % 1440}, strong=True)
    assert hour is not None
    half, last = _half(tokens, hour[1])
    last += not half and text_at(tokens, last + 1) == "o'clock"
    return Candidate(at, last, {(value + offset) % 1440 for value in _minutes(hour[0], 0, half, False)}, strong=True)


def _spoken(tokens: Sequence[Token], at: int) -> Candidate | None:
    """`eight fifteen`, `eight o'clock`, `at eight`, `half eight`."""
    if text_at(tokens, at) == "half":
        hour = _small(tokens, at + 1)
        if hour is None or not 1 <= hour[0] <= 12 or tokens[at + 1].kind == "number":
            return None
        half, last = _half(tokens, hour[1])
        return Candidate(at, last, {value + 30 for value in _minutes(hour[0], 0, half, False)}, strong=False)
    hour = _small(tokens, at)
    if hour is None or not 0 <= hour[0] <= 23:
        return None
    last = hour[1]
    place = last + 2 if text_at(tokens, last + 1) == "-" else last + 1
    minute = _small(tokens, place)
    if text_at(tokens, place) in ("oh", "o") and (tail := _small(tokens, place + 1)) is not None:
        minute = tail if tail[0] < 10 else None
    elif (minute is not None and not 10 <= minute[0] <= 59) or not text_at(tokens, place).isalpha():
        minute = None
    last = minute[1] if minute else last
    half, last = _half(tokens, last)
    clock = text_at(tokens, last + 1) in ("o'clock", "oclock")
    if clock:
        half, last = _half(tokens, last + 1)
    if minute is None and not half and not clock and not _led(tokens, at):
        return None
    return Candidate(at, last, _minutes(hour[0], minute[0] if minute else 0, half, False), strong=bool(half) or clock)
