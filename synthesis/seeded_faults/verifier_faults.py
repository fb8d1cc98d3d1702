"""Faults of verifiers: each puts one fault of a kind that authors make into the verifier of a sound task.

A fault counts as one only if an executed way shows it: a wrong one that is paid in full, or a right one that is not
(`executed_ways.py`). Which tasks and faults are drawn depends on a seed alone, never on what an audit says.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Literal, get_args

from synthesis.contracts import Reference
from synthesis.errors import InputError
from synthesis.runtime import Sandbox
from synthesis.seeded_faults import check_rewrites
from synthesis.seeded_faults.answer_faults import loosen_answer, narrow_answer
from synthesis.seeded_faults.executed_ways import ShownFault, TaskWays
from synthesis.seeded_faults.frame_faults import accept_words, narrow_frame, open_frame
from synthesis.seeded_faults.run_faults import depend_on_run, sleep
from synthesis.seeded_faults.sound_tasks import JudgedTask, subject_of
from synthesis.tasks.minimal_reference import unneeded_acts
from synthesis.verifiers.check_reads import check_reads
from synthesis.verifiers.checks import mark_of
from synthesis.verifiers.frame import widen
from synthesis.verifiers.reference_frame import reference_frame

VerifierFaultKind = Literal[
    "forgotten_condition",
    "reversed_reward",
    "weakened_comparison",
    "opened_frame",
    "unjudged_answer",
    "words_in_state",
    "sleeper",
    "negated_or_elsewhere",
    "never_fails",
    "true_at_start",
    "depends_on_run",
    "too_narrow",
]
KINDS: tuple[VerifierFaultKind, ...] = get_args(VerifierFaultKind)
TRIED_A_TASK, TURNS = 5, 2
"""So many faults of a kind are tried on one task until a way shows one, so often."""
REVERSED_A_TASK = 2
"""So many conditions are forgotten of one task, with what the reference does for them."""
SPARE = 4
"""So many faults more are found of each kind, for those of which there are too few."""
Seeded = tuple[str, JudgedTask, "tuple[tuple[str, Reference], ...]"]
"""What the fault is, the task with it, and ways that should show it."""
_Seeder = Callable[[Sandbox, TaskWays, random.Random], Iterator[Seeded]]


@dataclass(frozen=True)
class VerifierFault:
    """A task with a seeded fault, and the way that shows it."""

    kind: VerifierFaultKind
    about: str
    task: JudgedTask
    shown: ShownFault


def draw_faults(
    sandbox: Sandbox, tasks: Sequence[JudgedTask], count: int, seed: int = 0, at_once: int = 1
) -> list[VerifierFault]:
    """So many faults, the kinds in turn, drawn by lot from tasks; the same for the same seed. Fewer if no more are
    found. Raises SandboxUnavailable and SandboxLost."""
    known = [TaskWays(sandbox, task, seed) for task in random.Random(seed).sample(tasks, len(tasks))]
    with ThreadPoolExecutor(at_once) as threads:
        drawn = list(threads.map(lambda kind: list(_draw(sandbox, known, kind, count, seed)), KINDS))
    turns = zip_longest(*drawn)
    return [fault for turn in turns for fault in turn if fault is not None][:count]


def _draw(
    sandbox: Sandbox, known: Sequence[TaskWays], kind: VerifierFaultKind, count: int, seed: int
) -> Iterator[VerifierFault]:
    """The faults of one kind that a way shows: one of each task, in turns, until there are enough of all kinds."""
    luck = random.Random(f"{seed} {kind}")
    waiting: list[list[Seeded] | None] = [None] * len(known)
    most, found = -(-count // len(KINDS)) + SPARE, 0
    for _ in range(TURNS):
        for place, ways in enumerate(known):
            if found == most:
                return
            if (seeded := waiting[place]) is None:
                waiting[place] = seeded = list(_SEEDERS[kind](sandbox, ways, luck))
                luck.shuffle(seeded)
            for _ in range(min(TRIED_A_TASK, len(seeded))):
                about, task, more = seeded.pop(0)
                if (shown := ways.find_difference(task, more)) is not None:
                    found += 1
                    yield VerifierFault(kind, about, task, shown)
                    break


def _goals(ways: TaskWays) -> list[int]:
    """The own checks that are false at the start."""
    verdicts = ways.start_verdicts()
    return [at for at in range(len(ways.task.checks)) if mark_of(verdicts[at]) == "goal"]


def _with_source(task: JudgedTask, at: int, source: str) -> JudgedTask:
    changed = task.checks[at].model_copy(update={"source": source})
    return replace(task, checks=(*task.checks[:at], changed, *task.checks[at + 1 :]))


def _forget(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    """Without one condition; reference and frame stay."""
    task = ways.task
    for at in range(len(task.checks)) if len(task.checks) > 1 else ():
        less = replace(task, checks=(*task.checks[:at], *task.checks[at + 1 :]))
        yield f"forgotten: {task.checks[at].label}", less, ()


def _reverse(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    """Without one condition, with a reference that does no more than the others ask, and its frame."""
    task, goals = ways.task, _goals(ways)
    for at in luck.sample(goals, min(REVERSED_A_TASK, len(goals))):
        less = replace(task, checks=(*task.checks[:at], *task.checks[at + 1 :]))
        if not less.every_check:
            continue
        try:
            unframed = subject_of(less, framed=False)
            unneeded = unneeded_acts(sandbox, unframed, ways.start.state, task.reference)
            if not unneeded:
                continue
            calls = tuple(call for step, call in enumerate(task.reference.calls) if step not in unneeded)
            less = replace(less, reference=task.reference.model_copy(update={"calls": calls}), frame=None)
            frame = widen(reference_frame(sandbox, subject_of(less)), task.free)
        except InputError:
            continue
        yield f"forgotten, and not done: {task.checks[at].label}", replace(less, frame=frame), ()


def _rewrite(rewrite: Callable[[str], Iterator[check_rewrites.Rewrite]], *, goals: bool) -> _Seeder:
    def seed(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
        task = ways.task
        for at in _goals(ways) if goals else range(len(task.checks)):
            for about, source in rewrite(task.checks[at].source):
                yield f"{task.checks[at].label}: {about}", _with_source(task, at, source), ()

    return seed


def _hold_at_start(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    task = ways.task
    for at in _goals(ways):
        places = check_reads(task.checks[at].source).places or ()
        names = list(dict.fromkeys(place[0] for place in places))
        for about, source in check_rewrites.hold_at_start(task.checks[at].source, names):
            yield f"{task.checks[at].label}: {about}", _with_source(task, at, source), ()


def _aim_elsewhere(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    """The opposite, or another record than the one that is meant."""
    collections = [value for value in ways.start.state.values() if isinstance(value, dict)]

    def neighbours(key: str) -> list[str]:
        others = [other for records in collections if key in records for other in records if other != key]
        luck.shuffle(others)
        return others

    task = ways.task
    for at in range(len(task.checks)):
        rewrites = [*check_rewrites.negate(task.checks[at].source)]
        rewrites += check_rewrites.aim_elsewhere(task.checks[at].source, neighbours)
        for about, source in rewrites:
            yield f"{task.checks[at].label}: {about}", _with_source(task, at, source), ()


def _open_frame(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    assert ways.task.frame is not None
    for about, frame in open_frame(ways.task.frame, ways.start.state):
        yield about, replace(ways.task, frame=frame), ()


def _loosen_answer(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    for about, task in loosen_answer(ways.task):
        yield about, task, ()


def _accept_words(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    yield from accept_words(ways.task)


def _depend_on_run(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    for about, check in depend_on_run(ways.start.state, ways.own.state):
        yield about, replace(ways.task, checks=(*ways.task.checks, check)), ()


def _sleep(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    task = ways.task
    for at in _goals(ways):
        for about, source in sleep(task.checks[at].source):
            yield f"{task.checks[at].label}: {about}", _with_source(task, at, source), ()


def _narrow(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    task = ways.task
    for at in range(len(task.checks)):
        for about, source in check_rewrites.narrow(task.checks[at].source):
            yield f"{task.checks[at].label}: {about}", _with_source(task, at, source), ()
    yield from ((about, narrower, ()) for about, narrower in narrow_answer(task))
    yield from narrow_frame(task, ways.start.state, ways.own.state)


_SEEDERS: dict[VerifierFaultKind, _Seeder] = {
    "forgotten_condition": _forget,
    "reversed_reward": _reverse,
    "weakened_comparison": _rewrite(check_rewrites.weaken, goals=False),
    "opened_frame": _open_frame,
    "unjudged_answer": _loosen_answer,
    "words_in_state": _accept_words,
    "sleeper": _sleep,
    "negated_or_elsewhere": _aim_elsewhere,
    "never_fails": _rewrite(check_rewrites.never_fail, goals=False),
    "true_at_start": _hold_at_start,
    "depends_on_run": _depend_on_run,
    "too_narrow": _narrow,
}
__all__ = ["KINDS", "VerifierFault", "VerifierFaultKind", "draw_faults"]
