"""Solution of a programmatic task (AW 3.1.1): a script that is debugged in the sandbox until it solves the query.

Its calls are the reference, its return value is the answer a*. An error goes back to the author with the calls made so
far; a script that is still invalid after the allowed rounds ends the task. So does an author who states that the query
cannot be solved, or not in one way. About an answer without a value its author is asked once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from synthesis.contracts import AnswerField, Difficulty, Reference
from synthesis.drafts import ScenarioDraft, ScriptRound, TaskDraft
from synthesis.errors import InputError, Rejected
from synthesis.formats.answer_form import read_submission, serialize_answer
from synthesis.formats.records import EnvironmentRecord
from synthesis.programmatic.execution import FUNCTION, PARAMETER, SolutionRun, execute_solution, format_calls
from synthesis.programmatic.hard_coded import find_hard_coded
from synthesis.prompts import fence_text, get_prompt
from synthesis.runtime.check_language import find_breaches
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.syntax import UNREADABLE, parse_module
from synthesis.tasks.author_form import describe_fields, find_leaked_values
from synthesis.tasks.submitted_values import is_same_answer
from synthesis.tasks.task_context import Unfit, World, build_world, reject_unfit_replies
from synthesis.verifiers.call_sequences import OTHER_NOW

ERRS, EMPTY, LINEAR, UNSTEADY = "solution_errs", "solution_empty", "solution_linear", "solution_unsteady"
"""Why a solution ends a task: it comes to no end; it neither changes nor answers anything; it is a plain list of calls
or makes too few; it comes to something else at another time."""
HARD_CODED, UNCLEAR = "solution_hard_coded", "query_unclear"
"""It holds ids or names that the query does not say; its author says that the query has no outcome, or several."""
UNSOLVABLE = "NotImplementedError: "
"""How what a script raises begins that says so."""
NAMES_TOLD = 8
NO_VALUES: tuple[object, ...] = (None, "", [], {})
MAY_BE_EMPTY = (
    "If the words of the work come to that, send it once more as it is; if a call returns something else than you "
    "thought, mend it"
)
OTHER_SEED = 7
SOURCE_CHARS = 20_000
CALLS_CHARS = 5_000
TOLD_CHARS = 500
FAULT_CHARS = 1_000
_FLOW = (ast.For, ast.While, ast.If, ast.IfExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Solved:
    """A solution with its execution, and its answer by field."""

    source: str
    run: SolutionRun
    answer: dict[str, object]


async def write_solution(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """Return the task with its solution, reference and expected answer.

    Raises Rejected (`solution_errs`, `solution_empty`, `solution_linear`, `solution_unsteady`, `solution_hard_coded`,
    `query_unclear`) and as `Kit.ask_code`.
    """
    world = await build_world(kit, record, scenario)
    numbers = kit.settings.programmatic
    words = get_prompt("programmatic", "solution").render(
        about=prompt_text.format_about(record),
        tools=prompt_text.format_whole_tools(record),
        program=prompt_text.format_source(record),
        query=fence_text("query", task.instruction),
        form=describe_fields(task.answer_form) or "nothing: return {}",
        least=str(numbers.least_calls),
        most=str(numbers.most_calls),
    )
    found: Solved | None = None
    rounds: list[ScriptRound] = []
    unasked, left = True, numbers.rounds

    async def check_source(source: str) -> None:
        nonlocal found, unasked, left
        kit.check_stop()
        left -= 1
        with record_round(rounds, "solution"):
            found = await kit.run(try_solution, kit, world, task, source)
            if unasked and left:
                unasked = False
                _require_values(found)

    with reject_unfit_replies():
        await kit.ask_code("author", "solution", words, check_source, tries=numbers.rounds)
    assert found is not None
    revealed_values = find_leaked_values(task.instruction, task.answer_form, found.answer)
    notes = (
        [f"The query itself holds values of its answer: {', '.join(revealed_values)}."[:TOLD_CHARS]]
        if revealed_values
        else []
    )
    calls = [call for number, call in enumerate(found.run.calls) if _is_needed(found.run, number)]
    return task.model_copy(
        update={
            "solution": found.source,
            "rounds": (*task.rounds, *rounds),
            "expected_answer": found.answer,
            "reference": Reference(
                calls=tuple(calls), answer=serialize_answer(found.answer) if task.answer_form else ""
            ),
            "notes": (*task.notes, *notes),
            "difficulty": Difficulty.from_script(found.source, found.run.calls),
        }
    )


@contextmanager
def record_round(rounds: list[ScriptRound], script: Literal["solution", "verification"]) -> Iterator[None]:
    """Record a round in which a script is tried, with its fault if there is one."""
    try:
        yield
    except Unfit as error:
        rounds.append(ScriptRound(script=script, fault=str(error)[:FAULT_CHARS]))
        raise
    rounds.append(ScriptRound(script=script))


def try_solution(kit: Kit, world: World, task: TaskDraft, source: str) -> Solved:
    """Execute a solution twice, the second time at another moment.

    Raises Unfit with the fault and the script's calls, Rejected (`query_unclear`) and InfrastructureError.
    """
    form = task.answer_form
    require_script(source, FUNCTION, (PARAMETER,))
    if names := find_hard_coded(source, task.instruction, world.program, world.initial):
        names_text = ", ".join(repr(name[:80]) for name in names[:NAMES_TOLD])
        message = f"the script holds what the words of the work do not say: {names_text}. Find it out by calls"
        raise Unfit(HARD_CODED, message)
    numbers = kit.settings.programmatic
    run = execute_solution(kit.sandbox, world.program, world.initial, source, numbers.most_calls)
    if UNSOLVABLE in run.failed:
        raise Rejected(UNCLEAR, f"The author of the solution: {run.failed.partition(UNSOLVABLE)[2]}", source)
    if run.failed:
        raise Unfit(ERRS, f"the script fails: {run.failed}", describe_observed(run))
    answer = _read_answer(form, run)
    if len(run.calls) < numbers.least_calls:
        message = f"the script makes {len(run.calls)} calls, and at least {numbers.least_calls} are wanted"
        raise Unfit(LINEAR, message, describe_observed(run))
    if not run.changing and not any(value not in NO_VALUES for value in answer.values()):
        message = "the script changes nothing and answers nothing, so doing nothing would solve the query"
        raise Unfit(EMPTY, message, describe_observed(run))
    other_run = execute_solution(
        kit.sandbox, world.program, world.initial, source, numbers.most_calls, seed=OTHER_SEED, now=OTHER_NOW
    )
    again = {} if other_run.failed or not form else _read_answer(form, other_run)
    if other_run.failed or not is_same_answer(form, again, answer):
        why = (
            other_run.failed
            or f"it then answers {serialize_answer(again)[:TOLD_CHARS]}, and else {serialize_answer(answer)}"
        )
        raise Unfit(UNSTEADY, f"executed at another moment, the script comes to something else: {why}"[:1_000])
    return Solved(source.strip() + "\n", run, answer)


def require_script(source: str, function: str, parameters: tuple[str, ...]) -> ast.FunctionDef:
    """Return the function that a script defines. Raises Unfit: it is too long, no Python, outside of the language of
    checks, or has no loop, branch or comprehension.
    """
    if len(source) > SOURCE_CHARS:
        raise Unfit(ERRS, f"the script has {len(source):,} characters; at most {SOURCE_CHARS:,} are read")
    try:
        tree = parse_module(source)
    except UNREADABLE as error:
        raise Unfit(ERRS, f"the script is not Python: {str(error)[:TOLD_CHARS]}") from None
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    if len(functions) != 1 or tuple(item.arg for item in functions[0].args.args) != parameters:
        raise Unfit(ERRS, f"the script must define one function `def {function}({', '.join(parameters)}):`")
    if outside := find_breaches(tree):
        raise Unfit(ERRS, f"the script uses what it must not: {'; '.join(map(str, outside[:3]))}")
    if function == FUNCTION and not any(isinstance(node, _FLOW) for node in ast.walk(tree)):
        raise Unfit(LINEAR, "the script is a plain list of calls: it needs a loop, a branch or an aggregation")
    return functions[0]


def _require_values(found: Solved) -> None:
    """Raise Unfit if the answer has a field without a value."""
    empty = [name for name, value in found.answer.items() if value in NO_VALUES]
    if empty:
        message = f"the script finds nothing for {', '.join(empty)}. {MAY_BE_EMPTY}"
        raise Unfit(EMPTY, message, describe_observed(found.run))


def _is_needed(run: SolutionRun, number: int) -> bool:
    """Return whether a call belongs in the reference: it was not refused, or changed the state anyway."""
    return number not in run.refused or number in run.changing


def _read_answer(form: tuple[AnswerField, ...], run: SolutionRun) -> dict[str, object]:
    """Return a run's answer, by field. Raises Unfit."""
    raw_answer = run.answer
    if not form:
        if raw_answer not in (None, {}):
            raise Unfit(ERRS, "nothing is to be answered, so the script returns {}")
        return {}
    try:
        return read_submission(form, raw_answer)
    except InputError as error:
        message = f"what the script returns does not fit the answer: {error}"
        raise Unfit(ERRS, message, describe_observed(run)) from error


def describe_observed(run: SolutionRun) -> str:
    """Return a text of a script's calls for its author."""
    return f"It called:\n\n{fence_text('calls', format_calls(run, CALLS_CHARS))}"
