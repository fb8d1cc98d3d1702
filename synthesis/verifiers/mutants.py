"""Mutants of a reference: each is wrong in one place, so a verifier that gives it the full reward is too weak.

This module defines a mutant, and the alterations of an argument: another plausible value, a text that says something
else or contradicts itself, a malformed one. `probes/call_mutants.py` tries which of them a tool accepts. The same
reference and state always give the same mutants. Those of the answer are made by `answer_variants.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from synthesis.contracts import Frozen, Program, Reference, ReferenceCall, State
from synthesis.verifiers.plausible_arguments import get_day_before, get_next_day, list_allowed_values

MutantKind = Literal[
    "call_removed",
    "argument_altered",
    "call_added",
    "record_swapped",
    "end_reached",
    "detour_made",
    "solution_tried",
    "answer_altered",
    "answer_respelled",
    "answer_contrary",
]
ANSWER_KINDS = frozenset({"answer_altered", "answer_respelled", "answer_contrary"})
"""Those that change no call."""
MAX_LEAVES = 24
"""Arguments of one call deeper or more than this are not all altered; calls are bounded by the reference itself."""
MAX_POOL = 5_000
MOST_CALLS = 12
"""Calls of a sequence that are shown, the last ones."""
SIDE_CHARS = 600
"""Characters of a value that a fault names; of a longer one, the part around the difference."""
MOST_NEAR = 8
"""So many values of the same kind are tried until the tool accepts one."""
CONTRARY = "But forget that: it is cancelled, do nothing of the kind."
"""Behind a sentence: it unsays what a check may look for in it."""
OTHER_TEXT = "Something else."
"""In place of a sentence: a letter more would not make it wrong."""
MOST_GROUPS = 8
"""So many groups of calls are left out together."""
Path = tuple[str | int, ...]
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class Mutant(Frozen):
    """A reference with one alteration. `step` is the call's index (0-based), None for the answer.

    `place` is the path of the altered argument (`items[0].count`), or the places of the state that an added call
    changed, whose arguments are `after`; of an `end_reached` and a `detour_made` the numbers of the differing calls; of
    several removed calls their numbers; else empty. `expects` is what it must earn: less than the full reward, or the
    full one like the reference itself.
    """

    kind: MutantKind
    step: int | None = None
    tool: str = ""
    place: str = ""
    before: Any = None
    after: Any = None
    reference: Reference
    expects: Literal["less", "full"] = "less"


@dataclass(frozen=True)
class Alteration:
    """One argument of a call and its replacements, in groups of equally good ones."""

    path: Path
    value: Any
    groups: tuple[tuple[Any, ...], ...]

    @property
    def place(self) -> str:
        """The path in the notation for people: `items[0].count`."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return text.lstrip(".")


def list_alterations(program: Program, initial: State, reference: Reference, step: int) -> list[Alteration]:
    """Return the possible alterations of one call, always the same."""
    pool, call = _Pool(initial, reference), reference.calls[step]
    schema = next((tool.parameters for tool in program.tools if tool.name == call.tool), {})
    leaves = list(_iterate_leaves(call.arguments, schema))[:MAX_LEAVES]
    return [Alteration(path, value, _list_other_values(path, value, rule, pool)) for path, value, rule in leaves]


def alter_argument(reference: Reference, step: int, alteration: Alteration, other: Any) -> Mutant:
    """Return the reference with one argument altered."""
    call = reference.calls[step]
    changed = ReferenceCall(tool=call.tool, arguments=replace_at_path(call.arguments, alteration.path, other))
    calls = (*reference.calls[:step], changed, *reference.calls[step + 1 :])
    return Mutant(
        kind="argument_altered",
        step=step,
        tool=call.tool,
        place=alteration.place,
        before=alteration.value,
        after=other,
        reference=reference.model_copy(update={"calls": calls}),
    )


