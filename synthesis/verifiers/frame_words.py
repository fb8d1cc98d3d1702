"""Frames and the changes outside them, in words that people read."""

from __future__ import annotations

from collections.abc import Iterable

from synthesis.contracts import Allowance, Frame, OutsideChange
from synthesis.verifiers.frames.framed_end import range_words, shown_value

VALUES_SHOWN = 6
_LITERAL = {"~2": "*", "~3": "+", "~4": "-", "~5": "#"}


def frame_lines(frame: Frame) -> list[str]:
    """What may change and to what, by record or collection: `status (cancelled) of reservations R-61`."""
    fields: dict[str, dict[str, list[str]]] = {}
    free = {item.path for item in frame.allowances if item.is_free}
    for allowance in frame.allowances:
        *above, last = allowance.path.split("/")[1:]
        phrase = _whole(above, last, allowance)
        values = [] if allowance.path in free else value_words(allowance)
        if phrase:
            fields.setdefault(phrase, {}).setdefault("", []).extend(values)
        else:
            names = fields.setdefault(f" of {_place(above)}" if above else "", {})
            names.setdefault(_key(last), []).extend(values)
    lines = []
    for place, names in fields.items():
        told = [_valued(name, list(dict.fromkeys(values))) for name, values in names.items()]
        lines.append(_valued(place, names[""]) if "" in names else f"{_listed(told)}{place}")
    return lines


def allowance_line(allowance: Allowance) -> str:
    """One allowance: `at most 2 new records in purchases`."""
    return frame_lines(Frame(allowances=(allowance,)))[0]


def value_words(allowance: Allowance) -> list[str]:
    """What may stand there, each value in some characters: `cancelled`, `from 10 to 20`."""
    words = [shown_value(value) for value in allowance.values]
    if allowance.minimum is not None or allowance.maximum is not None:
        words.append(range_words(allowance))
    return words + [shown_value(item) if item is not None else key for key, item in allowance.records]


def outside_line(change: OutsideChange) -> str:
    """One change outside a frame: `status of reservations R-62`, `1 record added to purchases`."""
    *above, last = change.path.split("/")[1:]
    if change.kind in ("changed", "value"):
        place = _field_place(above, last)
        return place if change.kind == "changed" else f"{place} should be “{change.expected}”, is “{change.found}”"
    if change.kind == "reordered":
        return f"the order of {_place([*above, last])}"
    what = "1 record" if change.count == 1 else f"{change.count:,} records"
    words = {"added": "added to", "removed": "removed from", "missing": "missing from"}[change.kind]
    return f"{what} {words} {_place([*above, last])}"


def _field_place(above: list[str], last: str) -> str:
    if last == "+":
        return f"a new record in {_place(above)}"
    return f"{_key(last)} of {_place(above)}" if above else _key(last)


def outside_sentence(changes: Iterable[OutsideChange]) -> str:
    """`Changed outside the frame: status of reservations R-62; 1 record added to purchases.` Empty without any."""
    lines = [outside_line(change) for change in changes]
    return f"Changed outside the frame: {'; '.join(lines)}." if lines else ""


def difference_line(change: OutsideChange) -> str:
    """One difference from a golden state, as `1 record too many in orders`."""
    place = _place(change.path.split("/")[1:])
    what = "1 record" if change.count == 1 else f"{change.count:,} records"
    if change.kind == "added":
        return f"{what} too many in {place}"
    return f"{what} missing from {place}" if change.kind == "removed" else outside_line(change)


def difference_sentence(changes: Iterable[OutsideChange]) -> str:
    """`Other than the golden state: 1 record missing from orders.` Empty without any."""
    lines = [difference_line(change) for change in changes]
    return f"Other than the golden state: {'; '.join(lines)}." if lines else ""


def _whole(above: list[str], last: str, allowance: Allowance) -> str:
    """The phrase of what is counted or ordered; empty where a field is meant."""
    if last == "#":
        return f"the order of {_place(above)}"
    if last not in ("+", "-"):
        return ""
    many = "any number of" if allowance.most is None else f"at most {allowance.most:,}"
    plural = "" if allowance.most == 1 else "s"
    if last == "+":
        return f"{many} new record{plural} in {_place(above)}"
    return f"{many} record{plural} removed from {_place(above)}"


def _place(keys: list[str]) -> str:
    """`reservations R-61`; with a pattern `any of reservations`, of added ones `new records in reservations`."""
    words: list[str] = []
    for key in keys:
        if key == "*":
            words.insert(0, "any of")
        elif key == "+":
            words.insert(0, "a new record in")
        else:
            words.append(_key(key))
    return " ".join(words)


def _key(text: str) -> str:
    if text == "*":
        return "any field"
    return _LITERAL.get(text) or text.replace("~1", "/").replace("~0", "~")


def _valued(name: str, values: list[str]) -> str:
    """A name with what may stand there in brackets."""
    shown = values[:VALUES_SHOWN] + ([f"{len(values) - VALUES_SHOWN:,} more"] if len(values) > VALUES_SHOWN else [])
    return f"{name} ({'; '.join(shown)})" if values else name


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
