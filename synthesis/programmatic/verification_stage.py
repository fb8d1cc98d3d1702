"""Verification script of a programmatic task (AW 3.1.1): debugged in the sandbox until it separates right from wrong.

Its author sees the query, the solution and its result, never the program. Right ends that it blocks, and wrong ends
that it passes, are reported back; a script that is still invalid after the allowed rounds ends the task. About an end
that the same calls leave in another order its author is asked once.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any

from synthesis.assessment.prompt_values import cut_text
from synthesis.contracts import AnswerField, Reference, ScriptVerifier, State
from synthesis.contracts.verifier_kinds import MOST_ASSERTIONS
from synthesis.drafts import ScenarioDraft, ScriptRound, TaskDraft
from synthesis.errors import InputError, ProgramError, Rejected, StateError
from synthesis.formats.answer_form import build_compare_spec, read_answer_values, read_submission, serialize_answer
from synthesis.formats.records import EnvironmentRecord
from synthesis.formats.verifier_record import PARAMETERS
from synthesis.programmatic.call_orders import find_other_order
from synthesis.programmatic.execution import execute_solution
from synthesis.programmatic.solution_stage import record_round, require_script
from synthesis.programmatic.trials import Trial, find_blocked, find_passed, list_trials, make_order_trial
from synthesis.prompts import fence_text, get_prompt
from synthesis.runtime import Sandbox, make_patch
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.tasks.author_form import describe_fields
from synthesis.tasks.submitted_values import is_same_answer
from synthesis.tasks.task_context import Unfit, World, build_world, reject_unfit_replies
from synthesis.tasks.task_frame import add_frame, build_unframed_subject
from synthesis.verifiers.call_sequences import run_calls

TRIED = 12
"""So many neighbouring states are tried at most."""


def find_sibling_answers(sandbox: Sandbox, world: World, task: TaskDraft, wanted: int, most_calls: int) -> list[str]:
    """Return at most so many answers that differ from the task's. A state in which the script fails gives none.

    Raises InfrastructureError.
    """
    if not task.answer_form:
        return []
    answers: dict[str, None] = {}
    right = read_answer_values(task.reference.answer) if task.reference else {}
    for number, state in enumerate(_list_siblings(world.initial)):
        if len(answers) >= wanted or number >= TRIED:
            break
        try:
            run = execute_solution(sandbox, world.program, state, task.solution, most_calls)
            answer = {} if run.failed else read_submission(task.answer_form, run.answer)
        except (InputError, ProgramError, StateError):
            continue
        if not run.failed and not is_same_answer(task.answer_form, answer, right):
            answers[serialize_answer(answer)] = None
    return list(answers)


def _list_siblings(initial: State) -> Iterator[State]:
    """Yield states without one record each: the first and the last of every collection, the collections in turn."""
    collections = [key for key, value in initial.items() if isinstance(value, dict | list) and len(value) > 1]
    for first in (False, True):
        for key in collections:
            yield {**initial, key: _drop_record(initial[key], first=first)}


def _drop_record(value: Any, *, first: bool) -> Any:
    if isinstance(value, list):
        return value[1:] if first else value[:-1]
    names = list(value)
    left_out = names[0 if first else -1]
    return {name: record for name, record in value.items() if name != left_out}


FAILS, PASSES = "verification_fails", "verification_passes"
"""Why a verification script ends a task: it cannot run or blocks what is right; it lets pass what is wrong."""
FUNCTION = "verify"
LEAST_ASSERTIONS = 2
OPEN_ORDER = (
    "If the words of the work leave that order open, let it pass: records may then stand in any order, and under the "
    "ids that they got. If the words say the order, send the script once more as it is"
)
CHANGES_CHARS = 30_000
PASSED_TOLD = 15


async def write_verification(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    """Return the task with its verification script and its frame.

    Raises Rejected (`verification_fails`, `verification_passes`, `reference_fails`) and as `Kit.ask_code`.
    """
    return await write_script(kit, await build_world(kit, record, scenario), task)


async def write_script(kit: Kit, world: World, task: TaskDraft, former: str = "") -> TaskDraft:
    """Return the task with a verification script that replaces the `former` one, if any: a text of that script and its
    faults. Raises as `write_verification`.
    """
    end = await kit.run(compute_end_state, kit, world, task)
    numbers = kit.settings.programmatic
    siblings = await kit.run(find_sibling_answers, kit.sandbox, world, task, numbers.siblings, numbers.most_calls)
    trials = list_trials(task, world.start, end, siblings)
    other_end = await kit.run(
        find_other_order, kit.sandbox, build_unframed_subject(world, task, task.reference), world.start
    )
    unasked = [make_order_trial(task, other_end)] if other_end is not None else []
    changes = json.dumps(make_patch(world.start, end), ensure_ascii=False)
    reference = task.reference or Reference()
    words = get_prompt("programmatic", "verification").render(
        about=prompt_text.format_introduction(world.record),
        state=world.start_text,
        changes=fence_text("changes", cut_text(changes, CHANGES_CHARS)),
        query=fence_text("query", task.instruction),
        form="\n".join(map(_describe_field, task.answer_form)) or "nothing is to be answered",
        solution=fence_text("solution", task.solution),
        expected=fence_text("answer", reference.answer or "none"),
        former=f"\n\nThe script that is there so far:\n\n{former}" if former else "",
    )
    script: ScriptVerifier | None = None
    rounds: list[ScriptRound] = []
    left = numbers.rounds

    async def check_source(source: str) -> None:
        nonlocal script, left
        kit.check_stop()
        left -= 1
        with record_round(rounds, "verification"):
            script = await kit.run(try_verification, kit, world, task, trials, source)
            order_trials = [unasked.pop()] if unasked and left else []
            if blocked := await kit.run(find_blocked, kit.sandbox, script, world.start, order_trials):
                raise Unfit(FAILS, f"the script blocks {blocked}. {OPEN_ORDER}")

    with reject_unfit_replies():
        await kit.ask_code("author", "verification", words, check_source, sample=bool(former), tries=numbers.rounds)
    script_fields = {"script": script, "rounds": (*task.rounds, *rounds), "siblings": tuple(siblings)}
    return await add_frame(kit, world, task.model_copy(update=script_fields))


def compute_end_state(kit: Kit, world: World, task: TaskDraft) -> State:
    """Return the state that the reference leaves, encoded. Raises Rejected("reference_fails") and
    InfrastructureError.
    """
    calls = task.reference.calls if task.reference else ()
    run = run_calls(kit.sandbox, world.subject(task, task.reference), calls, world.start)
    if run.state is None:
        raise Rejected("reference_fails", f"The calls of the solution cannot be carried out again: {run.lost}")
    return run.state


def try_verification(kit: Kit, world: World, task: TaskDraft, trials: list[Trial], source: str) -> ScriptVerifier:
    """Try a script on every trial. Raises Unfit with the ends that it blocks or passes wrongly, and
    InfrastructureError.
    """
    script = _read_script(task, source)
    if blocked := find_blocked(kit.sandbox, script, world.start, trials):
        raise Unfit(FAILS, f"the script blocks what is right: {blocked}")
    if passed := find_passed(kit.sandbox, script, world.start, trials):
        more_text = f" (and {len(passed) - 1} more)" if len(passed) > 1 else ""
        passed_text = fence_text("passed", "\n".join(passed[1:PASSED_TOLD]))
        message = f"the script lets pass what is wrong: {passed[0]}{more_text}"
        raise Unfit(PASSES, message, f"It lets these pass as well:\n\n{passed_text}" if more_text else "")
    return script


def _describe_field(field: AnswerField) -> str:
    """Return a text of a field for the author, with the comparison that accepts every spelling of it."""
    spec = ", ".join(f"{name}={value!r}" for name, value in build_compare_spec(field).items() if name != "required")
    compared = f"is_expected(answer, {field.name!r}, expected.get({field.name!r}), {spec})"
    return f"{describe_fields([field])}\n  compared by {compared}"


def _read_script(task: TaskDraft, source: str) -> ScriptVerifier:
    """Return the script as a verifier, with the names of assertions from the dict that it returns. Raises Unfit."""
    try:
        function = require_script(source, FUNCTION, PARAMETERS)
    except Unfit as error:
        raise Unfit(FAILS, str(error)) from error
    last = function.body[-1]
    keys = last.value.keys if isinstance(last, ast.Return) and isinstance(last.value, ast.Dict) else []
    names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    if not LEAST_ASSERTIONS <= len(names) <= MOST_ASSERTIONS or len(names) < len(keys):
        message = f"`{FUNCTION}` ends with `return {{...}}`: a dict of at least {LEAST_ASSERTIONS} named assertions, "
        raise Unfit(FAILS, message + "each name written down as a text")
    try:
        return ScriptVerifier(source=source, assertions=tuple(names), expected_answer=task.expected_answer)
    except ValueError as error:
        raise Unfit(FAILS, str(InputError(str(error)))[:500]) from error
