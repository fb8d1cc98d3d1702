"""The faults that follow from probes, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from synthesis.contracts import Frame, GoldenVerifier, Mark, OutsideChange, Verdict, Volatile
from synthesis.formats.spoken_facts import WEAK, is_fact_check
from synthesis.verifiers.audit_report import Fault, FaultKind, MutantProbe, ProbedState, is_full_reward
from synthesis.verifiers.frame import is_unpinned
from synthesis.verifiers.mutants import describe_mutant

MOST_NAMED = 10
Labels = Sequence[str]
Column = Sequence[Verdict]


def format_label(labels: Labels, index: int) -> str:
    text = labels[index] if index < len(labels) else ""
    return f"Check {index + 1} ({text[:200]})" if text else f"Check {index + 1}"


def start_faults(labels: Labels, nothing: ProbedState, marks: Sequence[Mark], verdicts: Column) -> list[Fault]:
    """Return the faults before any call."""
    faults = []
    if nothing.reward is None:
        faults.append(Fault(kind="no_goal", message=f"There is no reward to earn: {nothing.note}"))
    elif nothing.reward:
        faults.append(Fault(kind="noop_scores", message=f"Doing nothing earns {nothing.reward:.4g}; it must earn 0."))
    for index, (mark, verdict) in enumerate(zip(marks, verdicts, strict=True)):
        if mark == "broken":
            message = f"{format_label(labels, index)} raises on the initial state: {verdict.error}"
            faults.append(Fault(kind="check_raises", message=message, check=index))
    return faults


def goal_faults(golden: GoldenVerifier | None, at_start: Sequence[OutsideChange]) -> list[Fault]:
    """Return a fault if a golden state is the state at the start and no answer is required."""
    if golden is None or golden.checks or at_start:
        return []
    message = "The golden state is the state at the start, and no answer is asked for: doing nothing would solve it. "
    message += "Give the task an answer form, or another kind of verifier."
    return [Fault(kind="no_goal", message=message)]


def reference_faults(
    labels: Labels, reference: ProbedState, marks: Sequence[Mark], solved: Column, same: bool
) -> list[Fault]:
    """Return the faults of the reference's own end."""
    faults = []
    if not is_full_reward(reference.reward):
        failed = [format_label(labels, index) for index, verdict in enumerate(solved) if not verdict.passed]
        earned = "nothing" if reference.reward is None else f"{reference.reward:.4g}"
        message = f"The reference earns {earned} instead of 1. Checks that fail: {', '.join(failed) or 'none'}."
        faults.append(Fault(kind="reference_fails", message=f"{message} {reference.note}".strip()))
    for index, (mark, verdict) in enumerate(zip(marks, solved, strict=True)):
        if mark != "broken" and verdict.has_raised:
            message = f"{format_label(labels, index)} raises on the reference's end state: {verdict.error}"
            faults.append(Fault(kind="check_raises", message=message, check=index))
    if not same:
        message = "The same calls gave another end state the second time."
        faults.append(Fault(kind="nondeterministic", message=message))
    return faults


def elsewhere_faults(
    reference: ProbedState, clock: ProbedState, seed: ProbedState, golden: GoldenVerifier | None = None
) -> list[Fault]:
    """Return faults of rewards that depend on the moment or on the seed.

    They are only notes: episodes fix both. For a golden state that is compared by roles such a change is a real fault,
    which names the undeclared places.
    """
    faults = []
    if golden is not None and golden.equality == "roles" and is_full_reward(reference.reward):
        runs = {"at another moment": clock, "with another seed": seed}
        places = {name: [change.path for change in probe.outside] for name, probe in runs.items() if probe.outside}
        for name, paths in places.items():
            more = f" and {len(paths) - MOST_NAMED:,} more" if len(paths) > MOST_NAMED else ""
            message = f"Executed {name}, the reference leaves something else in {', '.join(paths[:MOST_NAMED])}{more}. "
            message += "Declare it volatile with its role, or make the golden state anew."
            faults.append(Fault(kind="volatile_undeclared", message=message))
        if places:
            return faults
    if clock.reward != reference.reward:
        message = f"Started at another moment, the reference earns {_format_earned(clock)}. {clock.note}".strip()
        faults.append(Fault(kind="depends_on_clock", message=message))
    if seed.reward != reference.reward:
        message = (
            f"With another seed (other random ids), the reference earns {_format_earned(seed)}. {seed.note}".strip()
        )
        faults.append(Fault(kind="depends_on_seed", message=message))
    return faults


def volatile_faults(golden: GoldenVerifier, found: Iterable[Volatile]) -> list[Fault]:
    """Return faults of volatile places without support.

    In such a place no run of the reference differs, or it is on what existed at the start, and no person approved it.
    """
    explained_places = {(item.path, item.role) for item in found}
    faults = []
    for item in golden.volatile:
        if not item.by and (item.path, item.role) not in explained_places:
            message = f"{item.path} is volatile ({item.role}), and nothing that the program does itself explains it. "
            message += "Whatever stands there is right. Take it out, or have a person say why in its name (`by`)."
            faults.append(Fault(kind="volatile_unapproved", message=message))
    return faults


