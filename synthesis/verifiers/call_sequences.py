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
from synthesis.runtime import Episode, Sandbox, state_hash
from synthesis.runtime.encoding import share_unchanged
from synthesis.verifiers.frame import Key, end_key, outside_changes
from synthesis.verifiers.golden import STATE_LABEL, golden_differences
from synthesis.verifiers.mutants import Mutant
from synthesis.verifiers.rubric_evidence import spell_call
from synthesis.verifiers.state_changes import state_changes

AT_ONCE = 4
"""So many episodes are executed at the same time."""
OTHER_NOW = "2027-06-17T18:30:00+00:00"


class Subject(Frozen):
    """What is audited: a task as the runtime and the verifier see it. `initial` is encoded, and `program` offers
    nothing that is `withheld`."""

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
        """What people call the checks."""
        return tuple(check.label for check in self.verifier.checks)

    @property
    def golden(self) -> GoldenVerifier | None:
        """The golden state that ends are held against, if that is its kind."""
        return self.verifier if isinstance(self.verifier, GoldenVerifier) else None

    @property
    def verdict_labels(self) -> tuple[str, ...]:
        """What each verdict on an end is about: the end state as a whole for a golden one, then the checks."""
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
    """What of an end is wrong whatever the checks say: changes outside the frame, differences from a golden state."""
    if subject.golden is not None:
        return golden_differences(subject.golden, start, end)
    return outside_changes(subject.frame, start, end)


def find_end_key(subject: Subject, start: State, end: State, *, bounded: bool = False) -> Key:
    """What an end holds, as far as it counts: equal for ends that are the same for the task."""
    if subject.golden is not None:
        told = golden_differences(subject.golden, start, end)
        return frozenset((item.path, item.kind, item.expected, item.found, str(item.count)) for item in told)
    return end_key(subject.frame, start, end, bounded=bounded)


@dataclass(frozen=True)
class ExecutedSequence:
    """An executed call sequence. `lost` says why there is no end state, `outside` what it changed outside the frame,
    `calls` what was called and what came of it, as the judge of a task without checks reads it."""

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

    def named(self) -> tuple[tuple[str, ExecutedSequence], ...]:
        """The runs in order, as people call them."""
        return (
            ("the reference", self.first),
            ("the reference, executed again", self.second),
            ("the reference at another moment", self.clock),
            ("the reference with another seed", self.seed),
        )


def _begin(sandbox: Sandbox, subject: Subject) -> Episode:
    return sandbox.reset(
        subject.program, subject.initial, seed=subject.seed, now=subject.now, validation=subject.validation
    )


def run_calls(
    sandbox: Sandbox, subject: Subject, calls: Sequence[ReferenceCall], start: State | None = None
) -> ExecutedSequence:
    """Execute calls from the task's initial state. Raises ProgramError and InfrastructureError.

    With `start` the end state shares with it what did not change.
    """
    changing, refused, spelled = [], [], []
    try:
        with _begin(sandbox, subject) as episode:
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
    digest = state_hash(state)
    outside: tuple[OutsideChange, ...] = ()
    if start is not None:
        state = share_unchanged(start, state)
        outside = find_outside(subject, start, state)
    return ExecutedSequence(state, digest, tuple(changing), tuple(refused), outside=outside, calls=tuple(spelled))


def run_reference(
    sandbox: Sandbox, subject: Subject, start: State, calls: Sequence[ReferenceCall], *, follow_ids: bool = False
) -> ReferenceRuns:
    """The reference as it is, again, at another moment and with another seed. Raises as `run_calls`.

    With `follow_ids` its calls name records that it added by the ids that these have there.
    """
    later = subject.model_copy(update={"now": OTHER_NOW})
    other = subject.model_copy(update={"seed": subject.seed + 1})
    elsewhere = [
        run_calls(sandbox, variant, _calls_elsewhere(sandbox, subject, variant, calls) if follow_ids else calls, start)
        for variant in (later, other)
    ]
    return ReferenceRuns(*(run_calls(sandbox, subject, calls, start) for _ in range(2)), *elsewhere)


def _calls_elsewhere(
    sandbox: Sandbox, subject: Subject, elsewhere: Subject, calls: Sequence[ReferenceCall]
) -> list[ReferenceCall]:
    """The calls as they have to be elsewhere, where records that they add have other ids."""
    made: list[ReferenceCall] = []
    names: dict[str, str] = {}
    try:
        with _begin(sandbox, subject) as own, _begin(sandbox, elsewhere) as other:
            episodes = own, other
            before = [episode.state() for episode in episodes]
            for call in calls:
                made.append(ReferenceCall(tool=call.tool, arguments=_with_names(call.arguments, names)))
                for episode, one in zip(episodes, (call, made[-1]), strict=True):
                    episode.call(one.tool, dict(one.arguments))
                after = [episode.state() for episode in episodes]
                first, second = (_added_keys(*pair) for pair in zip(before, after, strict=True))
                names |= {
                    key: twin for path in first for key, twin in zip(first[path], second.get(path, ()), strict=False)
                }
                before = after
    except ProgramEnded:
        return list(calls)
    return made


def _added_keys(before: State, after: State) -> dict[tuple[str, ...], list[str]]:
    changes = [change for change in state_changes(before, after) if change.kind == "added"]
    return {change.keys: [key for key, _ in change.items if key] for change in changes}


def _with_names(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _with_names(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_names(item, names) for item in value]
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
    """The end of each variant. One that differs in its answer alone has the end of the reference's first run."""

    def run(mutant: Mutant) -> ExecutedSequence:
        check_stop()
        if subject.reference is not None and mutant.reference.calls == subject.reference.calls:
            return first
        return run_calls(sandbox, subject, mutant.reference.calls, start)

    if at_once == 1:
        return [run(mutant) for mutant in tried]
    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(run, tried))
