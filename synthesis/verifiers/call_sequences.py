"""Call sequences of an audited task, executed in episodes: the reference, and every variant of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import (
    DEFAULT_NOW,
    DEFAULT_SEED,
    AnswerField,
    Frame,
    Frozen,
    GoldenVerifier,
    OutsideChange,
    Program,
    Reference,
    ReferenceCall,
    ScoreRule,
    State,
    Validation,
    Verifier,
    Withheld,
)
from synthesis.errors import ProgramEnded
from synthesis.runtime import Episode, Sandbox, hash_state
from synthesis.runtime.encoding import share_unchanged
from synthesis.verifiers.frame import Key, build_end_key, find_outside_changes
from synthesis.verifiers.golden import STATE_LABEL, golden_differences
from synthesis.verifiers.mutants import Mutant
from synthesis.verifiers.rubric_evidence import spell_call
from synthesis.verifiers.state_changes import find_state_changes

AT_ONCE = 4
"""So many episodes are executed at the same time."""
OTHER_NOW = "2027-06-17T18:30:00+00:00"


class Subject(Frozen):
    """The task under audit, as the runtime and the verifier see it.

    `initial` is encoded, and `program` offers nothing that is `withheld`.
    """

    program: Program
    initial: State
    instruction: str = ""
    answer_form: tuple[AnswerField, ...] = ()
    verifier: Verifier
    reference: Reference | None = None
    withheld: Withheld | None = None
    validation: Validation = "schema"
    seed: int = DEFAULT_SEED
    now: str = DEFAULT_NOW

    @property
    def checks(self) -> tuple[str, ...]:
        """The sources of the checks that a sandbox evaluates."""
        return tuple(check.source for check in self.verifier.checks)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the checks."""
        return tuple(check.label for check in self.verifier.checks)

    @property
    def golden(self) -> GoldenVerifier | None:
        """The golden state that ends are compared with, None for another kind of verifier."""
        return self.verifier if isinstance(self.verifier, GoldenVerifier) else None

    @property
    def verdict_labels(self) -> tuple[str, ...]:
        """A label for each verdict on an end: the end state as a whole for a golden one, then the checks."""
        return self.labels if self.golden is None else (STATE_LABEL, *self.labels)

    @property
    def rule(self) -> ScoreRule:
        return self.verifier.rule

    @property
    def frame(self) -> Frame | None:
        return self.verifier.frame

    def with_frame(self, frame: Frame | None) -> Subject:
        """Return the same subject with another frame. Its verifier must be one that has a frame."""
        return self.model_copy(update={"verifier": self.verifier.model_copy(update={"frame": frame})})


def find_outside(subject: Subject, start: State, end: State) -> tuple[OutsideChange, ...]:
    """Return the wrong changes of an end: those outside the frame, or the differences from a golden state."""
    if subject.golden is not None:
        return golden_differences(subject.golden, start, end)
    return find_outside_changes(subject.frame, start, end)


def find_end_key(subject: Subject, start: State, end: State, *, bounded: bool = False) -> Key:
    """Return the relevant content of an end: equal for ends that are the same for the task."""
    if subject.golden is not None:
        differences = golden_differences(subject.golden, start, end)
        return frozenset((item.path, item.kind, item.expected, item.found, str(item.count)) for item in differences)
    return build_end_key(subject.frame, start, end, bounded=bounded)


@dataclass(frozen=True)
class ExecutedSequence:
    """An executed call sequence.

    `lost` is the reason if there is no end state, `outside` what it changed outside the frame, `calls` the calls with
    their results, as the judge of a task without checks reads them.
    """

    state: State | None
    digest: str = ""
    changing: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()
    lost: str = ""
    outside: tuple[OutsideChange, ...] = ()
    calls: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReferenceRuns:
    """The reference's runs: twice the same, at another moment, with another seed."""

    first: ExecutedSequence
    second: ExecutedSequence
    clock: ExecutedSequence
    seed: ExecutedSequence

    def list_named(self) -> tuple[tuple[str, ExecutedSequence], ...]:
        """Return the runs in order, with names for people."""
        return (
            ("the reference", self.first),
            ("the reference, executed again", self.second),
            ("the reference at another moment", self.clock),
            ("the reference with another seed", self.seed),
        )


