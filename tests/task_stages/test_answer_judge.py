"""A task whose check leaves its doubts to a judge, in a batch: solved, executed once more and audited with one."""

from __future__ import annotations

from synthesis.contracts import SOLVED_AT, Attempt
from synthesis.drafts import TaskDraft
from synthesis.llm.calls import StageCall
from synthesis.runtime import Sandbox
from synthesis.stages import Kit
from synthesis.tasks.audit_repair import audit
from synthesis.tasks.reference_search import solve
from synthesis.tasks.teacher import teach
from synthesis.verifiers.audit_report import TaskAudit
from tests.verifiers.test_rubric import evidence

from .support import GIVE, HERS, OTHERS, RECORD, SCENARIO, Scripted, as_json, function, run, task

ASKS = "CRITERION = 'The answer names locker L-2.'\n" + function("says_number(answer, 2, 'locker', codes=('l',))")
HEDGED = "I think it is locker L-2."


def judge(call: StageCall) -> str:
    _changes, answer = evidence({"messages": [{"content": call.messages[0].content}]})
    met = "2" in answer and not any(word in answer for word in ("3", "4", "maybe", "wrong", "not"))
    return as_json(verdicts=[{"criterion": 1, "passed": met, "reason": "It says so."}])


def made(sandbox: Sandbox, model: Scripted) -> tuple[TaskDraft, TaskAudit, Attempt]:
    async def stages(kit: Kit) -> tuple[TaskDraft, TaskAudit, Attempt]:
        draft = await solve(kit, RECORD, SCENARIO, task(HERS, ASKS, OTHERS))
        draft, report = await audit(kit, RECORD, SCENARIO, draft)
        return draft, report, await teach(kit, RECORD, SCENARIO, draft, conversational=False, ordinal=0)

    return run(stages, model, sandbox, solver_runs=1)


def test_the_judge_decides_in_every_stage_and_no_question_is_sent_twice(sandbox: Sandbox) -> None:
    model = Scripted(teacher=[[GIVE, HEDGED]], judge=judge)
    draft, report, attempt = made(sandbox, model)
    assert draft.reference is not None
    assert draft.reference.answer == HEDGED
    assert (report.state, report.judge, report.reference and report.reference.reward) == ("green", "test", 1)
    assert attempt.reward is not None
    assert attempt.reward.reward >= SOLVED_AT
    assert attempt.reward.verdicts[1].judged is not None
    asked = [call.messages for call in model.calls if call.site.role == "judge"]
    assert len(asked) == len(set(asked)) > 3


def test_where_nobody_judges_the_doubt_is_left(sandbox: Sandbox) -> None:
    draft, report, attempt = made(sandbox, Scripted(teacher=[[GIVE, HEDGED]]))
    assert (draft.reference, report.state) == (None, "unproven")
    assert attempt.reward is not None
    assert attempt.reward.doubts == (2,)
    assert "In 1 of them a check could not tell what the answer says. Check 2 is uncertain" in draft.notes[0]
