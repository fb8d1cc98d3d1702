"""The parting of aligned attempts: the first call or state that differs between them, and a sentence about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from webapp.trajectories.side_by_side.alignment import AlignedRow, ComparedStep, Likeness

Tell = Callable[[int, ComparedStep], str]
"""Text of a step of the attempt at a place: its call or words, or its result."""


@dataclass(frozen=True)
class Parting:
    """The point at which attempts part. `steps` are those of the row, else the next of the attempt; None if it ends."""

    row: int
    likeness: Likeness
    steps: tuple[ComparedStep | None, ...]


@dataclass(frozen=True)
class Phrase:
    """A piece of the sentence; if it quotes a step, `step` is that of the attempt at `place`."""

    text: str
    place: int | None = None
    step: int | None = None


def find_parting(rows: Sequence[AlignedRow]) -> Parting | None:
    """Return the first row with a call that another attempt does not make, or makes with other arguments or another
    outcome.

    Differences in messages alone do not part the attempts.
    """
    for number, row in enumerate(rows):
        if row.calls and row.likeness != Likeness.SAME:
            steps = (step or _find_next_step(rows, number, place) for place, step in enumerate(row.steps))
            return Parting(number, row.likeness, tuple(steps))
    return None


def _find_next_step(rows: Sequence[AlignedRow], number: int, place: int) -> ComparedStep | None:
    return next((step for row in rows[number:] if (step := row.steps[place]) is not None), None)


def find_first_difference(rows: Sequence[AlignedRow]) -> ComparedStep | None:
    """Return the first step with a message that differs, or that not all attempts have."""
    return next((row.there[0] for row in rows if row.likeness != Likeness.SAME), None)


def build_sentence(rows: Sequence[AlignedRow], names: Sequence[int], said: Tell, gave: Tell) -> list[Phrase]:
    """Return the sentence: "They part at step 4: attempt 15 calls … where attempt 12 calls …."; `names` are their
    numbers."""
    parting_found = find_parting(rows)
    if parting_found is None:
        return [Phrase(_describe_equal(rows))]
    groups = list(_group_attempts(parting_found, rows[parting_found.row]))
    phrases = [Phrase(f"They part at {_format_place(parting_found, names)}: ")]
    if parting_found.likeness in (Likeness.RESULT, Likeness.STATE):
        shared = rows[parting_found.row].there[0]
        phrases += [Phrase("all call "), Phrase(said(0, shared), 0, shared.index)]
    if parting_found.likeness == Likeness.STATE:
        return [*phrases, Phrase(" with the same result, and the state changes otherwise.")]
    for number, (places, step) in enumerate(groups):
        phrases.append(Phrase(_get_joint(parting_found.likeness, number) + _format_attempt_names(places, names)))
        phrases += _describe_act(places, step, parting_found.likeness, said, gave)
    return [*phrases, Phrase(".")]


def _describe_equal(rows: Sequence[AlignedRow]) -> str:
    words = find_first_difference(rows)
    if words is None:
        return "They do the same at every step."
    return f"Their calls, results and states are the same; only words differ, first at step {words.index}."


def _format_place(found: Parting, names: Sequence[int]) -> str:
    there = [(names[place], step.index) for place, step in enumerate(found.steps) if step]
    if len({index for _, index in there}) == 1:
        return f"step {there[0][1]}"
    return ", ".join(f"step {index} of attempt {name}" for name, index in there)


def _group_attempts(found: Parting, row: AlignedRow) -> Iterator[tuple[list[int], ComparedStep | None]]:
    """Yield the attempts that do the same there; if only some make a call, those first."""
    groups: dict[object, list[int]] = {}
    absent = [step is None for step in row.steps]
    for place in sorted(range(len(found.steps)), key=lambda place: absent[place]):
        step = found.steps[place]
        outcome = step.result if step and found.likeness == Likeness.RESULT else ""
        groups.setdefault((step.exact, outcome) if step else None, []).append(place)
    for places in groups.values():
        yield places, found.steps[places[0]]


def _get_joint(likeness: Likeness, number: int) -> str:
    if not number:
        return ", and " if likeness == Likeness.RESULT else ""
    return ", " if number > 1 or likeness == Likeness.RESULT else " where "


def _format_attempt_names(places: Sequence[int], names: Sequence[int]) -> str:
    numbers = [str(names[place]) for place in places]
    if len(numbers) == 1:
        return f"attempt {numbers[0]} "
    return f"attempts {', '.join(numbers[:-1])} and {numbers[-1]} "


def _describe_act(
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
