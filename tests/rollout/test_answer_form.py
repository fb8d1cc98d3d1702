"""Attempts at a task with an answer form: the answer is submitted as data, mended so many times, or missing."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from synthesis.contracts import Attempt, PromptStyle, Tool
from synthesis.errors import InputError
from synthesis.rollout import STOP, AttemptSetting, Conversation, Plan, RandomPolicy, ReferencePolicy
from synthesis.rollout.by_hand import ByHandPolicy
from synthesis.runtime import Sandbox
from tests.fixtures.llm import Scripted, call, calls, llm_server, say
from tests.rollout.support import EXPECTED, FORM, PROGRAM, REFERENCE, chat_attempts, form_task, gather, of_model, texts
from tests.rollout.test_conversation import OPENS, both

OPENED = call("open_box", box_id="B-1")
RIGHT = call("submit_answer", **EXPECTED)
WRONG = call("submit_answer", box="B-1", boxes="one")
TALK = AttemptSetting(conversational=True)
SUBMITTED = json.dumps(EXPECTED)


def attempt(sandbox: Sandbox, script: list[Scripted], **setting: Any) -> tuple[Attempt, list[Any]]:
    with llm_server(script) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=AttemptSetting(**setting), make_task=form_task)
    return made, server.requests


def steps_of(made: Attempt) -> list[tuple[str, str, str]]:
    return [
        (step.kind, step.tool, step.result.error.kind if step.result and step.result.error else "")
        for step in made.steps
        if step.kind != "user"
    ]


def test_a_submitted_answer_ends_the_attempt_and_reaches_no_environment(sandbox: Sandbox) -> None:
    made, requests = attempt(sandbox, [OPENED, RIGHT])
    assert (made.outcome, made.ending, made.answer) == ("solved", "answered", SUBMITTED)
    assert made.reward is not None
    assert (made.reward.passed, made.reward.total) == (3, 3)
    last = made.steps[-1]
    assert (last.kind, last.tool, last.arguments) == ("call", "submit_answer", EXPECTED)
    assert last.result is not None
    assert (last.result.ok, last.result.executed, last.result.patch) == (True, False, [])
    assert "executed" not in made.steps[1].model_dump()["result"]
    assert last.model_dump()["result"]["executed"] is False
    assert Attempt.model_validate_json(made.model_dump_json()) == made
    offered = requests[0]["tools"]
    assert [tool["function"]["name"] for tool in offered] == [*(tool.name for tool in PROGRAM.tools), "submit_answer"]
    assert offered[-1]["function"]["parameters"]["required"] == ["box"]
    assert "submit_answer" in texts(requests[0])[0]
    assert "agent/end_task_by_call" in made.prompts
    assert len(requests) == 2


def test_an_answer_of_a_wrong_type_is_an_observation_that_names_the_field_and_may_be_mended(sandbox: Sandbox) -> None:
    made, requests = attempt(sandbox, [OPENED, WRONG, calls(("submit_answer", '{"box": ')), RIGHT])
    assert (made.outcome, made.answer) == ("solved", SUBMITTED)
    assert steps_of(made)[1:] == [
        ("call", "submit_answer", "malformed"),
        ("call", "submit_answer", "malformed"),
        ("call", "submit_answer", ""),
    ]
    assert 'boxes: expected a number, in boxes, found "one"' in texts(requests[2])[-1]
    assert "not valid JSON" in texts(requests[3])[-1]
    assert made.steps[2].arguments == {"box": "B-1", "boxes": "one"}


def test_after_so_many_wrong_answers_the_attempt_ends_as_the_agents_error(sandbox: Sandbox) -> None:
    made, requests = attempt(sandbox, [OPENED, WRONG], max_answer_mends=2)
    assert (made.outcome, made.ending, made.answer) == ("agent_error", "unusable", "")
    assert len(requests) == 4
    assert "did not fit the answer form 3 times" in made.note
    assert made.reward is not None
    assert made.reward.passed == 1, "what it did is judged all the same"
    twice = calls(("submit_answer", {}), ("submit_answer", EXPECTED))
    made, _ = attempt(sandbox, [twice], max_answer_mends=0)
    assert (made.ending, made.note.endswith("the answer form once.")) == ("unusable", True)


def test_calls_behind_the_answer_are_not_carried_out_and_say_so(sandbox: Sandbox) -> None:
    turn = calls(("open_box", {"box_id": "B-1"}), ("submit_answer", EXPECTED), ("open_box", {"box_id": "B-2"}))
    made, requests = attempt(sandbox, [turn])
    assert (made.outcome, len(requests)) == ("solved", 1)
    assert steps_of(made)[-1] == ("call", "open_box", "malformed")
    assert "submitted before it" in made.steps[-1].observation
    assert [item.role for item in made.messages][-3:] == ["tool", "tool", "tool"]


def test_words_are_no_answer_and_count_against_what_may_be_mended(sandbox: Sandbox) -> None:
    made, requests = attempt(sandbox, [OPENED, say("It was B-1, her only box."), RIGHT])
    assert (made.outcome, made.answer) == ("solved", SUBMITTED)
    assert "calling submit_answer" in texts(requests[2])[-1]
    assert (made.steps[2].kind, made.steps[2].content) == ("message", "It was B-1, her only box.")
    assert made.steps[2].observation == texts(requests[2])[-1]
    made, requests = attempt(sandbox, [OPENED, say("It was B-1.")])
    assert (made.ending, made.answer, len(requests)) == ("unusable", "", 5)


def test_a_cut_answer_is_no_answer_and_a_cut_turn_with_a_whole_one_is(sandbox: Sandbox) -> None:
    broken = calls(("submit_answer", '{"box": "B-'), finish="length")
    made, requests = attempt(sandbox, [OPENED, broken])
    assert (made.outcome, made.ending, made.answer, len(requests)) == ("truncated", "cut", "", 2)
    assert "broken off" in made.note
    made, _ = attempt(sandbox, [OPENED, calls(("submit_answer", EXPECTED), finish="length")])
    assert (made.outcome, made.steps[-1].cut) == ("solved", "length")
    made, _ = attempt(sandbox, [OPENED, say("I think", finish="length"), RIGHT])
    assert made.outcome == "solved", "words that were cut are refused as any words are"
    made, requests = attempt(sandbox, [say('{"box": "B-', finish="length")], prompt_style="call")
    assert (made.ending, len(requests)) == ("cut", 1)


@pytest.mark.parametrize(
    ("style", "opens", "words"),
    [
        ("react", 'Action: open_box\nAction Input: {"box_id": "B-1"}', "Thought: done.\nAnswer: {}"),
        ("call", '[open_box(box_id="B-1")]', "```json\n{}\n```"),
    ],
)
def test_text_styles_give_the_object_in_their_last_message(
    sandbox: Sandbox, style: PromptStyle, opens: str, words: str
) -> None:
    wrong, right = words.replace("{}", '{"box": 7}'), words.replace("{}", SUBMITTED)
    made, requests = attempt(sandbox, [say(opens), say("B-1."), say(wrong), say(right)], prompt_style=style)
    assert (made.outcome, made.ending, made.answer) == ("solved", "answered", SUBMITTED)
    assert steps_of(made) == [
        ("call", "open_box", ""),
        ("message", "", ""),
        ("call", "submit_answer", "malformed"),
        ("call", "submit_answer", ""),
    ]
    system = texts(requests[0])[0]
    assert "- box: The box that was opened; the id of a record, as a text" in system
    assert "- boxes: How many boxes she has; a number, in boxes (may be left out)" in system
    assert "submit_answer" not in system
    assert "none was found" in texts(requests[2])[-1]
    assert "box: expected the id of a record" in texts(requests[3])[-1]
    made, requests = attempt(sandbox, [say(opens), say(wrong)], prompt_style=style, max_answer_mends=1)
    assert (made.ending, len(requests)) == ("unusable", 3)


def test_in_a_conversation_the_agent_alone_knows_the_form_and_may_submit_at_any_time(sandbox: Sandbox) -> None:
    agent = [say("Whose box?"), OPENED, say("It is open."), RIGHT]
    with llm_server(both(agent, [OPENS, say("Ada's."), say("And is it empty?")])) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK, make_task=form_task)
    assert (made.outcome, made.ending, made.answer) == ("solved", "answered", SUBMITTED)
    heard = str(of_model(server.requests, "user"))
    assert "submit_answer" not in heard
    assert "boxes she has" not in heard


def test_the_users_stop_asks_for_the_answer_once(sandbox: Sandbox) -> None:
    user = [OPENS, say(STOP)]
    agent = [OPENED, say("It is open."), say("As I said."), WRONG, RIGHT]
    with llm_server(both(agent, user)) as server:
        (made,) = chat_attempts(
            sandbox, server.url, setting=AttemptSetting(conversational=True, max_turns=2), make_task=form_task
        )
    assert (made.outcome, made.ending, made.answer) == ("solved", "user_stopped", SUBMITTED)
    assert len(of_model(server.requests, "user")) == 2, "what is said afterwards reaches no user"
    stop = next(step for step in made.steps if step.content == STOP)
    assert "ended the conversation" in stop.observation
    assert stop.observation in texts(of_model(server.requests, "agent")[2])
    assert steps_of(made)[2:] == [
        ("message", "", ""),
        ("call", "submit_answer", "malformed"),
        ("call", "submit_answer", ""),
    ]
    with llm_server(both([OPENED, say("It is open.")], user)) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK, make_task=form_task)
    assert (made.ending, made.answer) == ("unusable", "")


def test_in_a_conversation_of_a_text_style_an_object_alone_is_the_answer(sandbox: Sandbox) -> None:
    agent = [say('[open_box(box_id="B-1")]'), say('Look: {"box": 1}'), say(SUBMITTED)]
    with llm_server(both(agent, [OPENS, say("Fine.")])) as server:
        (made,) = chat_attempts(
            sandbox,
            server.url,
            setting=AttemptSetting(conversational=True, prompt_style="call"),
            make_task=form_task,
        )
    assert (made.outcome, made.ending, made.answer) == ("solved", "answered", SUBMITTED)
    assert steps_of(made)[1] == ("message", "", "")


@pytest.mark.parametrize("style", ["tools", "react", "call"])
def test_policies_that_know_the_answer_submit_it(sandbox: Sandbox, style: PromptStyle) -> None:
    known = REFERENCE.model_copy(update={"answer": SUBMITTED})
    setting = AttemptSetting(prompt_style=style)
    plans = [
        Plan(form_task(), ReferencePolicy(known), setting, ordinal=0),
        Plan(form_task(), ByHandPolicy("ann", known.calls, SUBMITTED), setting, ordinal=1),
        Plan(form_task(), RandomPolicy(seed=3, calls=0), setting, ordinal=2),
        Plan(form_task(), ReferencePolicy(REFERENCE), setting, ordinal=3),
    ]
    made = sorted(gather(sandbox, plans), key=lambda one: one.ordinal)
    assert [(one.outcome, one.ending) for one in made] == [
        ("solved", "answered"),
        ("solved", "answered"),
        ("failed", "answered"),
        ("agent_error", "unusable"),
    ]
    assert "not a JSON object" in made[3].note


def test_random_answers_fit_every_type() -> None:
    from synthesis.contracts import AnswerField
    from synthesis.formats.answer_form import build_answer_tool, read_submission

    kinds = ("number", "money", "date", "time", "duration", "id", "name", "boolean", "text")
    fields = [AnswerField(name=f"a_{kind}", type=kind) for kind in kinds]
    inner = AnswerField(name="kept", type="record", fields=tuple(fields[:2]))
    fields += [AnswerField(name="sort", type="enumeration", choices=("red", "blue")), inner]
    form = (*fields, AnswerField(name="listed", type="list", items=inner))
    asked = Conversation(messages=(), tools=(build_answer_tool(form),), answer_form=form)
    for seed in range(20):
        (made,) = asyncio.run(RandomPolicy(seed=seed, calls=0).act(asked)).message.tool_calls
        assert read_submission(form, made.arguments)


def test_an_environment_with_a_tool_of_that_name_has_no_tasks_with_a_form() -> None:
    program = PROGRAM.model_copy(update={"tools": (*PROGRAM.tools, Tool(name="submit_answer"))})
    with pytest.raises(InputError, match="a tool named submit_answer of its own"):
        Plan(form_task(program=program), ReferencePolicy(REFERENCE))
    Plan(form_task(program=program, answer_form=()), ReferencePolicy(REFERENCE))
    assert FORM
