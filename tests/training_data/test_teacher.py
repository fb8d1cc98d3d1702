from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from synthesis.contracts import Attempt, Injection, Message
from synthesis.errors import InfrastructureError, LLMError, SpendCapReached
from synthesis.formats.records import ToolRecord
from synthesis.pipeline import ENVSCALER
from synthesis.rollout import STOP, build_attempt_seed
from synthesis.runtime import Sandbox
from synthesis.stages import Kit, StageSettings
from synthesis.tasks.teacher import attempt_task
from synthesis.tasks.trajectory_filters import build_attempt_facts, build_first_filters, find_dropping_filter
from tests.training_data.kits import RECORD, SCENARIO, TASK, Scripted, call, kit, say

SOLVES: list[Message | Exception] = [
    call("find_box", owner="Ada"),
    call("open_box", box_id="B-1"),
    say("Her box B-1 is open."),
]


def taught(found: Kit, conversational: bool = False, ordinal: int = 0) -> Attempt:
    return asyncio.run(attempt_task(found, RECORD, SCENARIO, TASK, conversational, ordinal))


def test_the_teacher_works_alone_and_all_of_what_it_saw_is_kept(sandbox: Sandbox) -> None:
    teacher = Scripted(list(SOLVES))
    made = taught(kit(sandbox, teacher=teacher), ordinal=2)
    assert (made.outcome, made.ending, made.ordinal, made.conversational) == ("solved", "answered", 2, False)
    assert made.messages[0].role == "system"
    assert "A shelf of boxes." in made.messages[0].content
    assert "Only its owner's box may be opened." in made.messages[0].content
    assert [tool.name for tool in teacher.asked[0][1]] == ["find_box", "open_box"]
    assert made.messages[2].reasoning == "find_box it is."


def test_in_a_conversation_a_user_with_the_intent_talks(sandbox: Sandbox) -> None:
    user = Scripted([say("I am Ada. Open my box, please."), say(f"Thank you.\n{STOP}")])
    made = taught(kit(sandbox, teacher=Scripted(list(SOLVES)), user=user), conversational=True)
    assert (made.outcome, made.ending, made.conversational) == ("solved", "user_stopped", True)
    assert TASK.instruction in user.asked[0][0][0].content
    assert not user.asked[0][1], "a user has no tools"
    assert [message.role for message in made.messages][:2] == ["system", "user"]


def test_who_speaks_with_teachers_is_a_setting(sandbox: Sandbox) -> None:
    for kind in ("optimised", "base"):
        user = Scripted([say("I am Ada. Open my box, please."), say(STOP)])
        settings = StageSettings(teacher_user=kind)
        made = taught(kit(sandbox, settings, teacher=Scripted(list(SOLVES)), user=user), conversational=True)
        assert made.user.startswith(f"{kind} (")


def test_the_calls_of_teachers_are_disturbed_as_the_batch_says(sandbox: Sandbox) -> None:
    settings = StageSettings(teacher_failures=1.0)
    found = kit(sandbox, settings, teacher=Scripted(list(SOLVES)))
    made = taught(found)
    assert (made.outcome, made.disturbance_seed) == ("failed", build_attempt_seed(found.seed, found.path, 0))
    calls = [step for step in made.steps if step.kind == "call"]
    assert [step.injected for step in calls] == [Injection(fault="unavailable", carried_out=False)] * 2
    assert build_attempt_facts(made).refused == ("not_reached",) * 2
    dropped = find_dropping_filter(build_attempt_facts(made), build_first_filters())
    assert dropped is None, "an injected failure is no broken format and no infrastructure error"
    with pytest.raises(ValueError, match="one of both at most"):
        StageSettings(teacher_failures=0.6, teacher_error_results=0.6)


def test_the_user_who_speaks_with_teachers_may_have_tools_of_its_own(sandbox: Sandbox) -> None:
    """Names are for all environments of a batch: what one does not have is left out, and none is left without tools."""
    teacher = Scripted([call("find_box", owner="Ada"), say("Open B-1, please."), say("Thank you.")])
    user = Scripted([say("I am Ada. My box is stuck."), call("open_box", box_id="B-1"), say("It is open."), say(STOP)])
    settings = StageSettings(teacher_user_tools=("open_box", "of_another_environment"))
    made = taught(kit(sandbox, settings, teacher=teacher, user=user), conversational=True)
    assert (made.outcome, made.user_tools) == ("solved", ("open_box",))
    assert [tool.name for tool in teacher.asked[0][1]] == ["find_box"]
    assert [tool.name for tool in user.asked[0][1]] == ["open_box"]
    assert [step.by for step in made.steps if step.kind == "call"] == ["agent", "user"]
    assert not any("open_box" in str(message) for message in made.messages)
    user = Scripted([say("I am Ada. Open my box, please."), say(STOP)])
    settings = StageSettings(teacher_user_tools=("open_box", "find_box"))
    assert taught(kit(sandbox, settings, teacher=Scripted(list(SOLVES)), user=user), True).user_tools == ()


def test_teachers_try_unsolved_tasks_if_that_is_asked_for() -> None:
    settings = StageSettings(teacher_runs=2, withheld_runs=1)
    assert ENVSCALER.barren_parts("task", settings) == []
    wanted = ENVSCALER.barren_parts("task", settings.model_copy(update={"teach_unsolved": True}))
    assert [part.spec.withheld for part in wanted] == [False] * 4, "variants are of solved tasks"


def test_calls_are_stored_by_item_role_and_ordinal_and_replayed(sandbox: Sandbox) -> None:
    teacher = Scripted(list(SOLVES))
    found = kit(sandbox, teacher=teacher)
    first, again = taught(found), taught(found)
    assert again.messages == first.messages
    assert len(teacher.asked) == 3, "the second time every reply is known"
    taught(found, ordinal=1)
    assert len(teacher.asked) > 3, "another ordinal is another sample"


def test_an_infrastructure_failure_is_raised_so_that_it_is_made_again(sandbox: Sandbox) -> None:
    lost = Scripted([call("find_box", owner="Ada"), LLMError("timeout", "The teacher is silent.", requests=3)])
    with pytest.raises(InfrastructureError, match="silent"):
        taught(kit(sandbox, teacher=lost))


def test_a_program_that_hangs_is_a_fact_about_the_attempt(sandbox: Sandbox) -> None:
    hanging = RECORD.model_copy(update={"tools": (*RECORD.tools, ToolRecord(name="think"))})
    found = kit(sandbox, teacher=Scripted([call("think")]))
    made = asyncio.run(attempt_task(found, hanging, SCENARIO, TASK, False, 0))
    assert (made.outcome, made.reward, made.user_error) == ("program_error", None, False)


def test_a_user_without_usable_words_is_a_fact_about_the_attempt(sandbox: Sandbox) -> None:
    made = taught(kit(sandbox, teacher=Scripted(list(SOLVES)), user=Scripted([say("…")])), conversational=True)
    assert made.user_error
    assert (made.outcome, made.reward) == ("infra_error", None)


def test_the_spend_cap_goes_through(sandbox: Sandbox) -> None:
    capped = Scripted([call("find_box", owner="Ada"), SpendCapReached("The cap is reached.")])
    with pytest.raises(SpendCapReached):
        taught(kit(sandbox, teacher=capped))


def test_a_person_can_stop_it_between_steps(sandbox: Sandbox) -> None:
    class Stopped(Exception):
        pass

    def stop() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        taught(replace(kit(sandbox, teacher=Scripted(list(SOLVES))), check_stop=stop))
