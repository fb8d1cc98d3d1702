"""The frame of a task: what a right way to do it may change in the state, and to what. Other changes break the task.

It follows from the executed reference: the fields that it changes of existing records must hold what it left there if
they change at all, records that it adds must be as its own were, whatever their ids, and it says which may go. What
differs between two executions with another seed or clock is free. The author, other solved runs and people widen it,
each with a reason. Compared on the host; programs and checks never see it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

from pydantic import ValidationError

from synthesis.contracts import Allowance, AllowanceSource, Frame, OutsideChange, State
from synthesis.errors import InputError
from synthesis.runtime import canonical_json
from synthesis.verifiers.frames.framed_end import ENDS, FramedEnd
from synthesis.verifiers.frames.pinned_values import CHOSEN, counters
from synthesis.verifiers.state_changes import StateChange, path_of, state_changes

MOST_TOLD = 20
"""So many changes outside a frame are named."""
PATH_CHARS = 300
VALUE_CHARS = 8_000
"""What stands in a place is kept with the frame up to this length, of all places together up to `FRAME_CHARS`."""
FRAME_CHARS = 400_000
TOO_LONG = "What the reference left here is too long to be kept with the frame."
Key = frozenset[tuple[str, ...]]
"""What a run did, told so that two runs which did the same are equal."""


def frame_of(start: State, end: State) -> Frame:
    """The frame that an executed reference spans: exactly the changes that it made. States are encoded.

    Raises InputError where it changes more than a frame can hold, or the names of fields are too long for one.
    """
    left, made = FRAME_CHARS, []
    try:
        for change in state_changes(start, end):
            allowance = _allowance(change)
            size = len(canonical_json([allowance.values, allowance.records]))
            if size > min(left, VALUE_CHARS):
                allowance = unpinned(allowance, TOO_LONG)
                size = 0
            left -= size
            made.append(allowance)
        return Frame(allowances=tuple(made))
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise InputError(f"No frame can be made of what the reference changes: {reason}"[:500]) from None


def unpinned(allowance: Allowance, reason: str) -> Allowance:
    """The allowance without saying what may stand in its place."""
    free = {"values": (), "records": (), "minimum": None, "maximum": None, "reason": reason}
    return allowance.model_copy(update=free)


def widen(frame: Frame, more: Iterable[Allowance]) -> Frame:
    """The frame with further allowances. One that allows nothing more than another of its place is left out."""
    kept: dict[str, list[Allowance]] = {}
    for item in frame.allowances:
        kept.setdefault(item.path, []).append(item)
    for allowance in more:
        same = kept.setdefault(allowance.path, [])
        if not any(_within(allowance, item) for item in same):
            same[:] = [item for item in same if item.is_pinned or not _within(item, allowance)]
            same.append(allowance)
    return Frame(allowances=tuple(item for same in kept.values() for item in same))


def widenings(
    frame: Frame, start: State, end: State, *, source: AllowanceSource, reason: str, by: str = ""
) -> tuple[Allowance, ...]:
    """What a frame would have to allow besides for another executed run to stay inside, and to what."""
    framed = FramedEnd(frame, start, end)
    told = {"source": source, "reason": reason, "by": by}
    counting = {path_of(change.keys) for change in counters(framed.changes)}
    found = [_allowance(change) for change in framed.changes if framed.outside(change)]
    found = [unpinned(item, reason) if item.path in counting else item for item in found]
    values = canonical_json([item.values for item in found])
    paths = {item.path for item in found}
    for change in framed.changes:
        # Values name records by their ids: what these are has to stand with them.
        named = change.kind == "added" and any(key and key in values for key, _ in change.items)
        if named and f"{path_of(change.keys)}/+" not in paths:
            found.append(_allowance(change))
    long = [len(canonical_json([item.values, item.records])) > VALUE_CHARS for item in found]
    return tuple(
        (unpinned(item, reason) if cut else item).model_copy(update=told) for item, cut in zip(found, long, strict=True)
    )


def outside_changes(frame: Frame | None, start: State, end: State) -> tuple[OutsideChange, ...]:
    """What changed that the frame does not allow, `MOST_TOLD` at most; without a frame nothing is outside."""
    if frame is None:
        return ()
    found: list[OutsideChange] = []
    framed = FramedEnd(frame, start, end)
    for change in framed.changes:
        found += framed.outside(change)
        if len(found) >= MOST_TOLD:
            break
    return tuple(item.model_copy(update={"path": item.path[:PATH_CHARS]}) for item in found[:MOST_TOLD])


def end_key(frame: Frame | None, start: State, end: State, *, bounded: bool = False) -> Key:
    """What an end state holds that the start does not, outside volatile paths and what a declaration excuses.

    Ends with equal keys are the same for the task. With `bounded` further records are free, too, up to as many as
    somebody declared. A frame whose values are not pinned declares nothing by what its reference changed.
    """
    given = frame.allowances if frame is not None else ()
    framed = FramedEnd(Frame(allowances=tuple(item for item in given if not is_unpinned(item))), start, end)
    found: set[tuple[str, ...]] = set()
    for change in framed.changes:
        path = path_of(change.keys)
        if framed.is_excused(change):
            continue
        if change.kind == "changed":
            text = framed.field_text(change)
            if text is not None:
                found.add((path, CHOSEN if framed.is_declared(change) else text))
        elif change.kind == "reordered":
            found.add((path, ENDS[change.kind]))
        elif not (bounded and framed.is_declared(change)):
            found.add((path, ENDS[change.kind], *framed.item_texts(change)))
    return frozenset(found)


def is_unpinned(allowance: Allowance) -> bool:
    """Whether the reference changes a place, and nobody says to what: so were frames before they had values."""
    bare = allowance.source == "reference" and not allowance.reason
    return bare and not allowance.is_pinned and not allowance.path.endswith("/#")


def read_place(text: str, **more: str) -> Allowance:
    """A place as it is written in one line: a path, behind it `most N` where records are counted, `= VALUE or VALUE`
    (each as JSON) or `from N to N` where it says what a field may become.

    `more` are the other fields of the allowance. Raises InputError.
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


