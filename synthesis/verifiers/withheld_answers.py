"""Probes of a task that withholds a tool or a parameter: false claims, and the solution without the withheld part.

Everything is derived deterministically from what is withheld and from the original solution. An answer that submits the
result of the whole task must earn less; so must the solution as far as it still works. Other outcomes, and an empty
answer, are among the altered answers (`answer_variants.py`).
"""

from __future__ import annotations

from typing import Any

from synthesis.contracts import Reference, ReferenceCall, State, Withheld
from synthesis.formats.answer_form import read_answer_values, serialize_answer
from synthesis.runtime import Sandbox
from synthesis.verifiers.call_sequences import ExecutedSequence, Subject, run_calls
from synthesis.verifiers.mutants import Mutant

OUTCOMES = ("done", "missing_tool", "not_allowed", "not_found")
"""What can have become of a task of which something may be withheld."""
MISSING_TOOL = "missing_tool"


def make_claim_variants(subject: Subject, start: State, first: ExecutedSequence) -> list[Mutant]:
    """Return the reference with the answer of the whole task, alone and with either outcome: each must earn less."""
    reference = subject.reference
    assert reference is not None
    values = _solution_values(subject)
    claims = (
        [values, *(values | _build_outcome(subject, outcome) for outcome in ("done", MISSING_TOOL))] if values else []
    )
    return [
        Mutant(
            kind="answer_contrary",
            before=reference.answer,
            after=answer,
            expects="less",
            reference=reference.model_copy(update={"answer": answer}),
        )
        for answer in map(serialize_answer, claims)
    ]


def make_solution_variants(sandbox: Sandbox, subject: Subject, start: State, first: ExecutedSequence) -> list[Mutant]:
    """Return the solution as far as it still works: with calls that are refused, and without those.

    With the claim that it is done it earns less; with the right outcome only if it made unwanted changes, since queries
    are right.
    """
    assert subject.reference is not None
    assert subject.withheld is not None
    withheld, own = subject.withheld, subject.reference.answer
    claim = serialize_answer(_solution_values(subject) | _build_outcome(subject, "done"))
    variants = []
    for calls in _drop_equal(withheld.solution.calls, strip_withheld(withheld)):
        run = run_calls(sandbox, subject, calls, start) if calls else first
        if run.state is None:
            continue
        for answer in (claim, own):
            variants.append(
                Mutant(
                    kind="solution_tried",
                    tool=withheld.name,
                    before=own,
                    after=answer,
                    expects="full" if answer == own and not run.outside else "less",
                    reference=Reference(calls=calls, answer=answer),
                )
            )
    return variants


def strip_withheld(withheld: Withheld) -> tuple[ReferenceCall, ...]:
    """Return the solution's calls without those of the tool, or without the parameter."""
    calls = withheld.solution.calls
    if not withheld.parameter:
        return tuple(call for call in calls if call.tool != withheld.tool)
    return tuple(_strip_parameter(call, withheld.parameter) if call.tool == withheld.tool else call for call in calls)


def _solution_values(subject: Subject) -> dict[str, Any]:
    """Return the answer of the whole task's solution, in fields of the form."""
    assert subject.withheld is not None
    values = read_answer_values(subject.withheld.solution.answer)
    return {field.name: values[field.name] for field in subject.answer_form if field.name in values}


def _build_outcome(subject: Subject, outcome: str) -> dict[str, Any]:
    """Return the submitted outcome, under the name that its field has in the form."""
    assert subject.reference is not None
    submitted = read_answer_values(subject.reference.answer)
    return {name: outcome for name, value in submitted.items() if value == MISSING_TOOL}


def _drop_equal(*several: tuple[ReferenceCall, ...]) -> list[tuple[ReferenceCall, ...]]:
    return [calls for place, calls in enumerate(several) if calls not in several[:place]]


def _strip_parameter(call: ReferenceCall, parameter: str) -> ReferenceCall:
    arguments = {name: value for name, value in call.arguments.items() if name != parameter}
    return call.model_copy(update={"arguments": arguments})
