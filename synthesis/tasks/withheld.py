"""Withheld variants of a task: a tool or a parameter is taken away that its reference needs, and the right thing is to
say so (EnvScaler 5.5 names samples of that kind as what its training data lacks): to submit the outcome `missing_tool`.

Only where it is clear what is right: nothing else of the task can be done in part, no call of another tool that was
tried does what is missing, and the task's own checks notice that it is missing. Everything is tried in the sandbox.
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
from synthesis.formats.answer_form import MOST_FIELDS, answer_text, field_checks
from synthesis.runtime import Sandbox, offered
from synthesis.verifiers.call_sequences import ExecutedSequence, Subject, run_calls
from synthesis.verifiers.frame import outside_changes
from synthesis.verifiers.plausible_arguments import KnownValues, known_values, plausible_arguments
from synthesis.verifiers.reference_frame import reference_frame
from synthesis.verifiers.withheld_answers import MISSING_TOOL, OUTCOMES, without_withheld

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
    """A variant of a task on its state: what it withholds, what it asks for, what judges it, and the right outcome as
    its reference. Each check is made from the form."""

    withheld: Withheld
    answer_form: tuple[AnswerField, ...]
    expected_answer: dict[str, Any]
    checks: tuple[CheckRecord, ...]
    frame: Frame
    reference: Reference


@dataclass(frozen=True)
class Unsuitable:
    """A tool or a parameter that cannot be withheld, or a task that has none (`name` is empty), and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class _Solved:
    """A task with its reference executed. `goals` are the indices of the checks that the reference makes true by what
    it does: they fail at the start although the right answer is given."""

    subject: Subject
    solution: Reference
    start: State
    run: ExecutedSequence
    goals: tuple[int, ...]


def withheld_variants(
    sandbox: Sandbox, subject: Subject, check_stop: Callable[[], None] = lambda: None
) -> Iterator[WithheldVariant | Unsuitable]:
    """Every tool that can be withheld from a task, then every parameter, in the order of the reference's calls; those
    that cannot, with the reason. `check_stop` may raise. Raises ProgramError and InfrastructureError."""
    solved = _solved(sandbox, subject)
    if isinstance(solved, Unsuitable):
        yield solved
        return
    for withheld in _candidates(solved):
        check_stop()
        try:
            yield _variant(sandbox, solved, withheld)
        except (InputError, ProgramEnded) as error:
            yield Unsuitable(withheld.name, str(error))


def _solved(sandbox: Sandbox, subject: Subject) -> _Solved | Unsuitable:
    if subject.reference is None:
        return Unsuitable("", "no reference is known, so nothing says which tools are needed")
    if not subject.checks:
        return Unsuitable("", "its verifier is a rubric: it has no checks that tell what is missing")
    solution = subject.reference
    begun = run_calls(sandbox, subject, ())
    if begun.state is None:
        raise ProgramError(f"The program ended before any call: {begun.lost}")
    start = begun.state
    run = run_calls(sandbox, subject, solution.calls, start)
    if run.state is None:
        return Unsuitable("", f"its reference cannot be carried out: {run.lost}")
    if not run.changing:
        return Unsuitable("", "its reference changes nothing: whether another tool tells the same is not known")
    before, after = _verdicts(sandbox, subject, start, [start, run.state], solution.answer)
    if not all(verdict.passed for verdict in after):
        return Unsuitable("", "its reference does not pass every check")
    goals = tuple(at for at, verdict in enumerate(before) if not verdict.passed)
    if not goals:
        return Unsuitable("", "no check notices whether anything was done")
    return _Solved(subject, solution, start, run, goals)


def _verdicts(
    sandbox: Sandbox, subject: Subject, start: State, ends: Sequence[State], answer: str
) -> list[list[Verdict]]:
    return list(sandbox.evaluate_ends(start, [(subject.checks, end, answer) for end in ends]))


def _candidates(solved: _Solved) -> Iterator[Withheld]:
    tools = {tool.name: tool for tool in solved.subject.program.tools}
    calls = [solved.solution.calls[step] for step in solved.run.changing]
    names = dict.fromkeys(call.tool for call in calls if tools[call.tool].kind == "change")
    yield from (Withheld(tool=name, solution=solved.solution) for name in names)
    pairs = dict.fromkeys(
        (call.tool, name)
        for call in calls
        if call.tool in names
        for name in call.arguments
        if _optional(tools[call.tool], name)
    )
    yield from (Withheld(tool=tool, parameter=name, solution=solved.solution) for tool, name in pairs)


def _optional(tool: Tool, name: str) -> bool:
    """Whether a tool that takes no further arguments can be called without this one; else it is withheld whole."""
    rules = tool.parameters
    listed = name in (rules.get("properties") or {}) and rules.get("additionalProperties") is False
    return listed and name not in (rules.get("required") or ())