def probe_faults(
    probes: Sequence[MutantProbe],
    wanted: int,
    kind: FaultKind = "mutant_passes",
    name: str = "mutants",
    *,
    solved: bool = True,
) -> list[Fault]:
    """Return faults of probes of one family that earn what they must not (`kind`), or whose episode was lost.

    `wanted` is the number of probes to try, `name` their name. A reference that is not `solved` is wrong or judged
    wrongly, which is reported separately: a change of it may be just what it lacks, so its reward proves nothing.
    """
    faults = []
    for probe in probes:
        if probe.equivalent:
            continue
        reward = probe.probe.reward
        if reward is None:
            message = f"Could not be judged: {describe_mutant(probe.mutant)}. {probe.probe.note}"
            faults.append(Fault(kind="mutant_lost", message=message))
        elif not solved:
            continue
        elif probe.mutant.expects == "less" and is_full_reward(reward):
            faults.append(Fault(kind=kind, message=f"Earns the full reward: {describe_mutant(probe.mutant)}."))
        elif probe.mutant.expects == "full" and not is_full_reward(reward):
            message = f"Earns {reward:.4g} where the reference earns 1: {describe_mutant(probe.mutant)}."
            less: FaultKind = "detour_fails" if probe.mutant.kind == "detour_made" else kind
            faults.append(Fault(kind=less, message=message))
    if len(probes) < wanted:
        message = f"{len(probes):,} of {wanted:,} {name} were tried, evenly spread over the reference."
        faults.append(Fault(kind="mutants_cut", message=message))
    return faults


def unaltered_faults(unaltered: Sequence[str]) -> list[Fault]:
    """Return a note of the arguments for which no tool accepts another value, so that they remain untested."""
    if not unaltered:
        return []
    more = f" and {len(unaltered) - MOST_NAMED:,} more" if len(unaltered) > MOST_NAMED else ""
    message = f"Could not be altered, because no other value was accepted: {'; '.join(unaltered[:MOST_NAMED])}{more}."
    return [Fault(kind="argument_unaltered", message=message)]


def frame_faults(frame: Frame | None) -> list[Fault]:
    """Return a note of a frame that names a place that may change, but no allowed values."""
    places = [item.path for item in frame.allowances if is_unpinned(item)] if frame is not None else []
    if not places:
        return []
    message = f"The frame does not say to what {len(places):,} places may change, such as {places[0][:200]}: any value "
    message += "is inside. “Pin values” beside the frame makes it anew."
    return [Fault(kind="values_unpinned", message=message)]


def check_faults(labels: Labels, columns: Sequence[Column]) -> list[Fault]:
    """Return faults of checks that never pass, never fail or raise late, and of pairs that never pass together.

    All of this is observed over the end states that were tried, not proved. The first two columns are the start and the
    reference's end, whose raising checks are reported elsewhere.
    """
    faults: list[Fault] = []
    rows = list(zip(*columns, strict=True))
    values = [{verdict.passed for verdict in row} for row in rows]
    seen = f"{len(columns)} end states tried"
    for index, row in enumerate(rows):
        name = format_label(labels, index)
        if values[index] == {False}:
            message = f"{name} passes in none of the {seen}."
            faults.append(Fault(kind="check_never_passes", message=message, check=index))
        elif values[index] == {True}:
            message = f"{name} fails in none of the {seen}."
            faults.append(Fault(kind="check_never_fails", message=message, check=index))
        late = [verdict.error for verdict in row[2:] if verdict.has_raised]
        if late and not any(verdict.has_raised for verdict in row[:2]):
            message = f"{name} raises on {len(late)} of the {seen}, where it counts as failed: {late[0]}"
            faults.append(Fault(kind="check_raises_later", message=message, check=index))
    for index in range(len(rows)):
        for other in range(index + 1, len(rows)):
            both = any(first.passed and second.passed for first, second in zip(rows[index], rows[other], strict=True))
            if not both and True in values[index] and True in values[other]:
                message = f"{format_label(labels, index)} and {format_label(labels, other)} each pass somewhere, but "
                message += f"in none of the {seen} together. This is observed, not proved."
                faults.append(Fault(kind="checks_contradict", message=message, check=index))
    return faults


def weak_faults(labels: Labels, sources: Sequence[str]) -> list[Fault]:
    """Return faults of checks that search for a text in the agent's answer, whatever the answer says about it."""
    return [
        Fault(
            kind="weak_check",
            message=f"{format_label(labels, index)} is weak: {WEAK}, so a denial passes it.",
            check=index,
        )
        for index, source in enumerate(sources)
        if is_fact_check(source)
    ]


def _format_earned(probe: ProbedState) -> str:
    return "no reward that could be told" if probe.reward is None else f"{probe.reward:.4g}"
