"""One bijection between the ids of records that two runs added, so that both states use the same ids.

Records are distinguished by their content and by what refers to them, repeatedly, until nothing more follows. Of those
that are still alike one pair is matched at a time, and its consequences are computed again. Whatever is matched, the
comparison of the renamed states decides: a bad match can refuse an end, and never lets a wrong one pass.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import State
from synthesis.runtime import to_canonical_json
from synthesis.verifiers.frames.framed_end import MOST_COMPARED
from synthesis.verifiers.frames.pinned_values import Names
from synthesis.verifiers.golden.normal_form import TOKEN, NewId, NormalState, rename_ids
from synthesis.verifiers.state_changes import find_state_changes, format_path, get_mapping

MOST_ROUNDS = 12
MOST_LOOKED_AT = 20_000
"""So often records are looked at until those that are still alike are matched in their order. Where a run added another
number of them, so that it is wrong anyway, they are at once."""
SELF = f"{TOKEN}self"
_WORD = re.compile(r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*")
Colors = Mapping[str, str]


@dataclass(frozen=True)
class _Holder:
    """A changed place, or an added record, with the new ids that it holds."""

    label: str
    value: Any
    ids: tuple[str, ...]


class _Side:
    """The added records of one state, and all that refers to them."""

    def __init__(self, start: State, normal: NormalState) -> None:
        self.ids = {new.name: new for new in normal.ids}
        self.records: dict[str, Any] = {}
        self._tails = normal.tails
        self._holders = [holder for holder in self._list_holders(start, normal.state) if holder.ids]
        self._by_id: dict[str, list[_Holder]] = {name: [] for name in self.ids}
        for holder in self._holders:
            for name in holder.ids:
                self._by_id[name].append(holder)

    def _list_holders(self, start: State, state: State) -> Iterator[_Holder]:
        for change in find_state_changes(start, state):
            path = format_path(change.keys)
            if change.kind == "changed":
                yield _Holder(path, change.new, self._list_held_ids(change.new))
            elif change.kind == "added":
                for key, item in change.items:
                    self.records.setdefault(key, item)
                    yield _Holder(f"{path}/+", {key: item}, self._list_held_ids({key: item}))

    def _list_held_ids(self, value: Any) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for text in _iterate_texts(value) for name in self._names_in(text)))

    def _names_in(self, text: str) -> Iterator[str]:
        if text in self.ids:
            yield text
        else:
            yield from (word for word in _WORD.findall(text) if word in self.ids)

    def first_colors(self) -> dict[str, str]:
        """Return the first colors of ids: their collection, and the texts that they are made of."""
        return {name: f"{TOKEN}{new.place}{to_canonical_json(new.embedded)}" for name, new in self.ids.items()}

    def refine_colors(self, colors: Colors) -> dict[str, str]:
        """Return colors that also include the holders of the ids, written in the colors so far."""
        refined_colors = {}
        for name, color in colors.items():
            names = Names({**colors, name: SELF})
            texts = sorted(
                holder.label + to_canonical_json(rename_ids(holder.value, names, self._tails))
                for holder in self._by_id[name]
            )
            refined_colors[name] = (
                TOKEN + hashlib.blake2b("\n".join([color, *texts]).encode(), digest_size=12).hexdigest()
            )
        return refined_colors


def match_ids(start: State, golden: NormalState, end: NormalState) -> dict[str, str]:
    """Return, by id of a record that the end added, the id of its counterpart in the golden state.

    Records that have no equal are matched with the most similar of their collection, so that differences are few.
    """
    if not golden.ids or not end.ids:
        return {}
    right, own = _Side(start, golden), _Side(start, end)
    uneven = Counter(new.place for new in golden.ids) != Counter(new.place for new in end.ids)
    matched = _match_equal(right, own, 0 if uneven else MOST_LOOKED_AT)
    return matched | _match_similar(right, own, matched)


def _match_equal(right: _Side, own: _Side, left: int) -> dict[str, str]:
    theirs, mine = right.first_colors(), own.first_colors()
    while True:
        for _ in range(MOST_ROUNDS):
            count = len(set(theirs.values())), len(set(mine.values()))
            theirs, mine = right.refine_colors(theirs), own.refine_colors(mine)
            left -= len(theirs) + len(mine)
            if (len(set(theirs.values())), len(set(mine.values()))) == count:
                break
        groups = _group_by_color(theirs, mine)
        alike = next((group for group in groups if len(group[0]) > 1 or len(group[1]) > 1), None)
        if alike is None or left <= 0:
            return {mine: theirs for group in groups for theirs, mine in zip(*group, strict=False)}
        theirs[alike[0][0]] = mine[alike[1][0]] = f"{TOKEN}pair{left}"


def _group_by_color(theirs: Colors, mine: Colors) -> list[tuple[list[str], list[str]]]:
    """Return groups of ids of both sides by color, for the colors that both have."""
    ids_by_color: dict[str, tuple[list[str], list[str]]] = {}
    for place, colors in enumerate((theirs, mine)):
        for name, color in colors.items():
            ids_by_color.setdefault(color, ([], []))[place].append(name)
    return [group for group in ids_by_color.values() if all(group)]


def _match_similar(right: _Side, own: _Side, matched: Mapping[str, str]) -> dict[str, str]:
    taken = set(matched.values())
    left = [new for name, new in right.ids.items() if name not in taken]
    others = [new for name, new in own.ids.items() if name not in matched]
    names = Names({**matched, **{new.name: SELF for new in (*left, *others)}})
    matches: dict[str, str] = {}
    for new in left[:MOST_COMPARED]:
        fitting = [other for other in others if _can_match(new, other) and other.name not in matches][:MOST_COMPARED]
        if fitting:
            best = min(fitting, key=lambda other: _count_differing_fields(right, own, new, other, names))
            matches[best.name] = new.name
    return matches


def _can_match(one: NewId, other: NewId) -> bool:
    return (one.place, one.embedded) == (other.place, other.embedded)


def _count_differing_fields(right: _Side, own: _Side, one: NewId, other: NewId, names: Names) -> int:
    """Return how many fields of two added records differ."""
    theirs, mine = (get_mapping(side.records.get(new.name)) or {} for side, new in ((right, one), (own, other)))
    texts = [
        {key: to_canonical_json(rename_ids(item, names, {})) for key, item in side.items()} for side in (theirs, mine)
    ]
    return sum(texts[0].get(key) != texts[1].get(key) for key in {**theirs, **mine})


def _iterate_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _iterate_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_texts(item)
