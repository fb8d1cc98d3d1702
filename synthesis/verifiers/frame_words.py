"""Frames and the changes outside them, in words that people read."""

from __future__ import annotations

from collections.abc import Iterable

from synthesis.contracts import Allowance, Frame, OutsideChange

_LITERAL = {"~2": "*", "~3": "+", "~4": "-", "~5": "#"}


def frame_lines(frame: Frame) -> list[str]:
    """What may change, a phrase for each record or collection: `status and table_id of reservations R-61`."""
    fields: dict[str, list[str]] = {}
    for allowance in frame.allowances:
        *above, last = allowance.path.split("/")[1:]
        phrase = _whole(above, last, allowance)
        if phrase:
            fields.setdefault(phrase, [])
        else:
            fields.setdefault(f" of {_place(above)}" if above else "", []).append(_key(last))
    lines = []
    for place, names in fields.items():
        lines.append(f"{_listed(names)}{place}" if names else place)
    return lines


def allowance_line(allowance: Allowance) -> str:
    """One allowance: `at most 2 new records in purchases`."""
    return frame_lines(Frame(allowances=(allowance,)))[0]


def outside_line(change: OutsideChange) -> str:
    """One change outside a frame: `status of reservations R-62`, `1 record added to purchases`."""
    *above, last = change.path.split("/")[1:]
    if change.kind == "changed":
        return f"{_key(last)} of {_place(above)}" if above else _key(last)
    if change.kind == "reordered":
        return f"the order of {_place([*above, last])}"
    what = "1 record" if change.count == 1 else f"{change.count:,} records"
    return f"{what} {change.kind} {'to' if change.kind == 'added' else 'from'} {_place([*above, last])}"


def outside_sentence(changes: Iterable[OutsideChange]) -> str:
    """`Changed outside the frame: status of reservations R-62; 1 record added to purchases.` Empty without any."""
    lines = [outside_line(change) for change in changes]
    return f"Changed outside the frame: {'; '.join(lines)}." if lines else ""


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
    """`reservations R-61`; with a pattern `any of reservations`."""
    words: list[str] = []
    for key in keys:
        if key == "*":
            words.insert(0, "any of")
        else:
            words.append(_key(key))
    return " ".join(words)


def _key(text: str) -> str:
    if text == "*":
        return "any field"
    return _LITERAL.get(text) or text.replace("~1", "/").replace("~0", "~")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
