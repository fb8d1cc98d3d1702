"""Withheld variants of a task: a tool or a parameter that its reference needs is removed.

The right thing is to report it by submitting the outcome `missing_tool` (EnvScaler 5.5 names samples of that kind as
missing in its training data). A variant is made only if it is clear what is right: no part of the task can still be
done, no tried call of another tool replaces the missing one, and the task's own checks notice its absence. Everything
is tried in the sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import (
    AnswerField,
    CheckRecord,
    Frame,
    Frozen,
    Reference,
    ReferenceCall,
    State,
    Tool,
    Verdict,
    Withheld,
)
from synthesis.errors import InputError, ProgramEnded, ProgramError
from synthesis.formats.answer_form import MOST_FIELDS, build_field_checks, serialize_answer
from synthesis.runtime import Sandbox, restrict_program
from synthesis.verifiers.call_sequences import ExecutedSequence, Subject, run_calls
from synthesis.verifiers.frame import find_outside_changes
from synthesis.verifiers.plausible_arguments import KnownValues, propose_arguments, read_known_values
from synthesis.verifiers.reference_frame import build_reference_frame
from synthesis.verifiers.withheld_answers import MISSING_TOOL, OUTCOMES, strip_withheld

TRIED_A_TOOL = 24
"""So many calls of another tool are tried in the place of what is withheld."""
OUTCOME = AnswerField(
    name="outcome",
    type="enumeration",
    description="What became of the task: done, or why nothing of it was done (a tool or a parameter for it is "
    "missing, the rules forbid it, what it is about does not exist). Leave the other fields out unless it is done",
    choices=OUTCOMES,
)
"""What the form of a variant asks for besides the fields of the whole task."""


class WithheldVariant(Frozen):
    """Variant of a task on its state: the withheld part, the form, the checks, and the right outcome as its reference.

    Each check is made from the form.
    """

    withheld: Withheld
    answer_form: tuple[AnswerField, ...]
    expected_answer: dict[str, Any]
    checks: tuple[CheckRecord, ...]
    frame: Frame
    reference: Reference


@dataclass(frozen=True)
class Unsuitable:
    """Tool or parameter that cannot be withheld, or a task that has none (`name` is empty), and the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class _Solved:
    """Task with its reference executed.

    `goals` are the indices of the checks that the reference makes true by its calls: they fail at the start although
    the right answer is given.
    """

    subject: Subject
    solution: Reference
    start: State
    run: ExecutedSequence
    goals: tuple[int, ...]


def iter_withheld_variants(
    sandbox: Sandbox, subject: Subject, check_stop: Callable[[], None] = lambda: None
) -> Iterator[WithheldVariant | Unsuitable]:
    """Yield a variant for every tool that can be withheld from a task, then for every parameter.

    They follow the order of the reference's calls; those that cannot be withheld are yielded with the reason.
    `check_stop` may raise. Raise ProgramError and InfrastructureError.
    """
    solved = _execute_reference(sandbox, subject)
    if isinstance(solved, Unsuitable):
        yield solved
        return
    for withheld in _iter_candidates(solved):
        check_stop()
        try:
            yield _build_variant(sandbox, solved, withheld)
        except (InputError, ProgramEnded) as error:
            yield Unsuitable(withheld.name, str(error))


def _execute_reference(sandbox: Sandbox, subject: Subject) -> _Solved | Unsuitable:
    if subject.reference is None:
        return Unsuitable("", "no reference is known, so nothing says which tools are needed")
    if not subject.checks:
        return Unsuitable("", "its verifier is a rubric: it has no checks that show what is missing")
    solution = subject.reference
    start_run = run_calls(sandbox, subject, ())
    if start_run.state is None:
        raise ProgramError(f"The program ended before any call: {start_run.lost}")
    start = start_run.state
    run = run_calls(sandbox, subject, solution.calls, start)
    if run.state is None:
        return Unsuitable("", f"its reference cannot be carried out: {run.lost}")
    if not run.changing:
        return Unsuitable("", "its reference changes nothing: whether another tool returns the same is not known")
    before, after = _evaluate_ends(sandbox, subject, start, [start, run.state], solution.answer)
    if not all(verdict.passed for verdict in after):
        return Unsuitable("", "its reference does not pass every check")
    goals = tuple(at for at, verdict in enumerate(before) if not verdict.passed)
    if not goals:
        return Unsuitable("", "no check notices whether anything was done")
    return _Solved(subject, solution, start, run, goals)


def _evaluate_ends(
    sandbox: Sandbox, subject: Subject, start: State, ends: Sequence[State], answer: str
) -> list[list[Verdict]]:
    return list(sandbox.evaluate_ends(start, [(subject.checks, end, answer) for end in ends]))


def _iter_candidates(solved: _Solved) -> Iterator[Withheld]:
    tools = {tool.name: tool for tool in solved.subject.program.tools}
    calls = [solved.solution.calls[step] for step in solved.run.changing]
    names = dict.fromkeys(call.tool for call in calls if tools[call.tool].kind == "change")
    yield from (Withheld(tool=name, solution=solved.solution) for name in names)
    pairs = dict.fromkeys(
        (call.tool, name)
        for call in calls
        if call.tool in names
        for name in call.arguments
        if _is_optional(tools[call.tool], name)
    )
    yield from (Withheld(tool=tool, parameter=name, solution=solved.solution) for tool, name in pairs)


