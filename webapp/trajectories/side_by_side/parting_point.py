"""The parting of aligned attempts: the first call or state that is not the same in all, and a sentence that says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from webapp.trajectories.side_by_side.alignment import AlignedRow, ComparedStep, Likeness

Tell = Callable[[int, ComparedStep], str]
"""Text of a step of the attempt at a place: its call or words, or its result."""


@dataclass(frozen=True)
class Parting:
    """Where attempts part. `steps` are those of the row, else the next of the attempt; None where it ends."""

    row: int
    likeness: Likeness
    steps: tuple[ComparedStep | None, ...]


@dataclass(frozen=True)
class Phrase:
    """A piece of the sentence; `step` is of the attempt at `place` where the phrase quotes one."""

    text: str
    place: int | None = None
    step: int | None = None


def parting(rows: Sequence[AlignedRow]) -> Parting | None:
    """The first row with a call that another attempt does not make, makes otherwise, or to which something else came.

    What is only said in other words, or said by one of them alone, does not part them.
    """
    for number, row in enumerate(rows):
        if row.calls and row.likeness != Likeness.SAME:
            steps = (step or _next(rows, number, place) for place, step in enumerate(row.steps))
            return Parting(number, row.likeness, tuple(steps))
    return None


def _next(rows: Sequence[AlignedRow], number: int, place: int) -> ComparedStep | None:
    return next((step for row in rows[number:] if (step := row.steps[place]) is not None), None)


def first_words(rows: Sequence[AlignedRow]) -> ComparedStep | None:
    """The first step that is said otherwise, or not by all."""
    return next((row.there[0] for row in rows if row.likeness != Likeness.SAME), None)


def told(rows: Sequence[AlignedRow], names: Sequence[int], said: Tell, gave: Tell) -> list[Phrase]:
    """The sentence: "They part at step 4: attempt 15 calls … where attempt 12 calls …."; `names` are their numbers."""
    found = parting(rows)
    if found is None:
        return [Phrase(_undivided(rows))]
    groups = list(_groups(found, rows[found.row]))
    phrases = [Phrase(f"They part at {_where(found, names)}: ")]
    if found.likeness in (Likeness.RESULT, Likeness.STATE):
        shared = rows[found.row].there[0]
        phrases += [Phrase("all call "), Phrase(said(0, shared), 0, shared.index)]
    if found.likeness == Likeness.STATE:
        return [*phrases, Phrase(" with the same result, and the state changes otherwise.")]
    for number, (places, step) in enumerate(groups):
        phrases.append(Phrase(_joint(found.likeness, number) + _named(places, names)))
        phrases += _act(places, step, found.likeness, said, gave)
    return [*phrases, Phrase(".")]


def _undivided(rows: Sequence[AlignedRow]) -> str:
    words = first_words(rows)
    if words is None:
        return "They do the same at every step."
    return f"Their calls, results and states are the same; only words differ, first at step {words.index}."


def _where(found: Parting, names: Sequence[int]) -> str:
    there = [(names[place], step.index) for place, step in enumerate(found.steps) if step]
    if len({index for _, index in there}) == 1:
        return f"step {there[0][1]}"
    return ", ".join(f"step {index} of attempt {name}" for name, index in there)


def _groups(found: Parting, row: AlignedRow) -> Iterator[tuple[list[int], ComparedStep | None]]:
    """The attempts that do the same there; where some make a call that others do not, those first."""
    groups: dict[object, list[int]] = {}
    absent = [step is None for step in row.steps]
    for place in sorted(range(len(found.steps)), key=lambda place: absent[place]):
        step = found.steps[place]
        came = step.result if step and found.likeness == Likeness.RESULT else ""
        groups.setdefault((step.exact, came) if step else None, []).append(place)
    for places in groups.values():
        yield places, found.steps[places[0]]


def _joint(likeness: Likeness, number: int) -> str:
    if not number:
        return ", and " if likeness == Likeness.RESULT else ""
    return ", " if number > 1 or likeness == Likeness.RESULT else " where "


def _named(places: Sequence[int], names: Sequence[int]) -> str:
    numbers = [str(names[place]) for place in places]
    if len(numbers) == 1:
        return f"attempt {numbers[0]} "
    return f"attempts {', '.join(numbers[:-1])} and {numbers[-1]} "


def _act(
    places: Sequence[int], step: ComparedStep | None, likeness: Likeness, said: Tell, gave: Tell
) -> Iterator[Phrase]:
    many = len(places) > 1
    if step is None:
        yield Phrase("have ended" if many else "has ended")
    elif likeness == Likeness.RESULT:
        yield Phrase("get " if many else "gets ")
        yield Phrase(gave(places[0], step), places[0], step.index)
    else:
        verb = "call" if step.tool else "say" if step.kind == "message" else "hear"
        yield Phrase(f"{verb} " if many else f"{verb}s ")
        yield Phrase(said(places[0], step), places[0], step.index)
