"""References: the shortest run that earns everything, executed once more; nobody's failure is taken for the task's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from synthesis.contracts import ReferenceCall
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import InfrastructureError, InputError, LLMError, SpendCapReached
from synthesis.formats.records import EnvironmentRecord
from synthesis.runtime import Sandbox
from synthesis.tasks.reference_search import UNSOLVED, solve_task

from .support import (
    DONE,
    GIVE,
    GONE,
    HANGING,
    HERS,
    ITEMS,
    LOOK,
    OTHERS,
    RECORD,
    SCENARIO,
    STATE,
    TAKEN,
    Scripted,
    Turn,
    assigned,
    function,
    run,
    task,
)

STRICT = ScenarioDraft(name="Strict", state=STATE | {"mode": "strict"})


def solved(
    sandbox: Sandbox,
    *teacher: Sequence[Turn],
    draft: TaskDraft | None = None,
    scenario: ScenarioDraft = SCENARIO,
    record: EnvironmentRecord = RECORD,
) -> TaskDraft:
    model = Scripted(teacher=teacher)
    given = draft or task()
    return run(lambda kit: solve_task(kit, record, scenario, given), model, sandbox, solver_runs=len(teacher))


def names(found: TaskDraft) -> list[str]:
    return [call.tool for call in found.reference.calls] if found.reference else []


def test_the_shortest_run_with_the_full_reward_is_the_reference(sandbox: Sandbox) -> None:
    wrong = [assigned("L-3"), DONE]
    found = solved(sandbox, [LOOK, LOOK, GIVE, DONE], [LOOK, GIVE, DONE], wrong)
    assert found.reference is not None
    assert found.reference.calls == (
        ReferenceCall(tool="list_lockers"),
        ReferenceCall(tool="assign_locker", arguments={"locker_id": "L-2", "member_id": "M-1"}),
    )
    assert found.reference.answer == "It is L-2."
    assert found.notes == ()
    assert found.checks == task().checks


def test_of_runs_as_short_the_first_counts(sandbox: Sandbox) -> None:
    found = solved(sandbox, [GIVE, "Locker L-2."], [GIVE, "It is L-2."])
    assert found.reference is not None
    assert found.reference.answer == "Locker L-2."


def test_each_run_is_a_sample_of_its_own(sandbox: Sandbox) -> None:
    model = Scripted(teacher=[[GIVE, DONE]])
    run(lambda kit: solve_task(kit, RECORD, SCENARIO, task()), model, sandbox, solver_runs=3)
    first = [call for call in model.calls if len(call.messages) == 2]
    assert sorted(call.site.sample for call in first) == [0, 1, 2]
    assert {(call.site.role, call.site.stage, call.site.item) for call in model.calls} == {
        ("teacher", "solve", "lockers/scenario-0/task-0")
    }


def test_refused_calls_are_left_out_where_the_end_is_the_same(sandbox: Sandbox) -> None:
    bad: list[Turn] = [TAKEN, ("no_such_tool", {}), ("assign_locker", {"locker": 1})]
    assert names(solved(sandbox, [LOOK, *bad, GIVE, DONE])) == ["list_lockers", "assign_locker"]


def test_refused_calls_that_leave_a_trace_stay_where_a_check_asks_for_it(sandbox: Sandbox) -> None:
    noted = task(HERS, GONE, function("final_state['refusals'] == ['L-1']"))
    found = solved(sandbox, [TAKEN, GIVE, DONE], scenario=STRICT, draft=noted)
    assert names(found) == ["assign_locker", "assign_locker"]
    assert names(solved(sandbox, [TAKEN, GIVE, DONE], scenario=STRICT)) == ["assign_locker"]


def test_acts_that_the_task_does_not_need_are_left_out_and_lookups_stay(sandbox: Sandbox) -> None:
    free, third = ("release_locker", {"locker_id": "L-3"}), assigned("L-3", "M-2")
    busy = [LOOK, third, LOOK, free, GIVE, ("release_locker", {"locker_id": "L-2"}), GIVE, DONE]
    found = solved(sandbox, busy)
    assert names(found) == ["list_lockers", "list_lockers", "assign_locker"]
    assert found.frame is not None
    assert {item.path for item in found.frame.allowances} == {"/lockers/L-2/member_id"}
    assert found == solved(sandbox, busy)


def test_every_run_stays_with_the_task_as_it_judges_them(sandbox: Sandbox) -> None:
    wider = [assigned("L-3", "M-2"), GIVE, DONE]
    odd = [("assign_locker", {"locker_id": "\ud800", "member_id": "M-1"}), "Half a character: \ud800"]
    loose = task(HERS, GONE)
    found = solved(sandbox, [LOOK, GIVE, DONE], wider, ["I give up."], odd, draft=loose)
    assert [(run.ordinal, run.outcome, run.unkept) for run in found.runs] == [
        (0, "solved", ""),
        (1, "failed", ""),  # it changed what the reference leaves alone
        (2, "failed", ""),
        (3, "failed", "cannot_be_stored"),
    ]
    changed = found.runs[1].attempt
    assert changed is not None
    assert changed.reward is not None
    assert [change.path for change in changed.reward.outside] == ["/lockers/L-3/member_id"]
    assert changed.timing.environment_s == changed.timing.agent_s == 0
    fewer = run(
        lambda kit: solve_task(kit, RECORD, SCENARIO, loose),
        Scripted(teacher=[[GIVE, DONE]]),
        sandbox,
        solver_runs=3,
        kept_runs=1,
    )
    assert [(one.outcome, one.unkept, one.attempt is None) for one in fewer.runs] == [
        ("solved", "", False),
        ("solved", "over_the_most", True),
        ("solved", "over_the_most", True),
    ]


def test_a_task_that_nobody_solved_says_so_and_by_which_checks(sandbox: Sandbox) -> None:
    never = function("final_state['lockers']['L-2']['floor'] == 7")
    found = solved(sandbox, [GIVE, DONE], [LOOK, "I give up."], draft=task(HERS, never, OTHERS))
    assert found.reference is None
    (note,) = found.notes
    assert note == f"{UNSOLVED}: the best of 2 runs earned 0.5. Passed in none of them: check 2 ({ITEMS[1]})."


def test_a_later_solution_takes_the_note_away(sandbox: Sandbox) -> None:
    before = task(notes=(f"{UNSOLVED}: the best of 1 runs earned 0.", "Something else."))
    assert solved(sandbox, [GIVE, DONE], draft=before).notes == ("Something else.",)


def test_a_run_without_its_llm_is_a_failure_not_a_task_without_reference(sandbox: Sandbox) -> None:
    lost: list[Turn] = [LOOK, LLMError("timeout", "no answer in time")]
    with pytest.raises(InfrastructureError, match="Run 2 of the teacher was lost: no answer in time"):
        solved(sandbox, [GIVE, DONE], lost)


def test_a_run_in_which_the_program_hangs_does_not_count(sandbox: Sandbox) -> None:
    hangs: list[Turn] = [("think", {}), DONE]
    found = solved(sandbox, hangs, record=HANGING)
    assert found.reference is None
    assert found.notes == (f"{UNSOLVED}: the best of 1 runs earned 0.",)


def test_the_cap_passes_through(sandbox: Sandbox) -> None:
    class Capped(Scripted):
        async def answer(self, call: Any) -> Any:
            raise SpendCapReached("enough")

    with pytest.raises(SpendCapReached):
        run(lambda kit: solve_task(kit, RECORD, SCENARIO, task()), Capped(), sandbox)


def test_an_endless_answer_is_no_reference(sandbox: Sandbox) -> None:
    assert solved(sandbox, [GIVE, "It is L-2. " * 5_000]).reference is None


def test_no_checks_are_no_input(sandbox: Sandbox) -> None:
    with pytest.raises(InputError, match="no checks"):
        solved(sandbox, [DONE], draft=task(checks=()))


def test_twice_the_same(sandbox: Sandbox) -> None:
    runs = ([LOOK, GIVE, DONE], [LOOK, TAKEN, GIVE, DONE], [GIVE, "L-2 it is."])
    found = solved(sandbox, *runs)
    assert found == solved(sandbox, *runs)
    assert names(found) == ["assign_locker"]
    assert GONE in [check.source for check in found.checks]