def _is_optional(tool: Tool, name: str) -> bool:
    """Return whether a tool that takes no further arguments can be called without this one; else it is withheld
    whole."""
    rules = tool.parameters
    listed = name in (rules.get("properties") or {}) and rules.get("additionalProperties") is False
    return listed and name not in (rules.get("required") or ())


def _build_variant(sandbox: Sandbox, solved: _Solved, withheld: Withheld) -> WithheldVariant:
    """Return the variant. Raise InputError with the reason why this cannot be withheld."""
    _require_undescribed(solved, withheld)
    form, expected = build_withheld_form(solved.subject.answer_form)
    expected_values = {name: value for name, value in expected.items() if value is not None}
    narrow = solved.subject.with_frame(None).model_copy(
        update={
            "program": restrict_program(solved.subject.program, withheld),
            "answer_form": form,
            "reference": Reference(answer=serialize_answer(expected_values)),
            "withheld": withheld,
        }
    )
    frame = build_reference_frame(sandbox, narrow)
    _require_undoable(sandbox, solved, narrow, withheld, frame)
    _require_no_other_way(sandbox, solved, narrow, _list_missed_goals(sandbox, solved, narrow, withheld))
    assert narrow.reference is not None
    return WithheldVariant(
        withheld=withheld,
        answer_form=form,
        expected_answer=expected,
        checks=build_field_checks(form, expected),
        frame=frame,
        reference=narrow.reference,
    )


def build_withheld_form(form: Sequence[AnswerField]) -> tuple[tuple[AnswerField, ...], dict[str, Any]]:
    """Return the form of a task's variants and the expected answer: only the outcome, without the task's own fields.

    Raise InputError if the form has no room for the outcome.
    """
    if len(form) >= MOST_FIELDS:
        raise InputError(f"its answer form has {len(form)} fields, so the outcome has no room")
    outcome, names = OUTCOME, {field.name for field in form}
    while outcome.name in names:
        outcome = outcome.model_copy(update={"name": f"{outcome.name}_"})
    own_fields = [field.model_copy(update={"required": False}) for field in form]
    return (*own_fields, outcome), {**{field.name: None for field in own_fields}, outcome.name: MISSING_TOOL}


def _require_undescribed(solved: _Solved, withheld: Withheld) -> None:
    """Raise InputError if the tool's remaining description contains the parameter's name."""
    if not withheld.parameter:
        return
    narrow = restrict_program(solved.subject.program, withheld)
    described = next(tool.description for tool in narrow.tools if tool.name == withheld.tool)
    if withheld.parameter.lower() in described.lower().replace(" ", "_"):
        raise InputError("the tool's description tells of it in words that cannot be taken out")


def _require_undoable(sandbox: Sandbox, solved: _Solved, narrow: Subject, withheld: Withheld, frame: Frame) -> None:
    """Raise InputError if a part of the task can still be done: it would be unclear whether it should be."""
    rest = tuple(call for call in solved.solution.calls if call.tool != withheld.tool)
    run = run_calls(sandbox, narrow, rest, solved.start)
    if run.state is None:
        raise InputError(f"without it the rest of the reference cannot be carried out: {run.lost}")
    if find_outside_changes(frame, solved.start, run.state):
        remaining_tools = dict.fromkeys(rest[step].tool for step in run.changing)
        raise InputError(
            f"a part of the task could still be done ({', '.join(remaining_tools)}): whether it should be is not clear"
        )


def _list_missed_goals(sandbox: Sandbox, solved: _Solved, narrow: Subject, withheld: Withheld) -> list[int]:
    """Return the indices of the goals that fail without it. Raise InputError if the task's own checks do not notice
    it."""
    run = run_calls(sandbox, narrow, strip_withheld(withheld), solved.start)
    if run.state is None:
        return list(solved.goals)
    (verdicts,) = _evaluate_ends(sandbox, solved.subject, solved.start, [run.state], solved.solution.answer)
    missed = [at for at in solved.goals if not verdicts[at].passed]
    if not missed:
        raise InputError("the task's checks pass without it")
    return missed


def _require_no_other_way(sandbox: Sandbox, solved: _Solved, narrow: Subject, goals: Sequence[int]) -> None:
    """Raise InputError if a tried call reaches a goal that only the withheld one should reach."""
    task_values = read_known_values(solved.start, solved.solution)
    for tool in narrow.program.tools:
        if tool.kind != "change":
            continue
        ends = list(_iter_end_states(sandbox, narrow, solved, tool, task_values))
        for verdicts in _evaluate_ends(sandbox, solved.subject, solved.start, ends, solved.solution.answer):
            if any(verdicts[at].passed for at in goals):
                raise InputError(f"the tool {tool.name} reaches a part of it in another way")


def _iter_end_states(
    sandbox: Sandbox, narrow: Subject, solved: _Solved, tool: Tool, known: KnownValues
) -> Iterator[State]:
    """Yield the different states that calls of a tool lead to, each made alone at the start."""
    seen_digests: set[str] = set()
    proposed = propose_arguments(tool, known, solved.solution, TRIED_A_TOOL)
    for arguments in proposed:
        run = run_calls(sandbox, narrow, [ReferenceCall(tool=tool.name, arguments=arguments)], solved.start)
        if run.state is not None and run.changing and run.digest not in seen_digests:
            seen_digests.add(run.digest)
            yield run.state
