"""Audits of drafts: green goes on, red is repaired once with what was found, and no further."""

from __future__ import annotations

from typing import Any

import pytest

from synthesis.contracts import Allowance, Frame, Reference, ReferenceCall
from synthesis.drafts import TaskDraft
from synthesis.errors import MalformedReply, Rejected
from synthesis.formats.answer_form import add_field_checks
from synthesis.runtime import Sandbox
from synthesis.stages import Kit
from synthesis.tasks.audit_repair import audit_and_repair_task
from synthesis.tasks.reference_search import solve_task
from synthesis.verifiers.audit_report import TaskAudit

from .support import (
    DONE,
    FORM,
    GIVE,
    GONE,
    HERS,
    ITEMS,
    LOOK,
    OTHERS,
    RECORD,
    SCENARIO,
    SUBMIT,
    Scripted,
    Turn,
    assigned,
    function,
    run,
    task,
)

CALL = ReferenceCall(tool="assign_locker", arguments={"locker_id": "L-2", "member_id": "M-1"})
REFERENCE = Reference(calls=(ReferenceCall(tool="list_lockers"), CALL), answer="It is L-2.")
WEAK = function("final_state['lockers']['L-2']['member_id'] != ''")
SOUND = (HERS, GONE, OTHERS)
THIRD = assigned("L-3", "M-2")
THIRD_CALL = ReferenceCall(tool="assign_locker", arguments={"locker_id": "L-3", "member_id": "M-2"})
BOTH = function("final_state['lockers']['L-3']['member_id'] == 'M-2'")


def repaired(*sources: str, free: Any = None) -> str:
    parts = [f"# Condition: {label}\n{source}" for label, source in zip(ITEMS, sources, strict=False)]
    return "\n\n".join(["```python", *([f"FREE = {free!r}"] if free is not None else []), *parts, "```"])


def audited(sandbox: Sandbox, model: Scripted, draft: TaskDraft, **settings: Any) -> tuple[TaskDraft, TaskAudit]:
    return run(lambda kit: audit_and_repair_task(kit, RECORD, SCENARIO, draft), model, sandbox, **settings)


def test_a_sound_task_is_green_and_nobody_is_asked(sandbox: Sandbox) -> None:
    draft = task(reference=REFERENCE)
    model = Scripted()
    found, audit = audited(sandbox, model, draft)
    assert (found, audit.state, model.calls) == (draft, "green", [])


def test_without_a_reference_it_is_unproven_and_kept(sandbox: Sandbox) -> None:
    found, audit = audited(sandbox, Scripted(), task())
    assert (found.reference, audit.state) == (None, "unproven")


def test_a_red_audit_is_repaired_once_with_what_it_found(sandbox: Sandbox) -> None:
    model = Scripted({"repair_task": repaired(*SOUND)})
    free = Allowance(path="/lockers/*/floor", source="author", reason="A locker may stand on any floor.")
    frame = Frame(allowances=(Allowance(path="/lockers/L-2/member_id"), Allowance(path="/refusals/+", most=2), free))
    draft = task(WEAK, GONE, OTHERS, reference=REFERENCE, notes=("An old note.",), frame=frame, free=(free,))
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
    assert "Nobody met everything" not in told


def test_the_runs_at_a_repaired_task_are_judged_as_it_judges(sandbox: Sandbox) -> None:
    runs = [[LOOK, GIVE, DONE], [("assign_locker", {"locker_id": "L-2", "member_id": "M-2"}), DONE], ["No."]]
    model = Scripted({"repair_task": repaired(*SOUND)}, teacher=runs)
    weak = task(WEAK, GONE, OTHERS)

    async def both(kit: Kit) -> tuple[TaskDraft, TaskDraft]:
        before = await solve_task(kit, RECORD, SCENARIO, weak)
        after, _ = await audit_and_repair_task(kit, RECORD, SCENARIO, before)
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
    model = Scripted({"repair_task": repaired(HERS, BOTH)}, teacher=[[LOOK, GIVE, DONE], [GIVE, THIRD, DONE]])
    found, audit = audited(sandbox, model, task(WEAK, GONE, reference=REFERENCE), solver_runs=2)
    assert audit.state == "green"
    assert found.checks[1].source == BOTH
    assert found.reference == Reference(calls=(CALL, THIRD_CALL), answer="It is L-2.")