def _variant(sandbox: Sandbox, solved: _Solved, withheld: Withheld) -> WithheldVariant:
    """Raises InputError: why this cannot be withheld."""
    _require_silence(solved, withheld)
    form, expected = withheld_form(solved.subject.answer_form)
    told = {name: value for name, value in expected.items() if value is not None}
    narrow = solved.subject.with_frame(None).model_copy(
        update={
            "program": offered(solved.subject.program, withheld),
            "answer_form": form,
            "reference": Reference(answer=answer_text(told)),
            "withheld": withheld,
        }
    )
    frame = reference_frame(sandbox, narrow)
    _require_whole(sandbox, solved, narrow, withheld, frame)
    _require_no_other_way(sandbox, solved, narrow, _missed(sandbox, solved, narrow, withheld))
    assert narrow.reference is not None
    return WithheldVariant(
        withheld=withheld,
        answer_form=form,
        expected_answer=expected,
        checks=field_checks(form, expected),
        frame=frame,
        reference=narrow.reference,
    )


def withheld_form(form: Sequence[AnswerField]) -> tuple[tuple[AnswerField, ...], dict[str, Any]]:
    """Return the form of a task's variants and what is expected: the outcome alone, each field of the task left out.

    Raises InputError: the form has no room for the outcome.
    """
    if len(form) >= MOST_FIELDS:
        raise InputError(f"its answer form has {len(form)} fields, so the outcome has no room")
    outcome, names = OUTCOME, {field.name for field in form}
    while outcome.name in names:
        outcome = outcome.model_copy(update={"name": f"{outcome.name}_"})
    own = [field.model_copy(update={"required": False}) for field in form]
    return (*own, outcome), {**{field.name: None for field in own}, outcome.name: MISSING_TOOL}


def _require_silence(solved: _Solved, withheld: Withheld) -> None:
    """A parameter's name must not stand in what the tool still says of itself."""
    if not withheld.parameter:
        return
    narrow = offered(solved.subject.program, withheld)
    described = next(tool.description for tool in narrow.tools if tool.name == withheld.tool)
    if withheld.parameter.lower() in described.lower().replace(" ", "_"):
        raise InputError("the tool's description tells of it in words that cannot be taken out")


def _require_whole(sandbox: Sandbox, solved: _Solved, narrow: Subject, withheld: Withheld, frame: Frame) -> None:
    """Nothing of the task may be left that could be done: whether it should be then is nobody's to say."""
    rest = tuple(call for call in solved.solution.calls if call.tool != withheld.tool)
    run = run_calls(sandbox, narrow, rest, solved.start)
    if run.state is None:
        raise InputError(f"without it the rest of the reference cannot be carried out: {run.lost}")
    if outside_changes(frame, solved.start, run.state):
        left = dict.fromkeys(rest[step].tool for step in run.changing)
        raise InputError(
            f"a part of the task could still be done ({', '.join(left)}): whether it should be is not clear"
        )


def _missed(sandbox: Sandbox, solved: _Solved, narrow: Subject, withheld: Withheld) -> list[int]:
    """The goals that fail without it, by index; the task's own checks must notice that it is missing."""
    run = run_calls(sandbox, narrow, without_withheld(withheld), solved.start)
    if run.state is None:
        return list(solved.goals)
    (verdicts,) = _verdicts(sandbox, solved.subject, solved.start, [run.state], solved.solution.answer)
    missed = [at for at in solved.goals if not verdicts[at].passed]
    if not missed:
        raise InputError("the task's checks pass without it")
    return missed


def _require_no_other_way(sandbox: Sandbox, solved: _Solved, narrow: Subject, goals: Sequence[int]) -> None:
    """No call that is tried may reach a goal that only the withheld one reached."""
    known = known_values(solved.start, solved.solution)
    for tool in narrow.program.tools:
        if tool.kind != "change":
            continue
        ends = list(_ends_of(sandbox, narrow, solved, tool, known))
        for verdicts in _verdicts(sandbox, solved.subject, solved.start, ends, solved.solution.answer):
            if any(verdicts[at].passed for at in goals):
                raise InputError(f"the tool {tool.name} reaches a part of it in another way")


def _ends_of(sandbox: Sandbox, narrow: Subject, solved: _Solved, tool: Tool, known: KnownValues) -> Iterator[State]:
    """The different states that calls of a tool lead to, each made alone at the start."""
    seen: set[str] = set()
    proposed = plausible_arguments(tool, known, solved.solution, TRIED_A_TOOL)
    for arguments in proposed:
        run = run_calls(sandbox, narrow, [ReferenceCall(tool=tool.name, arguments=arguments)], solved.start)
        if run.state is not None and run.changing and run.digest not in seen:
            seen.add(run.digest)
            yield run.state
