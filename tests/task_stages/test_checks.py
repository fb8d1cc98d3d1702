"""Check functions: tried on the state at the start; what raises, says nothing or cannot vary does not get in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from synthesis.drafts import TaskDraft
from synthesis.errors import InfrastructureError, InputError, MalformedReply, Rejected
from synthesis.runtime import Sandbox, encode_state
from synthesis.tasks.checks import write_checks
from synthesis.tasks.damaged_states import build_damaged_states

from .support import (
    FORM,
    GONE,
    HERS,
    ITEMS,
    OTHERS,
    RECORD,
    SCENARIO,
    STATE,
    Scripted,
    by_sample,
    code,
    function,
    run,
    task,
)

DRAFT = task(checks=())


def checked(sandbox: Sandbox, model: Scripted, draft: TaskDraft = DRAFT, **settings: Any) -> TaskDraft:
    return run(lambda kit: write_checks(kit, RECORD, SCENARIO, draft), model, sandbox, **settings)


def one(*replies: str) -> Scripted:
    """The second check is written as given, the others are sound."""
    sound = {0: HERS, 2: OTHERS}
    later = iter([*replies, *[replies[-1]] * 3])

    def say(call: Any) -> str:
        return code(sound[call.site.sample]) if call.site.sample in sound else next(later)

    return Scripted({"check_function": say})


def test_each_item_gets_its_function(sandbox: Sandbox) -> None:
    model = Scripted({"check_function": by_sample(HERS, GONE, OTHERS)})
    found = checked(sandbox, model)
    assert [check.label for check in found.checks] == list(ITEMS)
    assert [check.source.strip() for check in found.checks] == [source.strip() for source in (HERS, GONE, OTHERS)]
    assert found.notes == ()
    assert sorted(call.site.sample for call in model.calls) == [0, 1, 2]
    assert all(ITEMS[call.site.sample] in call.messages[0].content for call in model.calls)


HOPELESS = [
    ("check_invalid", "KeyError", function("final_state['absent'] == 1")),
    ("check_invalid", "reads `answer` by itself", function("'L-2' in answer.upper()")),
    ("check_invalid", "not a boolean", function("len(final_state)")),
    ("check_invalid", "not a boolean", function("None if final_state else False")),
    ("check_invalid", "stopped (time)", function("True if final_state else False", "while final_state: pass")),
    ("check_invalid", "the module 'requests' is not in the language", function("bool(final_state)", "import requests")),
    ("check_invalid", "it is not Python", "def check(initial_state, final_state, answer)\n    return True\n"),
    ("check_invalid", "the function must be", "def check(final_state):\n    return bool(final_state)\n"),
    ("check_invalid", "there must be one function", HERS + HERS.replace("check(", "check_func(")),
    ("check_invalid", "beside imports there must be", HERS + "\nFOUND = check({}, {}, '')\n"),
    ("check_invalid", "at most 8,000", function(f"final_state['x'] == {'1' * 9_000!r}")),
    ("check_invalid", "no check: the task asks for none", function("final_state and answer is None")),
    ("check_invalid", "has no field 'number'", function("answer_value(answer, 'number') == 'L-2'")),
    ("check_never_varies", "can never vary", function("True")),
    ("check_never_varies", "can never vary", function("False", "print(final_state)")),
    ("check_never_varies", "neither final_state nor answer", function("bool(initial_state)")),
]


@pytest.mark.parametrize(
    ("reason", "told", "source"), HOPELESS, ids=[f"{n} {one[1]}" for n, one in enumerate(HOPELESS)]
)
def test_a_function_that_is_no_check_is_asked_again_and_then_rejected(
    sandbox: Sandbox, reason: str, told: str, source: str
) -> None:
    model = one(code(source), code(GONE))
    assert checked(sandbox, model).checks[1].source.strip() == GONE.strip()
    again = [call for call in model.calls if len(call.messages) > 1]
    assert [call.site.sample for call in again] == [1]
    assert told in again[0].messages[-1].content
    with pytest.raises(Rejected) as found:
        checked(sandbox, one(code(source)))
    assert found.value.reason == reason


def test_what_is_no_code_is_a_failure_not_a_fact(sandbox: Sandbox) -> None:
    with pytest.raises(MalformedReply):
        checked(sandbox, one("I'm sorry, I can't help with that."))


def test_nothing_of_a_check_runs_here(sandbox: Sandbox, tmp_path: Any) -> None:
    mark = tmp_path / "ran"
    sly = function("final_state is None", f"open({str(mark)!r}, 'w')")
    with pytest.raises(Rejected, match="`open` is not in the language"):
        checked(sandbox, one(code(sly)))
    assert not mark.exists()


def test_a_guard_that_nothing_breaks_is_asked_about_once_and_noted(sandbox: Sandbox) -> None:
    idle = function("isinstance(final_state['lockers'], dict)")
    model = Scripted({"check_function": by_sample(HERS, GONE, idle)})
    found = checked(sandbox, model)
    assert len(model.calls) == 4
    assert "every damaged copy of it" in model.last_words()
    assert found.checks[2].source.strip() == idle.strip()
    assert found.notes == (f"Check 3 ({ITEMS[2]}) may never fail: it held on every damaged state that was tried.",)


OPEN = task(checklist=(ITEMS[0], "`locker` in the answer is Ada's locker", ITEMS[2]), checks=(), answer_form=FORM)
"""Without an expected value: a check must read the field."""
READS = function("final_state['lockers'].get(str(answer_value(answer, 'locker')), {}).get('member_id') == 'M-1'")


def test_a_field_without_an_expected_value_is_read_by_the_check_that_names_it(sandbox: Sandbox) -> None:
    model = one(code(GONE), code(READS))
    found = checked(sandbox, model, OPEN)
    assert [check.source.strip() for check in found.checks] == [source.strip() for source in (HERS, READS, OTHERS)]
    told = {call.site.sample: call.messages[0].content for call in model.calls}
    assert "- `locker` (the id of a record, as a text): The number of her locker" in told[1]
    assert "answer_value" not in told[0] + told[2]
    assert 'the condition is on the answer: read it by `answer_value(answer, "locker")`' in model.last_words()


def test_checks_of_the_answer_form_stand_behind_the_authors(sandbox: Sandbox) -> None:
    repeats = function("answer_value(answer, 'locker') == 'L-2'")
    expecting = DRAFT.model_copy(update={"answer_form": FORM, "expected_answer": {"locker": "L-2"}})
    found = checked(sandbox, one(code(repeats)), expecting)
    assert [check.label for check in found.checks] == [
        ITEMS[0],
        ITEMS[2],
        "The answer is right: The number of her locker",
    ]
    assert found.notes == (f"Check 2 ({ITEMS[1]}) repeats the answer form, and was left out.",)
    asked = expecting.model_copy(update={"checklist": ITEMS[2:]})
    alone = checked(sandbox, Scripted({"check_function": code(OTHERS)}), asked)
    assert len(alone.checks) == 2, "what is asked is a goal by itself"


def test_the_prompt_of_a_check_holds_what_its_condition_names(sandbox: Sandbox) -> None:
    model = Scripted({"check_function": by_sample(HERS, GONE, OTHERS)})
    many = {f"M-{number}": {"name": f"Person {number}", "note": "x" * 90} for number in range(3, 400)}
    full = {**STATE, "members": {**STATE["members"], **many, "M-900": {"name": "Zoe Last"}}}
    items = ("Zoe Last is still a member", "Locker L-2 is no longer free", "The other lockers are as before")
    scenario = SCENARIO.model_copy(update={"state": full})
    draft = DRAFT.model_copy(update={"checklist": items})
    run(lambda kit: write_checks(kit, RECORD, scenario, draft), model, sandbox)
    told = {call.site.sample: call.messages[0].content for call in model.calls}
    assert "Zoe Last" in told[0].partition("The condition,")[0]
    assert "more are not shown" in told[0]
    assert told[0].count('"Person ') <= 2, "others are examples"
    assert all(len(words) < 9_000 for words in told.values())
    assert all(one not in told[0] for one in items[1:])


def test_repeated_functions_are_left_out(sandbox: Sandbox) -> None:
    again = '"""Another."""\n    # the same\n    ' + HERS.partition("pass\n")[2].strip()
    same = f"def check(initial_state, final_state, answer):\n    pass\n    {again.partition(chr(10))[2].strip()}\n"
    found = checked(sandbox, Scripted({"check_function": by_sample(HERS, same, OTHERS)}))
    assert [check.label for check in found.checks] == [ITEMS[0], ITEMS[2]]
    assert found.notes == (f"Check 2 ({ITEMS[1]}) does the same as check 1, and was left out.",)
    assert found.checklist == ITEMS


def test_by_proportion_guards_are_left_out(sandbox: Sandbox) -> None:
    model = Scripted({"check_function": by_sample(HERS, GONE, OTHERS)})
    found = checked(sandbox, model, DRAFT.model_copy(update={"rule": "proportion"}))
    assert [check.label for check in found.checks] == [ITEMS[0], ITEMS[1]]
    assert "by proportion it was left out" in found.notes[0]


@pytest.mark.parametrize("rule", ["goals", "proportion"])
def test_a_task_without_a_goal_is_rejected(sandbox: Sandbox, rule: str) -> None:
    members = function("final_state['members'] == initial_state['members']")
    refusals = function("final_state['refusals'] == []")
    model = Scripted({"check_function": by_sample(OTHERS, members, refusals)})
    with pytest.raises(Rejected, match="nothing is there to reach") as found:
        checked(sandbox, model, DRAFT.model_copy(update={"rule": rule}))
    assert found.value.reason == "no_goal_check"


def test_of_several_rejections_the_first_in_order_is_told(sandbox: Sandbox) -> None:
    for _ in range(3):
        model = Scripted({"check_function": by_sample(HERS, function("True"), function("len(final_state)"))})
        with pytest.raises(Rejected) as found:
            checked(sandbox, model)
        assert found.value.reason == "check_never_varies"


def test_a_task_without_a_checklist_is_no_input(sandbox: Sandbox) -> None:
    with pytest.raises(InputError, match="no checklist"):
        checked(sandbox, Scripted(), DRAFT.model_copy(update={"checklist": ()}))


def test_damaged_states_differ_everywhere_and_keep_what_is_tagged() -> None:
    start = encode_state(STATE | {"refusals": [], "mode": "", "seen": {"a"}, "count": 3, "open": True})
    found = build_damaged_states(start)
    assert len(found) == 4
    assert all(one.keys() == start.keys() and one["seen"] == start["seen"] for one in found)
    assert all(one != start for one in found)
    emptied, altered, extended, shortened = found
    assert emptied["lockers"] == {}
    assert (altered["count"], altered["open"], altered["lockers"]["L-1"]["floor"]) == (4, False, 1)
    assert len(extended["lockers"]) == 4
    assert extended["refusals"] == [{}]
    assert list(shortened["lockers"]) == ["L-1", "L-2"]
    assert start["lockers"]["L-1"]["floor"] == 0


def test_a_lost_sandbox_is_no_fact_about_the_check(sandbox: Sandbox) -> None:
    class Losing:
        def __getattr__(self, name: str) -> Any:
            return getattr(sandbox, name)

        def evaluate_checks(self, *given: Any, **more: Any) -> Any:
            raise InfrastructureError("the sandbox is gone")

    model = Scripted({"check_function": by_sample(HERS, GONE, OTHERS)})
    with pytest.raises(InfrastructureError, match="the sandbox is gone"):
        checked(Losing(), model)  # type: ignore[arg-type]


def test_a_stop_between_tries_passes_through(sandbox: Sandbox) -> None:
    model = one(code(function("True")))

    def stop() -> None:
        if len(model.calls) > 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        run(lambda kit: write_checks(replace(kit, check_stop=stop), RECORD, SCENARIO, DRAFT), model, sandbox)
    assert len(model.calls) == 4