def test_where_the_same_runs_fail_new_ones_are_made(sandbox: Sandbox) -> None:
    told = {"repair_task": repaired(HERS, BOTH)}
    model = Scripted(told, teacher=[[GIVE, DONE], [GIVE, DONE], [GIVE, THIRD, DONE], [GIVE, DONE]])
    found, _ = audited(sandbox, model, task(WEAK, GONE, reference=REFERENCE), solver_runs=2)
    assert found.reference == Reference(calls=(CALL, THIRD_CALL), answer="It is L-2.")
    assert {call.site.sample for call in model.calls if call.site.stage == "solve"} == {0, 1, 2, 3}


def test_a_repair_that_stays_unfit_is_rejected_with_the_first_audit(sandbox: Sandbox) -> None:
    model = Scripted({"repair_task": repaired(HERS, function("True"), OTHERS)})
    with pytest.raises(Rejected, match=r"could not repair it \(check 2 .* mutant_passes") as found:
        audited(sandbox, model, task(WEAK, GONE, OTHERS, reference=REFERENCE))
    assert found.value.reason == "red_audit"
    assert len(model.calls) == 3


def test_a_repair_that_cannot_be_read_is_a_failure(sandbox: Sandbox) -> None:
    with pytest.raises(MalformedReply):
        audited(sandbox, Scripted({"repair_task": "[]"}), task(WEAK, GONE, OTHERS, reference=REFERENCE))


def test_a_repair_without_a_goal_is_rejected(sandbox: Sandbox) -> None:
    model = Scripted({"repair_task": repaired(OTHERS)})
    with pytest.raises(Rejected) as found:
        audited(sandbox, model, task(WEAK, GONE, OTHERS, reference=REFERENCE))
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
        run(lambda kit: audit_and_repair_task(kit, RECORD, broken, task(reference=REFERENCE)), Scripted(), sandbox)
    assert found.value.reason == "state_invalid"


RELEASE: Turn = ("release_locker", {"locker_id": "L-1"})
RELEASED = function("final_state['lockers']['L-1']['member_id'] == ''")
FORGOTTEN = task(
    HERS, GONE, instruction="Give Ada the free locker on the ground floor, and take Bo's back, he has left."
)
"""The checklist forgot the second of two things asked."""


def solved_and_audited(
    sandbox: Sandbox, model: Scripted, draft: TaskDraft, solver_runs: int = 1
) -> tuple[TaskDraft, TaskAudit]:
    async def both(kit: Kit) -> tuple[TaskDraft, TaskAudit]:
        return await audit_and_repair_task(kit, RECORD, SCENARIO, await solve_task(kit, RECORD, SCENARIO, draft))

    return run(both, model, sandbox, solver_runs=solver_runs)


def test_what_the_checklist_forgot_is_told_and_stays_in_the_reference(sandbox: Sandbox) -> None:
    model = Scripted({"repair_task": repaired(HERS, GONE, RELEASED)}, teacher=[[GIVE, RELEASE, DONE]])
    found, report = solved_and_audited(sandbox, model, FORGOTTEN)
    assert 'met without call 2, release_locker {"locker_id": "L-1"}' in model.last_words()
    assert report.state == "green"
    assert found.reference is not None
    assert [call.tool for call in found.reference.calls] == ["assign_locker", "release_locker"]
    assert [one.outcome for one in found.runs] == ["solved"]


def test_what_the_author_says_was_not_asked_leaves_the_reference(sandbox: Sandbox) -> None:
    reply = repaired(HERS, GONE).replace("```python", "```python\nNOT_ASKED = [2]", 1)
    model = Scripted({"repair_task": reply}, teacher=[[GIVE, RELEASE, DONE]])
    found, report = solved_and_audited(sandbox, model, FORGOTTEN)
    assert report.state == "green"
    assert found.reference == Reference(calls=(CALL,), answer="It is L-2.")
    assert found.notes == ('The author says that this was not asked for: release_locker {"locker_id": "L-1"}.',)
    assert [one.outcome for one in found.runs] == ["failed"], "which the note explains"


def test_what_the_author_leaves_open_stays_red(sandbox: Sandbox) -> None:
    model = Scripted({"repair_task": repaired(HERS, GONE)}, teacher=[[GIVE, RELEASE, DONE]])
    with pytest.raises(Rejected, match="still red after one repair: unneeded_call") as found:
        solved_and_audited(sandbox, model, FORGOTTEN)
    evidence: Any = found.value.evidence
    assert (found.value.reason, evidence[0]["kind"]) == ("red_audit", "unneeded_call")
    beyond = repaired(HERS, GONE).replace("```python", "```python\nNOT_ASKED = [3]", 1)
    with pytest.raises(Rejected, match="there is no call 3"):
        solved_and_audited(sandbox, Scripted({"repair_task": beyond}, teacher=[[GIVE, RELEASE, DONE]]), FORGOTTEN)


