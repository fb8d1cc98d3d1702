"""Measure of the audit: the shares of verifiers with a seeded fault that are green, and of sound ones that are red."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from synthesis.contracts import Frozen
from synthesis.runtime import Sandbox
from synthesis.seeded_faults.sound_rewrites import REWRITES, rewrite_task
from synthesis.seeded_faults.sound_tasks import JudgedTask, audit_judged_task, iter_demo_tasks, iter_starter_tasks
from synthesis.seeded_faults.verifier_faults import KINDS, VerifierFault, draw_faults
from synthesis.verifiers.audit_report import NOTES, AuditState

FAULTY, SOUND = 120, 60
AS_THEY_ARE = 0.4
"""This part of the sound verifiers is left as it is."""
AT_ONCE = 4
MOST_WRONG = 0.02
"""An audit is worth its name if no larger part of either sort comes out wrong."""
MESSAGE_CHARS = 400
MOST_TOLD = 3


class AuditedVerifier(Frozen):
    """Verifier with its audit. `about` is its fault or its rewrite, `shown` the way that shows the fault, `why` the
    audit's faults, without notes.
    """

    kind: str
    task: str
    about: str
    shown: str = ""
    state: AuditState
    why: tuple[str, ...] = ()


class FaultCount(Frozen):
    """Counts of the `seeded` faults of a kind that were audited `red`, `green` or undecided."""

    seeded: int = 0
    red: int = 0
    green: int = 0
    undecided: int = 0


class AuditMeasure(Frozen):
    """Measure of the audit.

    `false_green` is the share of the faulty verifiers that are audited green, `false_red` that of the sound ones that
    are audited red; `wrong` are these. `by_origin` counts the faulty verifiers by the origin of their tasks.
    """

    faulty: int
    sound: int
    false_green: float
    false_red: float
    by_origin: dict[str, int]
    by_kind: dict[str, FaultCount]
    sound_by_kind: dict[str, FaultCount]
    paid_wrong_ways: int
    refused_right_ways: int
    drawn_in_seconds: float
    seconds: float
    wrong: tuple[AuditedVerifier, ...]


def list_bundled_tasks(sandbox: Sandbox) -> list[JudgedTask]:
    """Return the tasks of the starter set and of the bundled themes."""
    return [*iter_starter_tasks(), *iter_demo_tasks(sandbox)]


def measure_audit(
    sandbox: Sandbox,
    known: Sequence[JudgedTask],
    faulty: int = FAULTY,
    sound: int = SOUND,
    *,
    seed: int = 0,
    at_once: int = AT_ONCE,
    tell: Callable[[str], None] = lambda line: None,
) -> AuditMeasure:
    """Draw verifiers of known tasks with and without a fault, and audit them; deterministic by seed.

    Raise ProgramError and InfrastructureError.
    """
    began = time.monotonic()
    faults = draw_faults(sandbox, known, faulty, seed, at_once)
    right = draw_sound_verifiers(known, sound, seed)
    ready = time.monotonic()
    tell(f"{len(faults)} faulty and {len(right)} sound verifiers are drawn in {ready - began:.0f} seconds.")
    verifiers: list[tuple[str, str, JudgedTask, str]] = [
        (fault.kind, fault.about, fault.task, _describe_fault(fault)) for fault in faults
    ]
    verifiers += [(kind, kind, task, "") for kind, task in right]

    def audit_verifier(one: tuple[str, str, JudgedTask, str]) -> AuditedVerifier:
        kind, about, task, fault_text = one
        report = audit_judged_task(sandbox, task)
        serious = [
            f"{fault.kind}: {fault.message[:MESSAGE_CHARS]}" for fault in report.faults if fault.kind not in NOTES
        ]
        why = tuple(serious[:MOST_TOLD])
        tell(f"{report.state:10} {kind:22} {task.name}")
        return AuditedVerifier(kind=kind, task=task.name, about=about, shown=fault_text, state=report.state, why=why)

    with ThreadPoolExecutor(at_once) as threads:
        audited = list(threads.map(audit_verifier, verifiers))
    effects = [fault.shown.effect for fault in faults]
    return _build_measure(
        audited[: len(faults)],
        audited[len(faults) :],
        origins=Counter(fault.task.origin for fault in faults),
        paid=effects.count("paid"),
        refused=effects.count("refused"),
        drawn=ready - began,
        seconds=time.monotonic() - began,
    )


def draw_sound_verifiers(known: Sequence[JudgedTask], count: int, seed: int) -> list[tuple[str, JudgedTask]]:
    """Return `count` sound verifiers, each of another task while there are any.

    Some are unchanged, the others rewritten, the kinds in turn.
    """
    luck = random.Random(f"{seed} sound")
    drawn_tasks = luck.sample(known, min(count, len(known)))
    plain = round(len(drawn_tasks) * AS_THEY_ARE)
    sound_verifiers: list[tuple[str, JudgedTask]] = [("as_it_is", task) for task in drawn_tasks[:plain]]
    for place, task in enumerate(drawn_tasks[plain:]):
        kind = REWRITES[place % len(REWRITES)]
        sound_verifiers.append((kind, replace(rewrite_task(task, kind, luck), name=f"{task.name} {kind}")))
    return sound_verifiers


def _build_measure(
    faulty: Sequence[AuditedVerifier],
    sound: Sequence[AuditedVerifier],
    *,
    origins: Mapping[str, int],
    paid: int,
    refused: int,
    drawn: float,
    seconds: float,
) -> AuditMeasure:
    green = [one for one in faulty if one.state == "green"]
    red = [one for one in sound if one.state == "red"]
    return AuditMeasure(
        faulty=len(faulty),
        sound=len(sound),
        false_green=len(green) / len(faulty) if faulty else 0.0,
        false_red=len(red) / len(sound) if sound else 0.0,
        by_origin=dict(origins),
        by_kind={kind: _count_states(faulty, kind) for kind in KINDS},
        sound_by_kind={kind: _count_states(sound, kind) for kind in ("as_it_is", *REWRITES)},
        paid_wrong_ways=paid,
        refused_right_ways=refused,
        drawn_in_seconds=round(drawn, 1),
        seconds=round(seconds, 1),
        wrong=(*green, *red),
    )


def _count_states(audited: Sequence[AuditedVerifier], kind: str) -> FaultCount:
    states = [one.state for one in audited if one.kind == kind]
    red, green = states.count("red"), states.count("green")
    return FaultCount(seeded=len(states), red=red, green=green, undecided=len(states) - red - green)


def _describe_fault(fault: VerifierFault) -> str:
    way = fault.shown.way
    words = "A wrong way is paid in full" if fault.shown.effect == "paid" else "A right way is not paid in full"
    return f"{words}: {way.about}; answer {way.reference.answer[:200] or 'none'}"
