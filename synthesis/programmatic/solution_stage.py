"""The solution of a programmatic task (AW 3.1.1): a script that is debugged in the sandbox until it solves the query.

What it called is the reference, what it returned is the answer a*. An error goes back to the author with the calls that
were made so far; a script that is not whole after so many rounds ends the task.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from synthesis.contracts import AnswerField, Reference
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply
from synthesis.formats.answer_form import answer_text, compare_spec, read_submission
from synthesis.formats.records import EnvironmentRecord
from synthesis.programmatic.execution import FUNCTION, PARAMETER, SolutionRun, execute_solution, say_calls
from synthesis.prompts import fenced, prompt
from synthesis.runtime.check_language import breaches
from synthesis.runtime.child.answer_values import is_equal
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.syntax import UNREADABLE, parse
from synthesis.tasks.author_form import describe_fields, find_told_values
from synthesis.tasks.task_context import Unfit, World, rejected, world_of
from synthesis.verifiers.call_sequences import OTHER_NOW

ERRS, EMPTY, LINEAR, UNSTEADY = "solution_errs", "solution_empty", "solution_linear", "solution_unsteady"
"""Why a solution ends a task: it comes to no end; it neither changes nor answers anything; it is a plain list of calls
or makes too few; it comes to something else at another time."""
OTHER_SEED = 7
SOURCE_CHARS = 20_000
CALLS_CHARS = 5_000
TOLD_CHARS = 500
_FLOW = (ast.For, ast.While, ast.If, ast.IfExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Solved:
    """A solution with what it came to, and its answer by field."""

    source: str
    run: SolutionRun
    answer: dict[str, object]


async def write_solution(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """The task with its solution, reference and expected answer.

    Raises Rejected (`solution_errs`, `solution_empty`, `solution_linear`, `solution_unsteady`) and what `Kit.ask_code`
    raises.
    """
    world = await world_of(kit, record, scenario)
    numbers = kit.settings.programmatic
    words = prompt("programmatic", "solution").render(
        about=prompt_text.about(record),
        tools=prompt_text.whole_tools(record),
        program=prompt_text.source(record),
        query=fenced("query", task.instruction),
        form=describe_fields(task.answer_form) or "nothing: return {}",
        calls=str(numbers.least_calls),
        most=str(numbers.most_calls),
    )
    found: Solved | None = None

    async def check(source: str) -> None:
        nonlocal found
        kit.check_stop()
        found = await kit.run(try_solution, kit, world, task.answer_form, source)

    try:
        await kit.ask_code("author", "solution", words, check, tries=numbers.rounds)
    except MalformedReply as error:
        raise rejected(error) from error
    assert found is not None
    told = find_told_values(task.instruction, task.answer_form, found.answer)
    notes = [f"The query itself holds values of its answer: {', '.join(told)}."[:TOLD_CHARS]] if told else []
    calls = [call for number, call in enumerate(found.run.calls) if _is_needed(found.run, number)]
    return task.model_copy(
        update={
            "solution": found.source,
            "expected_answer": found.answer,
            "reference": Reference(calls=tuple(calls), answer=answer_text(found.answer) if task.answer_form else ""),
            "notes": (*task.notes, *notes),
        }
    )


def try_solution(kit: Kit, world: World, form: tuple[AnswerField, ...], source: str) -> Solved:
    """Execute a solution twice, the second time at another moment. Raises Unfit with what is wrong and what it called,
    and InfrastructureError."""
    require_script(source, FUNCTION, (PARAMETER,))
    numbers = kit.settings.programmatic
    run = execute_solution(kit.sandbox, world.program, world.initial, source, numbers.most_calls)
    if run.failed:
        raise Unfit(ERRS, f"the script fails: {run.failed}", say_observed(run))
    answer = _read_answer(form, run)
    if len(run.calls) < numbers.least_calls:
        message = f"the script makes {len(run.calls)} calls, and at least {numbers.least_calls} are wanted"
        raise Unfit(LINEAR, message, say_observed(run))
    if not run.changing and not any(value not in (None, "", [], {}) for value in answer.values()):
        message = "the script changes nothing and answers nothing, so doing nothing would solve the query"
        raise Unfit(EMPTY, message, say_observed(run))
    other = execute_solution(
        kit.sandbox, world.program, world.initial, source, numbers.most_calls, seed=OTHER_SEED, now=OTHER_NOW
    )
    again = {} if other.failed or not form else _read_answer(form, other)
    if other.failed or not is_same_answer(form, again, answer):
        why = other.failed or f"it then answers {answer_text(again)[:TOLD_CHARS]}, and else {answer_text(answer)}"
        raise Unfit(UNSTEADY, f"executed at another moment, the script comes to something else: {why}"[:1_000])
    return Solved(source.strip() + "\n", run, answer)


def require_script(source: str, function: str, parameters: tuple[str, ...]) -> ast.FunctionDef:
    """The function that a script defines. Raises Unfit: it is too long, no Python, outside of the language of checks,
    or has no loop, branch or comprehension."""
    if len(source) > SOURCE_CHARS:
        raise Unfit(ERRS, f"the script has {len(source):,} characters; at most {SOURCE_CHARS:,} are read")
    try:
        tree = parse(source)
    except UNREADABLE as error:
        raise Unfit(ERRS, f"the script is not Python: {str(error)[:TOLD_CHARS]}") from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    if len(functions) != 1 or tuple(item.arg for item in functions[0].args.args) != parameters:
        raise Unfit(ERRS, f"the script must define one function `def {function}({', '.join(parameters)}):`")
    if outside := breaches(tree):
        raise Unfit(ERRS, f"the script uses what it must not: {'; '.join(map(str, outside[:3]))}")
    if function == FUNCTION and not any(isinstance(node, _FLOW) for node in ast.walk(tree)):
        raise Unfit(LINEAR, "the script is a plain list of calls: it needs a loop, a branch or an aggregation")
    return functions[0]


def is_same_answer(form: tuple[AnswerField, ...], one: dict[str, object], other: dict[str, object]) -> bool:
    """Whether two answers have the same values, compared by the types of the form."""
    return all(is_equal(one.get(field.name), other.get(field.name), compare_spec(field)) for field in form)


def _is_needed(run: SolutionRun, number: int) -> bool:
    """Whether a call belongs into the reference: it was not refused, or left something behind all the same."""
    return number not in run.refused or number in run.changing


def _read_answer(form: tuple[AnswerField, ...], run: SolutionRun) -> dict[str, object]:
    """What a run answers, by field. Raises Unfit."""
    given = run.answer
    if not form:
        if given not in (None, {}):
            raise Unfit(ERRS, "nothing is to be answered, so the script returns {}")
        return {}
    try:
        return read_submission(form, given)
    except InputError as error:
        message = f"what the script returns does not fit the answer: {error}"
        raise Unfit(ERRS, message, say_observed(run)) from error


def say_observed(run: SolutionRun) -> str:
    """What a script called, as its author is told it."""
    return f"It called:\n\n{fenced('calls', say_calls(run, CALLS_CHARS))}"
