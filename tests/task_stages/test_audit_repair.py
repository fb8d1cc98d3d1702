"""Audits of drafts: green goes on, red is repaired once with what was found, and no further."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import Allowance, Frame, Reference, ReferenceCall
from synthesis.drafts import TaskDraft
from synthesis.errors import MalformedReply, Rejected
from synthesis.runtime import Sandbox
from synthesis.stages import Kit
from synthesis.tasks.audit_repair import audit
from synthesis.tasks.reference_search import solve
from synthesis.verifiers.audit_report import TaskAudit

from .support import (
    DONE,
    GIVE,
    HERS,
    ITEMS,
    LOOK,
    OTHERS,
    RECORD,
    SCENARIO,
    TOLD,
    Scripted,
    function,
    run,
    task,
)

CALL = ReferenceCall(tool="assign_locker", arguments={"locker_id": "L-2", "member_id": "M-1"})
REFERENCE = Reference(calls=(ReferenceCall(tool="list_lockers"), CALL), answer="It is L-2.")
WEAK = function("final_state['lockers']['L-2']['member_id'] != ''")
SOUND = (HERS, TOLD, OTHERS)


def repaired(*sources: str, free: Any = None) -> str:
    parts = [f"# Condition: {label}\n{source}" for label, source in zip(ITEMS, sources, strict=False)]
    return "\n\n".join(["```python", *([f"FREE = {free!r}"] if free is not None else []), *parts, "```"])


def audited(sandbox: Sandbox, model: Scripted, draft: TaskDraft, **settings: Any) -> tuple[TaskDraft, TaskAudit]:
    return run(lambda kit: audit(kit, RECORD, SCENARIO, draft), model, sandbox, **settings)


def test_a_sound_task_is_green_and_nobody_is_asked(sandbox: Sandbox) -> None:
    draft = task(reference=REFERENCE)
    model = Scripted()
    found, audit = audited(sandbox, model, draft)
    assert (found, audit.state, model.calls) == (draft, "green", [])


def test_without_a_reference_it_is_incomplete_and_kept(sandbox: Sandbox) -> None:
    found, audit = audited(sandbox, Scripted(), task())
    assert (found.reference, audit.state) == (None, "incomplete")


def test_a_red_audit_is_repaired_once_with_what_it_found(sandbox: Sandbox) -> None:
    model = Scripted({"repair_task": repaired(*SOUND)})
    free = Allowance(path="/lockers/*/floor", source="author", reason="A locker may stand on any floor.")
    frame = Frame(allowances=(Allowance(path="/lockers/L-2/member_id"), Allowance(path="/refusals/+", most=2), free))
    draft = task(WEAK, TOLD, OTHERS, reference=REFERENCE, notes=("An old note.",), frame=frame, free=(free,))
    found, audit = audited(sandbox, model, draft)
    assert audit.state == "green"
    assert [check.source for check in found.checks] == list(SOUND)
    assert (found.checklist, found.reference, found.instruction) == (ITEMS, REFERENCE, draft.instruction)
    assert found.notes == ()
    assert model.stages() == ["repair_task"]
    told = model.last_words()
    assert "Earns the full reward: call 2 (assign_locker) with member_id" in told
    assert WEAK.strip() in told
    assert "\n/lockers/L-2/member_id\n/refusals/+ (at most 2)\n/lockers/*/floor (in FREE)\n" in told
    assert "The known way: it does more than the task asks" in told


def test_the_runs_at_a_repaired_task_are_judged_as_it_judges(sandbox: Sandbox) -> None:
    runs = [[LOOK, GIVE, DONE], [("assign_locker", {"locker_id": "L-2", "member_id": "M-2"}), DONE], ["No."]]
    model = Scripted({"repair_task": repaired(*SOUND)}, teacher=runs)
    weak = task(WEAK, function("bool(answer)"), OTHERS)

    async def both(kit: Kit) -> tuple[TaskDraft, TaskDraft]:
        before = await solve(kit, RECORD, SCENARIO, weak)
        after, _ = await audit(kit, RECORD, SCENARIO, before)
        return before, after

    before, after = run(both, model, sandbox, solver_runs=3)
    assert before.reference is not None
    assert [one.outcome for one in before.runs] == ["failed", "solved", "failed"], (
        "the shortest pins whose locker it is"
    )
    assert [(one.ordinal, one.outcome) for one in after.runs] == [(0, "solved"), (1, "failed"), (2, "failed")]
    wrong = after.runs[1].attempt
    assert wrong is not None
    assert wrong.reward is not None
    assert [verdict.passed for verdict in wrong.reward.verdicts] == [False, True, True]


def test_a_repair_is_solved_again_where_the_reference_no_longer_earns_all(sandbox: Sandbox) -> None:
    other = function("mentions(answer, 'Ada')")
    told = {
        "repair_task": repaired(HERS, TOLD, OTHERS).replace(
            "says_name(answer, 'L-2', code=True)", "mentions(answer, 'Ada')"
        )
    }
    model = Scripted(told, teacher=[[LOOK, GIVE, DONE], [GIVE, "Ada has it now."]])
    found, audit = audited(sandbox, model, task(WEAK, TOLD, OTHERS, reference=REFERENCE), solver_runs=2)
    assert audit.state == "green"
    assert found.checks[1].source == other
    assert found.reference == Reference(calls=(CALL,), answer="Ada has it now.")


def test_where_the_same_runs_fail_new_ones_are_made(sandbox: Sandbox) -> None:
    told = {
        "repair_task": repaired(HERS, TOLD, OTHERS).replace(
            "says_name(answer, 'L-2', code=True)", "mentions(answer, 'Ada')"
        )
    }
    model = Scripted(told, teacher=[[GIVE, DONE], [GIVE, DONE], [GIVE, "Ada has it."], [GIVE, DONE]])
    found, _ = audited(sandbox, model, task(WEAK, TOLD, OTHERS, reference=REFERENCE), solver_runs=2)
    assert found.reference is not None
    assert found.reference.answer == "Ada has it."
    assert {call.site.sample for call in model.calls if call.site.stage == "solve"} == {0, 1, 2, 3}


def test_what_stays_red_is_rejected_with_the_kinds_of_fault(sandbox: Sandbox) -> None:
    anything = function("bool(answer)")
    model = Scripted({"repair_task": repaired(HERS, anything, OTHERS)})
    with pytest.raises(Rejected, match="still red after one repair: ") as found:
        audited(sandbox, model, task(HERS, anything, OTHERS, reference=REFERENCE))
    assert found.value.reason == "red_audit"
    assert set(model.stages()) == {"repair_task"}
    evidence: Any = found.value.evidence
    assert {fault["kind"] for fault in evidence} <= {"mutant_passes", "answer_too_loose"}


def test_a_repair_that_stays_unfit_is_rejected_with_the_first_audit(sandbox: Sandbox) -> None:
    model = Scripted({"repair_task": repaired(HERS, function("True"), OTHERS)})
    with pytest.raises(Rejected, match=r"could not repair it \(check 2 .* mutant_passes") as found:
        audited(sandbox, model, task(WEAK, TOLD, OTHERS, reference=REFERENCE))
    assert found.value.reason == "red_audit"
    assert len(model.calls) == 3


def test_a_repair_that_cannot_be_read_is_a_failure(sandbox: Sandbox) -> None:
    with pytest.raises(MalformedReply):
        audited(sandbox, Scripted({"repair_task": "[]"}), task(WEAK, TOLD, OTHERS, reference=REFERENCE))


def test_a_repair_without_a_goal_is_rejected(sandbox: Sandbox) -> None:
    model = Scripted({"repair_task": repaired(OTHERS)})
    with pytest.raises(Rejected) as found:
        audited(sandbox, model, task(WEAK, TOLD, OTHERS, reference=REFERENCE))
    assert found.value.reason == "no_goal_check"


def test_by_proportion_a_guard_makes_it_red_and_the_repair_leaves_it_out(sandbox: Sandbox) -> None:
    model = Scripted({"repair_task": repaired(*SOUND)})
    found, audit = audited(sandbox, model, task(*SOUND, reference=REFERENCE, rule="proportion"))
    assert audit.state == "green"
    assert len(found.checks) == 2
    assert "Doing nothing earns" in model.last_words()


def test_a_program_that_no_longer_starts_is_a_fact(sandbox: Sandbox) -> None:
    broken = SCENARIO.model_copy(update={"state": SCENARIO.state | {"mode": "raise"}})
    with pytest.raises(Rejected) as found:
        run(lambda kit: audit(kit, RECORD, broken, task(reference=REFERENCE)), Scripted(), sandbox)
    assert found.value.reason == "state_invalid"