def test_another_run_that_the_frame_refuses_is_told_with_its_calls(sandbox: Sandbox) -> None:
    """The shorter run forgot what the checklist forgot: then only the other one shows it."""
    runs = [[GIVE, RELEASE, DONE], [GIVE, DONE]]
    model = Scripted({"repair_task": repaired(HERS, GONE, RELEASED)}, teacher=runs)
    found, report = solved_and_audited(sandbox, model, FORGOTTEN, solver_runs=2)
    told = model.calls[-1].messages[-1].content
    assert "Run 1 of the solver meets all conditions, but earns 0. Changed outside the frame: member_id of" in told
    assert 'Beside the known way it made call 2, release_locker {"locker_id": "L-1"}.' in told
    assert report.state == "green"
    assert found.reference is not None
    assert len(found.reference.calls) == 2
    reply = repaired(HERS, GONE).replace("```python", "```python\nNOT_ASKED = [2]", 1)
    found, report = solved_and_audited(
        sandbox, Scripted({"repair_task": reply}, teacher=runs), FORGOTTEN, solver_runs=2
    )
    assert (report.state, [one.outcome for one in found.runs]) == ("green", ["failed", "solved"])


NEVER = function("final_state['lockers']['L-2']['floor'] == 7")


def test_what_nobody_solved_goes_to_repair_with_what_was_never_met(sandbox: Sandbox) -> None:
    model = Scripted({"repair_task": repaired(HERS, GONE, OTHERS)}, teacher=[[LOOK, GIVE, DONE]])
    found, report = solved_and_audited(sandbox, model, task(HERS, GONE, NEVER))
    told = model.last_words()
    assert f"Nobody solved it: the best of 1 runs earned 0.667. Passed in none of them: check 3 ({ITEMS[2]})." in told
    assert "No way to do the task is known. The best try:" in told
    assert "2. assign_locker" in told
    assert (report.state, found.notes) == ("green", ())


def test_what_stays_unsolved_is_kept_as_unproven(sandbox: Sandbox) -> None:
    draft = task(HERS, GONE, NEVER)
    same = Scripted({"repair_task": repaired(HERS, GONE, NEVER)}, teacher=[[GIVE, DONE]])
    found, report = solved_and_audited(sandbox, same, draft)
    assert (report.state, found.reference, found.checks) == ("unproven", None, draft.checks)
    assert same.stages().count("solve") == 2, "nothing was changed, so nobody tries again"
    hopeless = Scripted({"repair_task": repaired(HERS, function("True"), NEVER)}, teacher=[[GIVE, DONE]])
    found, report = solved_and_audited(sandbox, hopeless, draft)
    assert (report.state, found.checks) == ("unproven", draft.checks)
    other = Scripted({"repair_task": repaired(HERS, NEVER)}, teacher=[[GIVE, DONE]])
    found, report = solved_and_audited(sandbox, other, draft)
    assert (report.state, len(found.checks), len(found.runs)) == ("unproven", 2, 2)
    assert found.notes[-1].startswith("Nobody solved it")


ASKED = task(HERS, OTHERS, answer_form=FORM, expected_answer={"locker": "L-3"})
"""The author expects a value that is wrong; its check is made by the stage."""


def test_an_expected_value_that_all_runs_contradict_is_told_and_corrected(sandbox: Sandbox) -> None:
    reply = repaired(HERS, OTHERS).replace("```python", "```python\nEXPECTED = {'locker': 'L-2'}", 1)
    model = Scripted({"repair_task": reply}, teacher=[[LOOK, GIVE, SUBMIT]])
    checks = add_field_checks(ASKED.checks, ASKED.answer_form, ASKED.expected_answer)
    found, report = solved_and_audited(sandbox, model, ASKED.model_copy(update={"checks": checks}), solver_runs=2)
    told = model.calls[-1].messages[-1].content if model.calls[-1].site.stage == "repair_task" else ""
    assert '"L-3" is expected as `locker`, and all 2 runs submitted "L-2"' in told
    assert "EXPECTED = {'locker': 'L-3'}" in told
    assert "is_expected" not in told
    assert report.state == "green"
    assert found.expected_answer == {"locker": "L-2"}
    assert found.reference is not None
    assert [call.tool for call in found.reference.calls] == ["list_lockers", "assign_locker"]
    assert found.reference.answer == '{"locker": "L-2"}'