def _begin_episode(sandbox: Sandbox, subject: Subject) -> Episode:
    return sandbox.reset(
        subject.program, subject.initial, seed=subject.seed, now=subject.now, validation=subject.validation
    )


def run_calls(
    sandbox: Sandbox, subject: Subject, calls: Sequence[ReferenceCall], start: State | None = None
) -> ExecutedSequence:
    """Execute calls from the task's initial state. Raise ProgramError and InfrastructureError.

    With `start` the end state shares with it the parts that did not change.
    """
    changing, refused, spelled = [], [], []
    try:
        with _begin_episode(sandbox, subject) as episode:
            for index, call in enumerate(calls):
                result = episode.call(call.tool, dict(call.arguments))
                if result.patch:
                    changing.append(index)
                if not result.ok:
                    refused.append(index)
                if subject.verifier.criteria:
                    spelled.append(spell_call(call.tool, dict(call.arguments), result))
            state = episode.state()
    except ProgramEnded as error:
        return ExecutedSequence(None, lost=str(error))
    digest = hash_state(state)
    outside: tuple[OutsideChange, ...] = ()
    if start is not None:
        state = share_unchanged(start, state)
        outside = find_outside(subject, start, state)
    return ExecutedSequence(state, digest, tuple(changing), tuple(refused), outside=outside, calls=tuple(spelled))


def run_reference(
    sandbox: Sandbox, subject: Subject, start: State, calls: Sequence[ReferenceCall], *, follow_ids: bool = False
) -> ReferenceRuns:
    """Run the reference twice as it is, at another moment and with another seed. Raise as `run_calls`.

    With `follow_ids` the calls of the last two runs use the ids of the records that those runs add.
    """
    later = subject.model_copy(update={"now": OTHER_NOW})
    other = subject.model_copy(update={"seed": subject.seed + 1})
    elsewhere = [
        run_calls(sandbox, variant, _translate_calls(sandbox, subject, variant, calls) if follow_ids else calls, start)
        for variant in (later, other)
    ]
    return ReferenceRuns(*(run_calls(sandbox, subject, calls, start) for _ in range(2)), *elsewhere)


def _translate_calls(
    sandbox: Sandbox, subject: Subject, elsewhere: Subject, calls: Sequence[ReferenceCall]
) -> list[ReferenceCall]:
    """Return the calls for another run, in which the records that they add have other ids."""
    translated: list[ReferenceCall] = []
    names: dict[str, str] = {}
    try:
        with _begin_episode(sandbox, subject) as own, _begin_episode(sandbox, elsewhere) as other:
            episodes = own, other
            before = [episode.state() for episode in episodes]
            for call in calls:
                translated.append(ReferenceCall(tool=call.tool, arguments=_rename_texts(call.arguments, names)))
                for episode, one in zip(episodes, (call, translated[-1]), strict=True):
                    episode.call(one.tool, dict(one.arguments))
                after = [episode.state() for episode in episodes]
                first, second = (_map_added_keys(*pair) for pair in zip(before, after, strict=True))
                names |= {
                    key: twin for path in first for key, twin in zip(first[path], second.get(path, ()), strict=False)
                }
                before = after
    except ProgramEnded:
        return list(calls)
    return translated


def _map_added_keys(before: State, after: State) -> dict[tuple[str, ...], list[str]]:
    changes = [change for change in find_state_changes(before, after) if change.kind == "added"]
    return {change.keys: [key for key, _ in change.items if key] for change in changes}


def _rename_texts(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _rename_texts(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_rename_texts(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


def run_variants(
    sandbox: Sandbox,
    subject: Subject,
    start: State,
    tried: Sequence[Mutant],
    first: ExecutedSequence,
    at_once: int,
    check_stop: Callable[[], None],
) -> list[ExecutedSequence]:
    """Return the end of each variant. A variant that changes only the answer has the end of the first reference run."""

    def run_variant(mutant: Mutant) -> ExecutedSequence:
        check_stop()
        if subject.reference is not None and mutant.reference.calls == subject.reference.calls:
            return first
        return run_calls(sandbox, subject, mutant.reference.calls, start)

    if at_once == 1:
        return [run_variant(mutant) for mutant in tried]
    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(run_variant, tried))
