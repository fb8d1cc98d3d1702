"""The frame of a task: the changes of the state that a right solution may make. Other changes break the task.

It follows from the executed reference: fields that it changes of existing records must, if they change, get the value
that it left, records that it adds must be as its own, whatever their ids, and it names the records that may be removed.
Values that differ between two executions with another seed or clock are free. The author, other solved runs and people
widen it, each with a reason. Compared on the host; programs and checks never see it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from pydantic import ValidationError

from synthesis.contracts import Allowance, AllowanceSource, Frame, OutsideChange, State
from synthesis.errors import InputError
from synthesis.runtime import to_canonical_json
from synthesis.verifiers.frames.framed_end import ENDS, FramedEnd
from synthesis.verifiers.frames.pinned_values import CHOSEN, find_counters
from synthesis.verifiers.state_changes import StateChange, find_state_changes, format_path

MOST_TOLD = 20
"""So many changes outside a frame are named."""
PATH_CHARS = 300
VALUE_CHARS = 8_000
"""The content of a place is kept with the frame up to this length, of all places together up to `FRAME_CHARS`."""
FRAME_CHARS = 400_000
TOO_LONG = "What the reference left here is too long to be kept with the frame."
Key = frozenset[tuple[str, ...]]
"""What a run did, described so that two runs which did the same are equal."""


def build_frame(start: State, end: State) -> Frame:
    """Return the frame of an executed reference: exactly the changes that it made. States are encoded.

    Raise InputError if it changes more than a frame can hold, or the names of fields are too long for one.
    """
    left, allowances = FRAME_CHARS, []
    try:
        for change in find_state_changes(start, end):
            allowance = _build_allowance(change)
            size = len(to_canonical_json([allowance.values, allowance.records]))
            if size > min(left, VALUE_CHARS):
                allowance = unpin_allowance(allowance, TOO_LONG)
                size = 0
            left -= size
            allowances.append(allowance)
        return Frame(allowances=tuple(allowances))
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise InputError(f"No frame can be made of what the reference changes: {reason}"[:500]) from None


def unpin_allowance(allowance: Allowance, reason: str) -> Allowance:
    """Return the allowance without its allowed values."""
    free = {"values": (), "records": (), "minimum": None, "maximum": None, "reason": reason}
    return allowance.model_copy(update=free)


def widen_frame(frame: Frame, more: Iterable[Allowance]) -> Frame:
    """Return the frame with further allowances. An allowance that another of its place includes is dropped."""
    by_path: dict[str, list[Allowance]] = {}
    for item in frame.allowances:
        by_path.setdefault(item.path, []).append(item)
    for allowance in more:
        same = by_path.setdefault(allowance.path, [])
        if not any(_is_within(allowance, item) for item in same):
            same[:] = [item for item in same if item.is_pinned or not _is_within(item, allowance)]
            same.append(allowance)
    return Frame(allowances=tuple(item for same in by_path.values() for item in same))


def find_widenings(
    frame: Frame, start: State, end: State, *, source: AllowanceSource, reason: str, by: str = ""
) -> tuple[Allowance, ...]:
    """Return the allowances that a frame lacks for another executed run to be inside, with their values."""
    framed = FramedEnd(frame, start, end)
    origin = {"source": source, "reason": reason, "by": by}
    counting = {format_path(change.keys) for change in find_counters(framed.changes)}
    allowances = [_build_allowance(change) for change in framed.changes if framed.outside(change)]
    allowances = [unpin_allowance(item, reason) if item.path in counting else item for item in allowances]
    values = to_canonical_json([item.values for item in allowances])
    paths = {item.path for item in allowances}
    for change in framed.changes:
        # Values name records by their ids, so the frame must contain these records too.
        named = change.kind == "added" and any(key and key in values for key, _ in change.items)
        if named and f"{format_path(change.keys)}/+" not in paths:
            allowances.append(_build_allowance(change))
    long = [len(to_canonical_json([item.values, item.records])) > VALUE_CHARS for item in allowances]
    return tuple(
        (unpin_allowance(item, reason) if cut else item).model_copy(update=origin)
        for item, cut in zip(allowances, long, strict=True)
    )


def find_outside_changes(frame: Frame | None, start: State, end: State) -> tuple[OutsideChange, ...]:
    """Return the changes that the frame does not allow, `MOST_TOLD` at most; empty without a frame."""
    if frame is None:
        return ()
    outside: list[OutsideChange] = []
    framed = FramedEnd(frame, start, end)
    for change in framed.changes:
        outside += framed.outside(change)
        if len(outside) >= MOST_TOLD:
            break
    return tuple(item.model_copy(update={"path": item.path[:PATH_CHARS]}) for item in outside[:MOST_TOLD])


def build_end_key(frame: Frame | None, start: State, end: State, *, bounded: bool = False) -> Key:
    """Return what an end state holds that the start does not, without volatile paths and excused declarations.

    Ends with equal keys are the same for the task. With `bounded` further records are free, too, up to their declared
    number. A frame whose values are not pinned declares nothing by the changes of its reference.
    """
    allowances = frame.allowances if frame is not None else ()
    framed = FramedEnd(Frame(allowances=tuple(item for item in allowances if not is_unpinned(item))), start, end)
    parts: set[tuple[str, ...]] = set()
    for change in framed.changes:
        path = format_path(change.keys)
        if framed.is_excused(change):
            continue
        if change.kind == "changed":
            text = framed.field_text(change)
            if text is not None:
                parts.add((path, CHOSEN if framed.is_declared(change) else text))
        elif change.kind == "reordered":
            parts.add((path, ENDS[change.kind]))
        elif not (bounded and framed.is_declared(change)):
            parts.add((path, ENDS[change.kind], *framed.item_texts(change)))
    return frozenset(parts)


def is_unpinned(allowance: Allowance) -> bool:
    """Return whether the reference changes a place without any allowed value: so were frames before they had values."""
    bare = allowance.source == "reference" and not allowance.reason
    return bare and not allowance.is_pinned and not allowance.path.endswith("/#")


def read_place(text: str, **more: str) -> Allowance:
    """Parse an allowance from one line.

    The line is a path, then `most N` if records are counted, `= VALUE or VALUE` (each as JSON) or `from N to N` for the
    values of a field. `more` are the other fields of the allowance. Raise InputError.
    """
    path, _, rest = text.strip().partition(" ")
    try:
        return Allowance.model_validate({"path": path, **_read_rest(rest.strip()), **more})
    except ValidationError as error:
        reason = error.errors()[0]["msg"].removeprefix("Value error, ")
    except ValueError as error:
        reason = str(error)
    raise InputError(f"{text[:PATH_CHARS]}: {reason}")


def _read_rest(text: str) -> dict[str, object]:
    word, _, rest = text.partition(" ")
    rest = rest.strip()
    if word == "most":
        if not (rest.isascii() and rest.isdecimal()):
            raise ValueError("behind “most” stands a whole number")
        return {"most": int(rest)}
    if word == "from":
        low, _, high = rest.partition(" to ")
        try:
            return {"minimum": float(low), "maximum": float(high)}
        except ValueError:
            raise ValueError("behind “from” stand two numbers, with “to” between them") from None
    if word == "=":
        return {"values": tuple(_read_values(rest))}
    if text:
        raise ValueError("behind the path stands “most N”, “= VALUE or VALUE”, or “from N to N”")
    return {}


def _read_values(text: str) -> Iterable[object]:
    decoder = json.JSONDecoder()
    while True:
        try:
            value, end = decoder.raw_decode(text)
        except ValueError:
            raise ValueError("behind “=” stand values as JSON, a text in quotes, with “or” between them") from None
        yield value
        text = text[end:].strip()
        if not text:
            return
        if not text.startswith("or "):
            raise ValueError("between two values stands “or”")
        text = text[3:].strip()


def format_place(allowance: Allowance) -> str:
    """Return the line that `read_place` parses; for added and removed records only their number."""
    text = allowance.path if allowance.most is None else f"{allowance.path} most {allowance.most}"
    if allowance.values:
        text += " = " + " or ".join(json.dumps(value, ensure_ascii=False) for value in allowance.values)
    elif allowance.has_value:
        text += f" from {allowance.minimum} to {allowance.maximum}"
    return text


def format_change_place(change: OutsideChange) -> str:
    """Return the place that would have to be allowed for a change to be inside, as `read_place` parses it."""
    end = ENDS.get(change.kind)
    if end is None:
        return change.path
    return f"{change.path}/{end}" + (f" most {change.count}" if change.kind != "reordered" else "")


def build_frame_key(frame: Frame) -> list[list[object]]:
    """Return the part of a frame that decides rewards: its places, in a fixed order, without authors and reasons."""
    rows: list[list[object]] = []
    runs: dict[tuple[str, str, str], int] = {}
    for item in frame.allowances:
        pins = item.model_dump(mode="json", include={"values", "minimum", "maximum", "records"}, exclude_defaults=True)
        if pins:
            # Values name added records by ids, which mean something within one run only.
            pins["run"] = runs.setdefault((item.source, item.reason, item.by), len(runs))
        rows.append([item.path, item.most, *([pins] if pins else [])])
    return sorted(rows, key=lambda row: (str(row[0]), json.dumps(row, sort_keys=True)))


def _build_allowance(change: StateChange) -> Allowance:
    path = format_path(change.keys)
    if change.kind == "changed":
        return Allowance(path=path, values=(change.new,))
    if change.kind == "reordered":
        return Allowance(path=f"{path}/#")
    named = [(key, None if key and change.kind == "removed" else item) for key, item in change.items]
    return Allowance(path=f"{path}/{ENDS[change.kind]}", most=change.count, records=tuple(named))


def _is_within(one: Allowance, other: Allowance) -> bool:
    """Return whether an allowance of the same place allows nothing that the other does not."""
    if other.most is not None and (one.most is None or one.most > other.most):
        return False
    if not other.is_pinned:
        return True
    pins = [(item.values, item.minimum, item.maximum, item.records) for item in (one, other)]
    if pins[0] == pins[1]:
        return True
    same_run = (one.source, one.reason, one.by) == (other.source, other.reason, other.by)
    other_values = Counter(map(to_canonical_json, other.values)) if other.values else Counter()
    return same_run and bool(one.values) and not Counter(map(to_canonical_json, one.values)) - other_values


__all__ = [
    "Key",
    "build_end_key",
    "build_frame",
    "build_frame_key",
    "find_outside_changes",
    "find_widenings",
    "format_change_place",
    "format_place",
    "is_unpinned",
    "read_place",
    "unpin_allowance",
    "widen_frame",
]  # fmt: skip
