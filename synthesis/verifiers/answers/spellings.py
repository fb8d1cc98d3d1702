"""Usual spellings of a value, and other values of its kind."""

from __future__ import annotations

import datetime
import unicodedata
from fractions import Fraction
from typing import Any

from synthesis.runtime.child.answers.dates import DAYS, MONTHS
from synthesis.runtime.child.answers.numerals import ONES, TENS

_CURRENCY = {"EUR": ("€", "euros"), "USD": ("$", "dollars"), "GBP": ("£", "pounds"), "CHF": ("CHF ", "francs")}


def words(number: int) -> str:
    """A number up to 9,999 in words; larger ones in digits."""
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")
    for size, name in ((1_000, "thousand"), (100, "hundred")):
        if size <= number < 10_000:
            rest = number % size
            tail = f" {'and ' * (rest < 100)}{words(rest)}" if rest else ""
            return f"{words(number // size)} {name}{tail}"
    return str(number)


def number_spellings(value: Fraction) -> list[str]:
    if value.denominator == 1:
        whole = int(value)
        grouped = [f"{whole:,}"] if whole >= 10_000 else []
        return [str(whole), *grouped, *([words(whole)] if 0 <= whole < 1_000 else [])]
    plain = f"{float(value):.6f}".rstrip("0")
    return [plain, plain.replace(".", ","), plain + "0"]


def money_spellings(cents: int, currency: str) -> list[str]:
    whole, part = divmod(cents, 100)
    plain = f"{whole}.{part:02d}"
    spelled = [plain, plain.replace(".", ","), f"{cents} cents"]
    if whole >= 1_000:
        spelled.append(f"{whole:,}.{part:02d}")
    if currency in _CURRENCY:
        sign, unit = _CURRENCY[currency]
        spelled += [f"{sign}{plain}", f"{plain} {currency}", f"{currency} {plain}", f"{plain.replace('.', ',')} {sign}"]
        spelled.append(f"{words(whole)} {unit}" + (f" and {words(part)} cents" if part else ""))
    elif part:
        spelled.append(f"{plain} ({cents} cents)")
    return spelled


def duration_spellings(minutes: Fraction) -> list[str]:
    whole = int(minutes)
    if minutes != whole:
        seconds = int(minutes * 60)
        spelled = [f"{seconds} seconds", f"{seconds} s", f"{words(seconds)} seconds"]
        return [*spelled, f"{whole} minute{'s' * (whole != 1)} {seconds % 60} seconds"] if whole else spelled
    spelled = [f"{whole} minutes", f"{whole} min", f"{words(whole)} minutes"]
    if whole >= 60:
        hours, left = divmod(whole, 60)
        plural = "s" * (hours != 1)
        tail = f" {left} minutes" if left else ""
        spelled += [f"{hours} hour{plural}{tail}", f"{hours}:{left:02d} h", f"{hours}h{left:02d}"]
        spelled.append(f"{words(hours)} hour{plural}" + (f" and {words(left)} minutes" if left else ""))
    return spelled


def time_spellings(minute: int) -> list[str]:
    hour, left = divmod(minute, 60)
    twelve, half = hour % 12 or 12, "a.m." if hour < 12 else "p.m."
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    spelled = [f"{hour:02d}:{left:02d}", f"{hour}:{left:02d}", f"{hour:02d}.{left:02d}", f"{twelve}:{left:02d} {half}"]
    spelled += [f"{twelve}:{left:02d}{half.replace('.', '')}", f"{hour}h{left:02d}"]
    if left == 0:
        return [*spelled, f"{words(twelve)} o'clock {part}" if hour != 12 else "noon"]
    to = hour % 12 + 1
    phrases = {15: f"quarter past {words(twelve)}", 30: f"half past {words(twelve)}", 45: f"quarter to {words(to)}"}
    phrase = phrases.get(
        left, f"{words(left)} past {words(twelve)}" if left < 30 else f"{words(60 - left)} to {words(to)}"
    )
    return [*spelled, f"{phrase} {part}"] if left % 5 == 0 else spelled


def date_spellings(day: datetime.date) -> list[str]:
    month = MONTHS[day.month - 1].capitalize()
    ending = "th" if 10 < day.day < 20 else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return [
        day.isoformat(),
        f"{day.day} {month} {day.year}",
        f"{day.day}. {month} {day.year}",
        f"{month} {day.day}, {day.year}",
        f"{month} {day.day}{ending}",
        f"{day.day:02d}/{day.month:02d}/{day.year}",
        f"{day.day:02d}.{day.month:02d}.{day.year}",
        f"{DAYS[day.weekday()].capitalize()}, the {day.day}{ending} of {month}",
    ]


def name_spellings(name: str) -> list[str]:
    parts = unicodedata.normalize("NFKD", name.replace("\u0131", "i"))
    plain = "".join(part for part in parts if not unicodedata.combining(part))
    return list(dict.fromkeys([name, name.upper() if plain == name else plain, name.lower(), f'"{name}"']))


def spellings(kind: str, value: Any, currency: str = "") -> list[str]:
    """Usual spellings of a value, the plainest first; kinds are number, money, duration, time, date and name."""
    if kind == "money":
        return money_spellings(int(value), currency)
    if kind == "duration":
        return duration_spellings(value)
    if kind == "time":
        return time_spellings(value)
    if kind == "date":
        return date_spellings(value)
    return name_spellings(value) if kind == "name" else number_spellings(value)


def other_values(kind: str, value: Any, names: list[str]) -> list[Any]:
    """Two plausible other values of the kind; for names, of those given, as many as there are."""
    if kind == "money":
        return [value + 100, value + 1_000]
    if kind == "duration":
        return [value + 15, value + 30]
    if kind == "time":
        return [(value + 15) % 1_440, (value + 60) % 1_440]
    if kind == "date":
        return [value + datetime.timedelta(days) for days in (1, 7)]
    return [name for name in names if name != value][:2] if kind == "name" else [value + 1, value + 2]


def plain(kind: str, value: Any, like: str, currency: str = "") -> str:
    """A value spelled as `like` is, as far as that can be seen: `11` and not `eleven` beside `10`."""
    every = spellings(kind, value, currency)
    if kind == "money" and "cent" in like:
        return f"{int(value)} cents"
    if (kind == "date" and not like[:1].isdigit()) or (kind == "date" and " " in like):
        return every[1]
    return every[0]
