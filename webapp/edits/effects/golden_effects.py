"""Effects of an edit on the golden state of a task: whether it is made anew, and what a person has to decide."""

from __future__ import annotations

from dataclasses import replace

from synthesis.contracts import Finding, GoldenVerifier, Program, Reference, State, is_refusal
from synthesis.errors import InputError, ProgramEnded, ProgramError, StateError
from synthesis.formats.verifier_record import serialize_verifier
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import Subject, find_outside
from webapp.edits.models import EditKind
from webapp.edits.proposals import ProposedTask
from webapp.scenarios.golden.reference_state import remake_golden, report_not_made, report_undecided
from webapp.scenarios.golden.services import list_undecided_places
from webapp.scenarios.references import build_offered_program


def prepare_golden(sandbox: Sandbox, proposed: ProposedTask, subject: Subject) -> tuple[ProposedTask, list[Finding]]:
    """Return the task with the golden state that its reference leaves, if the edit changes that, and the findings for a
    person.

    A changed program changes it if the reference ends elsewhere. The volatile places that people declared are kept. A
    golden state that cannot be made anew is kept as well, with the reason. Raises InfrastructureError.
    """
    golden = proposed.record.verifier
    if not isinstance(golden, GoldenVerifier):
        return proposed, []
    undecided = list_undecided_places(proposed.revision)
    try:
        if not proposed.new_golden and not _has_changed_end(sandbox, proposed, subject):
            return proposed, report_undecided(undecided)
        expected = proposed.record.expected_answer
        made_golden = remake_golden(sandbox, subject, expected, golden.equality, golden.volatile)
    except (InputError, ProgramError, StateError) as error:
        return proposed, [*report_undecided(undecided), report_not_made(error)]
    raw = {**proposed.record.raw, **serialize_verifier(made_golden.golden)}
    record = proposed.record.model_copy(update={"verifier": made_golden.golden, "raw": raw})
    return replace(proposed, record=record, new_golden=True), report_undecided(made_golden.unapproved)


def remakes_golden(kind: str, proposed: ProposedTask) -> bool:
    """Return whether an edit of a program changes the golden state of a task that it touches."""
    return kind == EditKind.PROGRAM and proposed.new_golden


def _has_changed_end(sandbox: Sandbox, proposed: ProposedTask, subject: Subject) -> bool:
    """Return whether the reference leaves another state on the program of the edit.

    Raises InputError if it does because one of its calls is now refused; ProgramError.
    """
    if not proposed.new_program or subject.reference is None:
        return False
    start, end, refused = _execute_reference(sandbox, subject, subject.program)
    if not find_outside(subject, start, end):
        return False
    if refused:
        _, _, before = _execute_reference(sandbox, subject, build_offered_program(proposed.revision))
        new = sorted(refused - before)
        if new:
            raise InputError(_describe_refused_call(subject.reference, new[0]))
    return True


def _execute_reference(sandbox: Sandbox, subject: Subject, program: Program) -> tuple[State, State, set[int]]:
    """Return the state at the start, the state that the reference leaves, and which of its calls are refused.

    Raises InputError if the program ends before that.
    """
    assert subject.reference is not None
    try:
        with sandbox.reset(program, subject.initial, seed=subject.seed, now=subject.now) as episode:
            start = episode.state()
            results = [episode.call(call.tool, dict(call.arguments)) for call in subject.reference.calls]
            refused = {place for place, one in enumerate(results) if is_refusal(one.ok, one.result)}
            return start, episode.state(), refused
    except ProgramEnded as error:
        raise InputError(f"The program ends while the reference is executed: {error}") from error


def _describe_refused_call(reference: Reference, place: int) -> str:
    tool = reference.calls[place].tool
    return f"On this program call {place + 1} of the reference, {tool[:80]}, does not succeed any more."