def spelled_place(allowance: Allowance) -> str:
    """What `read_place` reads; of added and removed records only how many."""
    text = allowance.path if allowance.most is None else f"{allowance.path} most {allowance.most}"
    if allowance.values:
        text += " = " + " or ".join(json.dumps(value, ensure_ascii=False) for value in allowance.values)
    elif allowance.has_value:
        text += f" from {allowance.minimum} to {allowance.maximum}"
    return text


def place_of(change: OutsideChange) -> str:
    """The place that would have to be allowed for a change to be inside, as `read_place` reads it."""
    end = ENDS.get(change.kind)
    if end is None:
        return change.path
    return f"{change.path}/{end}" + (f" most {change.count}" if change.kind != "reordered" else "")


def frame_key(frame: Frame) -> list[list[object]]:
    """What of a frame decides rewards: its places, in a fixed order, without who allowed them and why."""
    rows: list[list[object]] = []
    runs: dict[tuple[str, str, str], int] = {}
    for item in frame.allowances:
        pins = item.model_dump(mode="json", include={"values", "minimum", "maximum", "records"}, exclude_defaults=True)
        if pins:
            # Values name added records by ids, which mean something within one run only.
            pins["run"] = runs.setdefault((item.source, item.reason, item.by), len(runs))
        rows.append([item.path, item.most, *([pins] if pins else [])])
    return sorted(rows, key=lambda row: (str(row[0]), json.dumps(row, sort_keys=True)))


def _allowance(change: StateChange) -> Allowance:
    path = path_of(change.keys)
    if change.kind == "changed":
        return Allowance(path=path, values=(change.new,))
    if change.kind == "reordered":
        return Allowance(path=f"{path}/#")
    named = [(key, None if key and change.kind == "removed" else item) for key, item in change.items]
    return Allowance(path=f"{path}/{ENDS[change.kind]}", most=change.count, records=tuple(named))


def _within(one: Allowance, other: Allowance) -> bool:
    """Whether an allowance of the same place allows nothing that the other does not."""
    if other.most is not None and (one.most is None or one.most > other.most):
        return False
    if not other.is_pinned:
        return True
    pins = [(item.values, item.minimum, item.maximum, item.records) for item in (one, other)]
    if pins[0] == pins[1]:
        return True
    same_run = (one.source, one.reason, one.by) == (other.source, other.reason, other.by)
    known = Counter(map(canonical_json, other.values)) if other.values else Counter()
    return same_run and bool(one.values) and not Counter(map(canonical_json, one.values)) - known


__all__ = [
    "Key", "end_key", "frame_key", "frame_of", "is_unpinned", "outside_changes", "place_of", "read_place",
    "spelled_place", "unpinned", "widen", "widenings",
]  # fmt: skip
