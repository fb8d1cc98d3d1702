"""Faults of verifiers: each puts one fault of a kind that authors make into the verifier of a sound task.

A fault counts only if an executed way shows it: a wrong one that earns the full reward, or a right one that does not
(`executed_ways.py`). The drawn tasks and faults depend only on a seed, never on the result of an audit.
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
from synthesis.seeded_faults.run_faults import add_sleeper, depend_on_run
from synthesis.seeded_faults.sound_tasks import JudgedTask, build_subject
from synthesis.tasks.minimal_reference import find_unneeded_acts
from synthesis.verifiers.check_reads import find_check_reads
from synthesis.verifiers.checks import derive_mark
from synthesis.verifiers.frame import widen_frame
from synthesis.verifiers.reference_frame import build_reference_frame

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
    """Task with a seeded fault, and the way that shows it."""

    kind: VerifierFaultKind
    about: str
    task: JudgedTask
    shown: ShownFault


def draw_faults(
    sandbox: Sandbox, tasks: Sequence[JudgedTask], count: int, seed: int = 0, at_once: int = 1
) -> list[VerifierFault]:
    """Return `count` faults, the kinds in turn, drawn by lot from tasks; deterministic by seed.

    Fewer if no more are found. Raise SandboxUnavailable and SandboxLost.
    """
    task_ways = [TaskWays(sandbox, task, seed) for task in random.Random(seed).sample(tasks, len(tasks))]
    with ThreadPoolExecutor(at_once) as threads:
        faults_by_kind = list(threads.map(lambda kind: list(_draw_kind(sandbox, task_ways, kind, count, seed)), KINDS))
    turns = zip_longest(*faults_by_kind)
    return [fault for turn in turns for fault in turn if fault is not None][:count]


def _draw_kind(
    sandbox: Sandbox, known: Sequence[TaskWays], kind: VerifierFaultKind, count: int, seed: int
) -> Iterator[VerifierFault]:
    """Yield the faults of one kind that a way shows: one of each task, in turns, until there are enough of all
    kinds."""
    luck = random.Random(f"{seed} {kind}")
    waiting: list[list[Seeded] | None] = [None] * len(known)
    most, found_count = -(-count // len(KINDS)) + SPARE, 0
    for _ in range(TURNS):
        for place, task_ways in enumerate(known):
            if found_count == most:
                return
            if (seeded := waiting[place]) is None:
                waiting[place] = seeded = list(_SEEDERS[kind](sandbox, task_ways, luck))
                luck.shuffle(seeded)
            for _ in range(min(TRIED_A_TASK, len(seeded))):
                about, task, shown_by = seeded.pop(0)
                if (shown_fault := task_ways.find_difference(task, shown_by)) is not None:
                    found_count += 1
                    yield VerifierFault(kind, about, task, shown_fault)
                    break


def _list_goals(ways: TaskWays) -> list[int]:
    """Return the own checks that are false at the start."""
    verdicts = ways.start_verdicts()
    return [at for at in range(len(ways.task.checks)) if derive_mark(verdicts[at]) == "goal"]


def _replace_source(task: JudgedTask, at: int, source: str) -> JudgedTask:
    changed = task.checks[at].model_copy(update={"source": source})
    return replace(task, checks=(*task.checks[:at], changed, *task.checks[at + 1 :]))


def _forget_condition(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    """Yield the task without one condition; reference and frame stay."""
    task = ways.task
    for at in range(len(task.checks)) if len(task.checks) > 1 else ():
        less = replace(task, checks=(*task.checks[:at], *task.checks[at + 1 :]))
        yield f"forgotten: {task.checks[at].label}", less, ()


def _reverse_reward(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    """Yield the task without one condition, with a reference that does only what the others ask, and its frame."""
    task, goals = ways.task, _list_goals(ways)
    for at in luck.sample(goals, min(REVERSED_A_TASK, len(goals))):
        less = replace(task, checks=(*task.checks[:at], *task.checks[at + 1 :]))
        if not less.every_check:
            continue
        try:
            unframed = build_subject(less, framed=False)
            unneeded = find_unneeded_acts(sandbox, unframed, ways.start.state, task.reference)
            if not unneeded:
                continue
            calls = tuple(call for step, call in enumerate(task.reference.calls) if step not in unneeded)
            less = replace(less, reference=task.reference.model_copy(update={"calls": calls}), frame=None)
            frame = widen_frame(build_reference_frame(sandbox, build_subject(less)), task.free)
        except InputError:
            continue
        yield f"forgotten, and not done: {task.checks[at].label}", replace(less, frame=frame), ()


def _make_rewrite_seeder(rewrite: Callable[[str], Iterator[check_rewrites.Rewrite]], *, goals: bool) -> _Seeder:
    def seed_rewrites(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
        task = ways.task
        for at in _list_goals(ways) if goals else range(len(task.checks)):
            for about, source in rewrite(task.checks[at].source):
                yield f"{task.checks[at].label}: {about}", _replace_source(task, at, source), ()

    return seed_rewrites


def _make_true_at_start(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    task = ways.task
    for at in _list_goals(ways):
        places = find_check_reads(task.checks[at].source).places or ()
        names = list(dict.fromkeys(place[0] for place in places))
        for about, source in check_rewrites.make_true_at_start(task.checks[at].source, names):
            yield f"{task.checks[at].label}: {about}", _replace_source(task, at, source), ()


def _aim_elsewhere(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    """Yield the opposite, or another record than the one that is meant."""
    collections = [value for value in ways.start.state.values() if isinstance(value, dict)]

    def list_neighbours(key: str) -> list[str]:
        others = [other for records in collections if key in records for other in records if other != key]
        luck.shuffle(others)
        return others

    task = ways.task
    for at in range(len(task.checks)):
        rewrites = [*check_rewrites.negate_check(task.checks[at].source)]
        rewrites += check_rewrites.aim_elsewhere(task.checks[at].source, list_neighbours)
        for about, source in rewrites:
            yield f"{task.checks[at].label}: {about}", _replace_source(task, at, source), ()


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


def _add_sleepers(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    task = ways.task
    for at in _list_goals(ways):
        for about, source in add_sleeper(task.checks[at].source):
            yield f"{task.checks[at].label}: {about}", _replace_source(task, at, source), ()


def _narrow_verifier(sandbox: Sandbox, ways: TaskWays, luck: random.Random) -> Iterator[Seeded]:
    task = ways.task
    for at in range(len(task.checks)):
        for about, source in check_rewrites.narrow_check(task.checks[at].source):
            yield f"{task.checks[at].label}: {about}", _replace_source(task, at, source), ()
    yield from ((about, narrower, ()) for about, narrower in narrow_answer(task))
    yield from narrow_frame(task, ways.start.state, ways.own.state)


_SEEDERS: dict[VerifierFaultKind, _Seeder] = {
    "forgotten_condition": _forget_condition,
    "reversed_reward": _reverse_reward,
    "weakened_comparison": _make_rewrite_seeder(check_rewrites.weaken_check, goals=False),
    "opened_frame": _open_frame,
    "unjudged_answer": _loosen_answer,
    "words_in_state": _accept_words,
    "sleeper": _add_sleepers,
    "negated_or_elsewhere": _aim_elsewhere,
    "never_fails": _make_rewrite_seeder(check_rewrites.make_never_failing, goals=False),
    "true_at_start": _make_true_at_start,
    "depends_on_run": _depend_on_run,
    "too_narrow": _narrow_verifier,
}
__all__ = ["KINDS", "VerifierFault", "VerifierFaultKind", "draw_faults"]
