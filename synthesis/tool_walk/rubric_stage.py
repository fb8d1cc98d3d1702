"""Rubric of a task of a walk (AW 3.1.1): criteria over the answer's fields, and facts for a judge.

Code requires that each field is compared with a*, and that a criterion covers the changes of the state. The rubric is
then tried on the end of the reference: a criterion that does not hold there contradicts the trace.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import Field

from synthesis.assessment.prompt_values import cut_text
from synthesis.contracts import Criterion, RubricVerifier
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import FormatError
from synthesis.formats.criteria import MOST_CRITERIA, require_fields
from synthesis.formats.records import EnvironmentRecord
from synthesis.prompts import fence_text, get_prompt
from synthesis.runtime import make_patch
from synthesis.scenarios import prompt_text
from synthesis.scenarios.states import AuthorReply
from synthesis.stages import Kit
from synthesis.tasks.author_form import describe_fields
from synthesis.tasks.task_context import Unfit, World, build_world, reject_unfit_replies
from synthesis.tasks.teacher import make_end_judge
from synthesis.tool_graph.execution import Execution, execute_nodes
from synthesis.tool_graph.task_stages import require_blueprint
from synthesis.tool_walk.chain_words import describe_trace
from synthesis.verifiers.rubric_audit import RubricSubject, judge_rubric_reference

GAPS, CONTRADICTS = "rubric_gaps", "rubric_contradicts"
CHANGES_CHARS = 30_000
MOST_TOLD = 10
"""Most criteria that do not hold that are reported at once."""


class RubricReply(AuthorReply):
    """The author's reply."""

    criteria: tuple[Criterion, ...] = Field(min_length=1, max_length=MOST_CRITERIA)


async def write_rubric(kit: Kit, record: EnvironmentRecord, scenario: ScenarioDraft, task: TaskDraft) -> TaskDraft:
    """Return the task with its rubric. Raises Rejected (`rubric_gaps`, `rubric_contradicts`) and as `Kit.ask`."""
    return await ask_rubric(kit, await build_world(kit, record, scenario), task)


async def ask_rubric(kit: Kit, world: World, task: TaskDraft, former: str = "") -> TaskDraft:
    """Return the task with a rubric that replaces the `former` one, if any: a text of that rubric and its faults.
    Raises as `write_rubric`.
    """
    chain = require_blueprint(task.blueprint)
    execution = await kit.run(execute_nodes, kit.sandbox, world.program, world.initial, chain.nodes)
    words = get_prompt("tool_walk", "rubric").render(
        about=prompt_text.format_introduction(world.record),
        trace=describe_trace(chain, execution.results),
        changes=fence_text("changes", _show_changes(world, execution)),
        query=fence_text("query", task.instruction),
        form=describe_fields(task.answer_form),
        answer=fence_text("answer", task.reference.answer if task.reference else "none"),
        former=former or "none",
    )

    async def check_reply(reply: RubricReply) -> None:
        kit.check_stop()
        _require_full_coverage(task, reply.criteria, changed=bool(execution.changing))
        await _require_criteria_hold(kit, world, _set_rubric(task, reply.criteria))

    with reject_unfit_replies():
        reply = await kit.ask("author", "rubric", words, RubricReply, check_reply, sample=bool(former))
    return _set_rubric(task, reply.criteria)


def _set_rubric(task: TaskDraft, criteria: Sequence[Criterion]) -> TaskDraft:
    made = RubricVerifier(criteria=tuple(criteria), expected_answer=task.expected_answer)
    return task.model_copy(update={"rubric": made})


def _show_changes(world: World, done: Execution) -> str:
    patch = make_patch(world.start, done.state) if done.state is not None else []
    return cut_text(json.dumps(patch, ensure_ascii=False), CHANGES_CHARS)


def _require_full_coverage(task: TaskDraft, criteria: Sequence[Criterion], *, changed: bool) -> None:
    """Raise Unfit if a criterion names no field, a field is not compared, or no criterion covers a change of the
    state.
    """
    try:
        require_fields(criteria, task.answer_form, task.expected_answer, "the rubric")
    except FormatError as error:
        raise Unfit(GAPS, str(error)) from error
    compared = {one.field for one in criteria if one.dimension == "tolerance"}
    if open_fields := [field.name for field in task.answer_form if field.name not in compared]:
        raise Unfit(GAPS, f"no criterion of the dimension `tolerance` compares the field {open_fields[0]}")
    if changed and all(one.dimension != "fact" for one in criteria):
        raise Unfit(GAPS, "the calls change something, and no criterion of the dimension `fact` looks at it")


async def _require_criteria_hold(kit: Kit, world: World, task: TaskDraft) -> None:
    """Raise Unfit if a criterion does not hold at the end of the reference. Also raises InfrastructureError,
    LLMError.
    """
    subject = world.subject(task, task.reference)
    assert isinstance(subject, RubricSubject)
    reward = await judge_rubric_reference(kit.run, kit.sandbox, subject, make_end_judge(kit, task))
    verdicts = reward.verdicts if reward is not None else ()
    failed = [
        f"the criterion {criterion.text[:300]!r} does not hold once the calls are made and the answer given: "
        f"{verdict.reason[:300]}"
        for criterion, verdict in zip(subject.rubric.criteria, verdicts, strict=False)
        if not verdict.passed
    ]
    if failed:
        raise Unfit(CONTRADICTS, "\n".join(failed[:MOST_TOLD]))
    if reward is None:
        raise Unfit(CONTRADICTS, "the calls could not be carried out again")
