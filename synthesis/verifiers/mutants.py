"""Mutants of a reference: each is wrong in one place, so a verifier that gives it the full reward is too weak.

Here stands what a mutant is, and what an argument may be altered to: another plausible value, a text that says
something else or unsays itself, a malformed one. `probes/call_mutants.py` tries which of them a tool accepts. The same
reference and state always give the same mutants. Those of the answer are made by `answer_variants.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from synthesis.contracts import Frozen, Program, Reference, ReferenceCall, State
from synthesis.verifiers.plausible_arguments import allowed_values, day_before, next_day

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
"""Of a sequence so many calls are told, the last ones."""
SIDE_CHARS = 600
"""Of a value that a fault names; of a longer one, what stands around the difference."""
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
    changed, whose arguments are `after`; of an `end_reached` and a `detour_made` where its calls differ; of several
    calls that are left out their numbers; else empty.
    `expects` is what it must earn: less than the full reward, or the full one like the reference itself.
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
    """One argument of a call and what may stand in its place: in each group one is as good as another."""

    path: Path
    value: Any
    groups: tuple[tuple[Any, ...], ...]

    @property
    def place(self) -> str:
        """The path as people write it: `items[0].count`."""
        text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path)
        return text.lstrip(".")


def alterations(program: Program, initial: State, reference: Reference, step: int) -> list[Alteration]:
    """What could be altered of one call, always the same."""
    pool, call = _Pool(initial, reference), reference.calls[step]
    schema = next((tool.parameters for tool in program.tools if tool.name == call.tool), {})
    leaves = list(_leaves(call.arguments, schema))[:MAX_LEAVES]
    return [Alteration(path, value, _others(path, value, rule, pool)) for path, value, rule in leaves]


def altered_call(reference: Reference, step: int, alteration: Alteration, other: Any) -> Mutant:
    """The reference with one argument altered."""
    call = reference.calls[step]
    changed = ReferenceCall(tool=call.tool, arguments=replaced(call.arguments, alteration.path, other))
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


def without_call(reference: Reference, step: int) -> Mutant:
    """The reference with one call left out."""
    call = reference.calls[step]
    calls = reference.calls[:step] + reference.calls[step + 1 :]
    return Mutant(
        kind="call_removed",
        step=step,
        tool=call.tool,
        before=call.arguments,
        reference=reference.model_copy(update={"calls": calls}),
    )


def without_calls(reference: Reference, changing: Sequence[int]) -> list[Mutant]:
    """The reference without several calls that belong together: all of a tool, or all that name the same thing. Done in
    part, a task may show what no single call left out shows."""
    groups: dict[tuple[int, ...], str] = {}
    for name in dict.fromkeys(name for step in changing for name in _subjects(reference.calls[step])):
        steps = tuple(step for step in changing if name in _subjects(reference.calls[step]))
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


def _subjects(call: ReferenceCall) -> list[str]:
    """What a call is about: its tool, and the texts that it is given."""
    return [call.tool, *(value for value in call.arguments.values() if isinstance(value, str))]


Leaf = tuple[Path, Any, dict[str, Any]]


def _leaves(value: Any, schema: Any, path: Path = ()) -> Iterator[Leaf]:
    """Every scalar, and every list that is not empty as a whole, with its place and what the schema says of it."""
    rule = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        inner = rule.get("properties", {})
        for key, item in value.items():
            yield from _leaves(item, inner.get(key, rule.get("additionalProperties", {})), (*path, key))
    elif isinstance(value, list):
        if value:
            yield path, value, rule
        for index, item in enumerate(value):
            yield from _leaves(item, rule.get("items", {}), (*path, index))
    elif path:
        yield path, value, rule


def _others(path: Path, value: Any, rule: dict[str, Any], pool: _Pool) -> tuple[tuple[Any, ...], ...]:
    if isinstance(value, list):
        return ((value[:-1],),)
    if isinstance(value, bool):
        return ((not value,),)
    if isinstance(value, int | float):
        return ((value + 1, value + 2), (value - 1, value // 2 if isinstance(value, int) else value / 2))
    if value is None:
        return (("x",),)
    choices = [other for other in allowed_values(rule) if other != value]
    near = tuple(choices[:MOST_NEAR] or pool.near(path, value))
    strange = (OTHER_TEXT, f"{value} {CONTRARY}") if value.count(" ") > 1 else (value + "x",)
    return (near, *((text,) for text in strange))


def replaced(value: Any, path: Path, other: Any) -> Any:
    """The value with something else at a path in it."""
    if not path:
        return other
    if isinstance(value, dict):
        return {key: replaced(item, path[1:], other) if key == path[0] else item for key, item in value.items()}
    return [replaced(item, path[1:], other) if index == path[0] else item for index, item in enumerate(value)]


def _shape(text: str) -> str:
    """`A-101` and `A-7` look alike: runs of digits and of letters count as one."""
    return re.sub(r"[A-Za-z]{3,}", "w", re.sub(r"\d+", "9", text))


class _Pool:
    """Strings met in the initial state and in the reference, by shape: what a careless agent would mix up."""

    def __init__(self, initial: State, reference: Reference) -> None:
        self.by_shape: dict[str, list[str]] = {}
        self.by_place: dict[str, list[str]] = {}
        for call in reference.calls:
            for path, value, _rule in _leaves(call.arguments, {}):
                if isinstance(value, str):
                    self.by_place.setdefault(_name(path), []).append(value)
        for count, text in enumerate(_strings(initial)):
            if count >= MAX_POOL:
                break
            self.by_shape.setdefault(_shape(text), []).append(text)

    def near(self, path: Path, value: str) -> list[str]:
        """Other values of its kind: a day later or earlier, of the same shape in the state, the same argument
        elsewhere."""
        if _DATE.fullmatch(value):
            return [day for day in (next_day(value), day_before(value)) if day]
        same = [text for text in dict.fromkeys(self.by_shape.get(_shape(value), ())) if text != value]
        elsewhere = [text for text in dict.fromkeys(self.by_place.get(_name(path), ())) if text != value]
        if same and any(character.isdigit() for character in value):
            first = sum(map(ord, value)) % len(same)
            same = same[first:] + same[:first]
            return list(dict.fromkeys([*elsewhere[:1], *same]))[:MOST_NEAR]
        return list(dict.fromkeys([*elsewhere, *same]))[:MOST_NEAR]


def _name(path: Path) -> str:
    return next((part for part in reversed(path) if isinstance(part, str)), "")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, str) and len(value) <= 200:
        yield value


def describe(mutant: Mutant) -> str:
    """A mutant in words: `call 3 (pay) with amount 6 instead of 5`."""
    after, before = told_apart(mutant.after, mutant.before)
    if mutant.kind in ("end_reached", "detour_made"):
        return f"calls {mutant.place}: {mutant.after}"
    after, before = told_apart(mutant.after, mutant.before)
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


def call_words(calls: Sequence[ReferenceCall]) -> str:
    """Calls in words, the last ones if they are many: `pay(amount=5), then close()`."""
    told = [
        f"{call.tool}({', '.join(f'{name}={str(value)[:60]!r}' for name, value in call.arguments.items())})"
        for call in calls[-MOST_CALLS:]
    ]
    return ("… then " if len(calls) > MOST_CALLS else "") + ", then ".join(told or ["no call"])


def told_apart(one: Any, other: Any) -> tuple[str, str]:
    """Both values as they are written in code, each whole, or around where they differ."""
    return around_difference(repr(one), repr(other), SIDE_CHARS)


def around_difference(one: str, other: str, most: int) -> tuple[str, str]:
    """Two texts, each in about `most` characters, cut so that what is left of them begins to differ in it."""
    if max(len(one), len(other)) <= most:
        return one, other
    pairs = enumerate(zip(one, other, strict=False))
    same = next((at for at, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))
    start = max(0, same - most // 4) if same > most // 2 else 0
    return _part(one, start, most), _part(other, start, most)


def _part(text: str, start: int, most: int) -> str:
    shown = text[start : start + most]
    return f"{'…' * (start > 0)}{shown}{'…' * (start + most < len(text))}"
