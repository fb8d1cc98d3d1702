"""Frames and the changes outside them, as text for people."""

from __future__ import annotations

from collections.abc import Iterable

from synthesis.contracts import Allowance, Frame, OutsideChange
from synthesis.verifiers.frames.framed_end import format_range, format_shown_value

VALUES_SHOWN = 6
_LITERAL = {"~2": "*", "~3": "+", "~4": "-", "~5": "#"}


def format_frame_lines(frame: Frame) -> list[str]:
    """Return the allowed changes by record or collection: `status (cancelled) of reservations R-61`."""
    fields: dict[str, dict[str, list[str]]] = {}
    free = {item.path for item in frame.allowances if item.is_free}
    for allowance in frame.allowances:
        *above, last = allowance.path.split("/")[1:]
        phrase = _format_collection(above, last, allowance)
        values = [] if allowance.path in free else format_allowed_values(allowance)
        if phrase:
            fields.setdefault(phrase, {}).setdefault("", []).extend(values)
        else:
            names = fields.setdefault(f" of {_format_place(above)}" if above else "", {})
            names.setdefault(_format_key(last), []).extend(values)
    lines = []
    for place, names in fields.items():
        phrases = [_append_values(name, list(dict.fromkeys(values))) for name, values in names.items()]
        lines.append(_append_values(place, names[""]) if "" in names else f"{_join_names(phrases)}{place}")
    return lines


def format_allowance(allowance: Allowance) -> str:
    """Return one allowance in words: `at most 2 new records in purchases`."""
    return format_frame_lines(Frame(allowances=(allowance,)))[0]


def format_allowed_values(allowance: Allowance) -> list[str]:
    """Return the allowed values of a place, each shortened: `cancelled`, `from 10 to 20`."""
    words = [format_shown_value(value) for value in allowance.values]
    if allowance.minimum is not None or allowance.maximum is not None:
        words.append(format_range(allowance))
    return words + [format_shown_value(item) if item is not None else key for key, item in allowance.records]


def format_outside_change(change: OutsideChange) -> str:
    """Return one change outside a frame: `status of reservations R-62`, `1 record added to purchases`."""
    *above, last = change.path.split("/")[1:]
    if change.kind in ("changed", "value"):
        place = _format_field_place(above, last)
        return place if change.kind == "changed" else f"{place} should be “{change.expected}”, is “{change.found}”"
    if change.kind == "reordered":
        return f"the order of {_format_place([*above, last])}"
    what = "1 record" if change.count == 1 else f"{change.count:,} records"
    words = {"added": "added to", "removed": "removed from", "missing": "missing from"}[change.kind]
    return f"{what} {words} {_format_place([*above, last])}"


def _format_field_place(above: list[str], last: str) -> str:
    if last == "+":
        return f"a new record in {_format_place(above)}"
    return f"{_format_key(last)} of {_format_place(above)}" if above else _format_key(last)


def format_outside_changes(changes: Iterable[OutsideChange]) -> str:
    """Return `Changed outside the frame: status of reservations R-62.`, with all changes; empty without any."""
    lines = [format_outside_change(change) for change in changes]
    return f"Changed outside the frame: {'; '.join(lines)}." if lines else ""


def format_difference(change: OutsideChange) -> str:
    """Return one difference from a golden state, as `1 record too many in orders`."""
    place = _format_place(change.path.split("/")[1:])
    what = "1 record" if change.count == 1 else f"{change.count:,} records"
    if change.kind == "added":
        return f"{what} too many in {place}"
    return f"{what} missing from {place}" if change.kind == "removed" else format_outside_change(change)


def format_differences(changes: Iterable[OutsideChange]) -> str:
    """Return `Other than the golden state: 1 record missing from orders.`, empty without any."""
    lines = [format_difference(change) for change in changes]
    return f"Other than the golden state: {'; '.join(lines)}." if lines else ""


def _format_collection(above: list[str], last: str, allowance: Allowance) -> str:
    """Return the phrase for records that are counted or ordered; empty for a field."""
    if last == "#":
        return f"the order of {_format_place(above)}"
    if last not in ("+", "-"):
        return ""
    many = "any number of" if allowance.most is None else f"at most {allowance.most:,}"
    plural = "" if allowance.most == 1 else "s"
    if last == "+":
        return f"{many} new record{plural} in {_format_place(above)}"
    return f"{many} record{plural} removed from {_format_place(above)}"


def _format_place(keys: list[str]) -> str:
    """Return a place in words: `reservations R-61`, `any of reservations` for a pattern, `a new record in` for added
    ones."""
    words: list[str] = []
    for key in keys:
        if key == "*":
            words.insert(0, "any of")
        elif key == "+":
            words.insert(0, "a new record in")
        else:
            words.append(_format_key(key))
    return " ".join(words)


def _format_key(text: str) -> str:
    if text == "*":
        return "any field"
    return _LITERAL.get(text) or text.replace("~1", "/").replace("~0", "~")


def _append_values(name: str, values: list[str]) -> str:
    """Return a name with its allowed values in brackets."""
    shown = values[:VALUES_SHOWN] + ([f"{len(values) - VALUES_SHOWN:,} more"] if len(values) > VALUES_SHOWN else [])
    return f"{name} ({'; '.join(shown)})" if values else name


def _join_names(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