def remove_call(reference: Reference, step: int) -> Mutant:
    """Return the reference with one call left out."""
    call = reference.calls[step]
    calls = reference.calls[:step] + reference.calls[step + 1 :]
    return Mutant(
        kind="call_removed",
        step=step,
        tool=call.tool,
        before=call.arguments,
        reference=reference.model_copy(update={"calls": calls}),
    )


def remove_call_groups(reference: Reference, changing: Sequence[int]) -> list[Mutant]:
    """Return the reference without several calls that belong together: all of a tool, or all that name the same thing.

    A task done in part may show what no single removed call shows.
    """
    groups: dict[tuple[int, ...], str] = {}
    for name in dict.fromkeys(name for step in changing for name in _list_subjects(reference.calls[step])):
        steps = tuple(step for step in changing if name in _list_subjects(reference.calls[step]))
        if 1 < len(steps) < len(changing):
            groups.setdefault(steps, name)
    return [
        Mutant(
            kind="call_removed",
            step=steps[0],
            tool=reference.calls[steps[0]].tool,
            place=", ".join(str(step + 1) for step in steps),
            before=name,
            reference=reference.model_copy(
                update={"calls": tuple(call for step, call in enumerate(reference.calls) if step not in steps)}
            ),
        )
        for steps, name in list(groups.items())[:MOST_GROUPS]
    ]


def _list_subjects(call: ReferenceCall) -> list[str]:
    """Return the subjects of a call: its tool, and its arguments that are texts."""
    return [call.tool, *(value for value in call.arguments.values() if isinstance(value, str))]


Leaf = tuple[Path, Any, dict[str, Any]]


def _iterate_leaves(value: Any, schema: Any, path: Path = ()) -> Iterator[Leaf]:
    """Yield every scalar, and every non-empty list as a whole, with its path and its schema."""
    rule = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        inner = rule.get("properties", {})
        for key, item in value.items():
            yield from _iterate_leaves(item, inner.get(key, rule.get("additionalProperties", {})), (*path, key))
    elif isinstance(value, list):
        if value:
            yield path, value, rule
        for index, item in enumerate(value):
            yield from _iterate_leaves(item, rule.get("items", {}), (*path, index))
    elif path:
        yield path, value, rule


