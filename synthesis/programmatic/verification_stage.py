"""The verification script of a programmatic task (AW 3.1.1): debugged in the sandbox until it tells right from wrong.

Its author sees the query, the solution and what that came to, never the program. What it blocks that is right, or lets
pass that is wrong, goes back to it; a script that is not whole after so many rounds ends the task.
"""

from __future__ import annotations

import ast
import json

from synthesis.assessment.prompt_values import cut
from synthesis.contracts import AnswerField, Reference, ScriptVerifier, State
from synthesis.contracts.verifier_kinds import MOST_ASSERTIONS
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InputError, MalformedReply, Rejected
from synthesis.formats.answer_form import compare_spec
from synthesis.formats.records import EnvironmentRecord
from synthesis.formats.verifier_record import PARAMETERS
from synthesis.programmatic.siblings import find_sibling_answers
from synthesis.programmatic.solution_stage import require_script
from synthesis.programmatic.trials import Trial, find_blocked, find_passed, list_trials
from synthesis.prompts import fenced, prompt
from synthesis.runtime import make_patch
from synthesis.scenarios import prompt_text
from synthesis.stages import Kit
from synthesis.tasks.author_form import describe_fields
from synthesis.tasks.task_context import Unfit, World, rejected, world_of
from synthesis.tasks.task_frame import framed
from synthesis.verifiers.call_sequences import run_calls

FAILS, PASSES = "verification_fails", "verification_passes"
"""Why a verification script ends a task: it cannot run or blocks what is right; it lets pass what is wrong."""
FUNCTION = "verify"
LEAST_ASSERTIONS = 2
CHANGES_CHARS = 30_000
PASSED_TOLD = 15


async def write_verification(
    kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft
) -> TaskDraft:
    """The task with its verification script and its frame.

    Raises Rejected (`verification_fails`, `verification_passes`, `reference_fails`) and what `Kit.ask_code` raises.
    """
    return await program_script(kit, await world_of(kit, record, scenario), task)


async def program_script(kit: Kit, world: World, task: TaskDraft, former: str = "") -> TaskDraft:
    """The task with a verification script in place of the `former` one, if there is one: the script with what is wrong
    with it. Raises as `write_verification`."""
    end = await kit.run(find_end, kit, world, task)
    numbers = kit.settings.programmatic
    siblings = await kit.run(find_sibling_answers, kit.sandbox, world, task, numbers.siblings, numbers.most_calls)
    trials = list_trials(task, world.start, end, siblings)
    changes = json.dumps(make_patch(world.start, end), ensure_ascii=False)
    reference = task.reference or Reference()
    words = prompt("programmatic", "verification").render(
        about=prompt_text.introduction(world.record),
        state=world.shown,
        changes=fenced("changes", cut(changes, CHANGES_CHARS)),
        query=fenced("query", task.instruction),
        form="\n".join(map(_describe_field, task.answer_form)) or "nothing is to be answered",
        solution=fenced("solution", task.solution),
        answer=fenced("answer", reference.answer or "none"),
        former=former or "nothing",
    )
    script: ScriptVerifier | None = None

    async def check(source: str) -> None:
        nonlocal script
        kit.check_stop()
        script = await kit.run(try_verification, kit, world, task, trials, source)

    try:
        await kit.ask_code("author", "verification", words, check, sample=bool(former), tries=numbers.rounds)
    except MalformedReply as error:
        raise rejected(error) from error
    return await framed(kit, world, task.model_copy(update={"script": script}))


def find_end(kit: Kit, world: World, task: TaskDraft) -> State:
    """The state that the reference leaves, encoded. Raises Rejected("reference_fails") and InfrastructureError."""
    calls = task.reference.calls if task.reference else ()
    run = run_calls(kit.sandbox, world.subject(task, task.reference), calls, world.start)
    if run.state is None:
        raise Rejected("reference_fails", f"The calls of the solution cannot be carried out again: {run.lost}")
    return run.state


def try_verification(kit: Kit, world: World, task: TaskDraft, trials: list[Trial], source: str) -> ScriptVerifier:
    """Try a script on every trial. Raises Unfit with what it blocks or lets pass, and InfrastructureError."""
    script = _read_script(task, source)
    if blocked := find_blocked(kit.sandbox, script, world.start, trials):
        raise Unfit(FAILS, f"the script blocks what is right. {blocked}")
    if passed := find_passed(kit.sandbox, script, world.start, trials):
        more = f" (and {len(passed) - 1} more)" if len(passed) > 1 else ""
        listed = fenced("passed", "\n".join(passed[:PASSED_TOLD]))
        message = f"the script lets pass what is wrong. {passed[0]}{more}"
        raise Unfit(PASSES, message, f"It must not let pass any of these:\n\n{listed}")
    return script


def _describe_field(field: AnswerField) -> str:
    """A field as the author is told it, with the comparison that knows every way of writing it."""
    spec = ", ".join(f"{name}={value!r}" for name, value in compare_spec(field).items() if name != "required")
    compared = f"is_expected(answer, {field.name!r}, expected.get({field.name!r}), {spec})"
    return f"{describe_fields([field])}\n  compared by {compared}"


def _read_script(task: TaskDraft, source: str) -> ScriptVerifier:
    """The script as a verifier, its assertions told from the dict that it returns at its end. Raises Unfit."""
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