def _list_other_values(path: Path, value: Any, rule: dict[str, Any], pool: _Pool) -> tuple[tuple[Any, ...], ...]:
    if isinstance(value, list):
        return ((value[:-1],),)
    if isinstance(value, bool):
        return ((not value,),)
    if isinstance(value, int | float):
        return ((value + 1, value + 2), (value - 1, value // 2 if isinstance(value, int) else value / 2))
    if value is None:
        return (("x",),)
    choices = [other for other in list_allowed_values(rule) if other != value]
    near = tuple(choices[:MOST_NEAR] or pool.near(path, value))
    strange = (OTHER_TEXT, f"{value} {CONTRARY}") if value.count(" ") > 1 else (value + "x",)
    return (near, *((text,) for text in strange))


def replace_at_path(value: Any, path: Path, other: Any) -> Any:
    """Return the value with another one at a path in it."""
    if not path:
        return other
    if isinstance(value, dict):
        return {key: replace_at_path(item, path[1:], other) if key == path[0] else item for key, item in value.items()}
    return [replace_at_path(item, path[1:], other) if index == path[0] else item for index, item in enumerate(value)]


def _build_shape(text: str) -> str:
    """Return the shape of a text: `A-101` and `A-7` look alike, since runs of digits and of letters count as one."""
    return re.sub(r"[A-Za-z]{3,}", "w", re.sub(r"\d+", "9", text))


class _Pool:
    """Strings in the initial state and in the reference, by shape: those that a careless agent would confuse."""

    def __init__(self, initial: State, reference: Reference) -> None:
        self.by_shape: dict[str, list[str]] = {}
        self.by_place: dict[str, list[str]] = {}
        for call in reference.calls:
            for path, value, _rule in _iterate_leaves(call.arguments, {}):
                if isinstance(value, str):
                    self.by_place.setdefault(_get_name(path), []).append(value)
        for count, text in enumerate(_iterate_strings(initial)):
            if count >= MAX_POOL:
                break
            self.by_shape.setdefault(_build_shape(text), []).append(text)

    def near(self, path: Path, value: str) -> list[str]:
        """Return other values of its kind: a day later or earlier, of the same shape in the state, the same argument
        elsewhere."""
        if _DATE.fullmatch(value):
            return [day for day in (get_next_day(value), get_day_before(value)) if day]
        same = [text for text in dict.fromkeys(self.by_shape.get(_build_shape(value), ())) if text != value]
        elsewhere = [text for text in dict.fromkeys(self.by_place.get(_get_name(path), ())) if text != value]
        if same and any(character.isdigit() for character in value):
            first = sum(map(ord, value)) % len(same)
            same = same[first:] + same[:first]
            return list(dict.fromkeys([*elsewhere[:1], *same]))[:MOST_NEAR]
        return list(dict.fromkeys([*elsewhere, *same]))[:MOST_NEAR]


def _get_name(path: Path) -> str:
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _iterate_strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _iterate_strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _iterate_strings(item)
    elif isinstance(value, str) and len(value) <= 200:
        yield value


def describe_mutant(mutant: Mutant) -> str:
    """Return a mutant in words: `call 3 (pay) with amount 6 instead of 5`."""
    after, before = format_differing_values(mutant.after, mutant.before)
    if mutant.kind in ("end_reached", "detour_made"):
        return f"calls {mutant.place}: {mutant.after}"
    after, before = format_differing_values(mutant.after, mutant.before)
    if mutant.kind in ANSWER_KINDS:
        return f"the answer {after} instead of {before}"
    if mutant.kind == "record_swapped":
        return f"{after} instead of {before} in every call"
    step = (mutant.step or 0) + 1
    if mutant.kind == "solution_tried":
        way = f"the solution without {mutant.tool}, which is withheld" if mutant.reference.calls else "no call"
        return f"{way}, and the answer {str(mutant.after)[:200]!r}"
    if mutant.kind == "call_added":
        where = "before the reference" if step == 1 else "after the reference"
        return f"{mutant.tool} called {where} with {after}, which changes {mutant.place}"
    if mutant.kind == "call_removed" and mutant.place:
        return f"calls {mutant.place} removed"
    if mutant.kind == "call_removed":
        return f"call {step} ({mutant.tool}) removed"
    return f"call {step} ({mutant.tool}) with {mutant.place} {after} instead of {before}"


def format_calls(calls: Sequence[ReferenceCall]) -> str:
    """Return calls in words, the last ones if they are many: `pay(amount=5), then close()`."""
    spelled_calls = [
        f"{call.tool}({', '.join(f'{name}={_shorten_value(value)}' for name, value in call.arguments.items())})"
        for call in calls[-MOST_CALLS:]
    ]
    return ("… then " if len(calls) > MOST_CALLS else "") + ", then ".join(spelled_calls or ["no call"])


def _shorten_value(value: Any) -> str:
    return repr(value[:60]) if isinstance(value, str) else repr(value)[:60]


def format_differing_values(one: Any, other: Any) -> tuple[str, str]:
    """Return both values as they are written in code, each whole, or around their difference."""
    return cut_around_difference(repr(one), repr(other), SIDE_CHARS)


def cut_around_difference(one: str, other: str, most: int) -> tuple[str, str]:
    """Return two texts, each cut to about `most` characters in which they begin to differ."""
    if max(len(one), len(other)) <= most:
        return one, other
    pairs = enumerate(zip(one, other, strict=False))
    same = next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
    start = max(0, same - most // 4) if same > most // 2 else 0
    return _cut_part(one, start, most), _cut_part(other, start, most)


def _cut_part(text: str, start: int, most: int) -> str:
    shown = text[start : start + most]
    return f"{'…' * (start > 0)}{shown}{'…' * (start + most < len(text))}"
