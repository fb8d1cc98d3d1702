"""Attempts with a simulated user: who sees what, who ends it, and whose fault a failure is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from synthesis.contracts import Attempt, Message
from synthesis.errors import InputError, LLMError
from synthesis.llm.client import connect_to_endpoint
from synthesis.prompts import get_prompt
from synthesis.rollout import STOP, AttemptSetting, ChatPolicy, Plan, ReferencePolicy, SimulatedUser, run_attempts
from synthesis.rollout.user import find_reply_problem, split_stop
from synthesis.runtime import Sandbox
from tests.fixtures.llm import Request, Script, Scripted, call, calls, llm_server, refuse, say
from tests.rollout.support import (
    ANSWERED,
    DOCUMENTATION,
    INSTRUCTION,
    REFERENCE,
    chat_attempts,
    endpoint,
    of_model,
    task,
    texts,
)

TALK = AttemptSetting(conversational=True)
OPENS = say("Hi, I would like a box opened.")


def both(agent: list[Scripted], user: list[Scripted]) -> Script:
    """A script for two models behind one server; the last reply of each is repeated."""
    played = {"agent": 0, "user": 0}

    def script(request: Request) -> Scripted:
        who = request["model"]
        lines = agent if who == "agent" else user
        played[who] += 1
        return lines[min(played[who], len(lines)) - 1]

    return script


@pytest.mark.parametrize(("told", "outcome"), [("It is B-1.", "solved"), ("I shall see to it.", "failed")])
def test_a_check_sees_all_that_the_user_was_told(sandbox: Sandbox, told: str, outcome: str) -> None:
    agent = [call("open_box", box_id="B-1"), say(told), say("Gladly. It is done.")]
    user = [OPENS, say("Thanks. Is it open now?"), say(STOP)]
    with llm_server(both(agent, user)) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK, make_task=lambda: task(checks=ANSWERED))
    assert (made.outcome, made.answer) == (outcome, f"{told}\n\nGladly. It is done.")


def test_the_user_opens_hears_words_alone_and_ends_the_talk(sandbox: Sandbox) -> None:
    agent = [say("Whose box?"), call("find_box", owner="Ada"), call("open_box", box_id="B-1"), say("B-1 is open.")]
    user = [OPENS, say("Mine, I am Ada."), say(f"Thank you!\n{STOP}")]
    with llm_server(both(agent, user)) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK)
    assert (made.outcome, made.ending, made.answer) == ("solved", "user_stopped", "Whose box?\n\nB-1 is open.")
    assert [(step.kind, step.content) for step in made.steps if step.kind != "call"] == [
        ("user", "Hi, I would like a box opened."),
        ("message", "Whose box?"),
        ("user", "Mine, I am Ada."),
        ("message", "B-1 is open."),
        ("user", f"Thank you!\n{STOP}"),
    ]
    heard = of_model(server.requests, "user")[-1]
    assert [item["role"] for item in heard["messages"]] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert INSTRUCTION in texts(heard)[0]
    assert "open_box" not in str(heard), "a user does not see calls and results"
    assert "tools" not in heard
    assert made.timing.user_s > 0
    assert made.user_usage.requests == 3
    assert made.user == "optimised (scripted/user)"
    assert {"agent/conversation", "user/optimised"} <= set(made.prompts)


def test_the_agent_of_a_conversation_sees_documentation_and_tools_but_not_the_task(sandbox: Sandbox) -> None:
    with llm_server(both([say("Whose box?")], [OPENS, say(STOP)])) as server:
        chat_attempts(sandbox, server.url, setting=TALK)
    first = of_model(server.requests, "agent")[0]
    system, opening = texts(first)
    assert DOCUMENTATION in system
    assert first["tools"]
    assert opening == "Hi, I would like a box opened."
    assert INSTRUCTION not in str(first)


def test_a_stop_token_inside_other_text_does_not_end_the_talk(sandbox: Sandbox) -> None:
    user = [OPENS, say(f"I would say {STOP} but you are not done."), say(f"  {STOP}  ")]
    with llm_server(both([say("Anything else?")], user)) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK)
    assert made.ending == "user_stopped"
    assert len([step for step in made.steps if step.kind == "message"]) == 2


def test_a_stop_token_of_the_agent_ends_nothing(sandbox: Sandbox) -> None:
    with llm_server(both([say(STOP), say("Sorry.")], [OPENS, say("What?"), say(STOP)])) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK)
    assert [step.content for step in made.steps if step.kind == "message"] == [STOP, "Sorry."]


@pytest.mark.parametrize(
    ("text", "said", "stopped"),
    [
        (STOP, "", True),
        (f"Bye\n\n {STOP}\t", "Bye", True),
        (f"{STOP}\nand more", "", True),
        (f"{STOP}!", f"{STOP}!", False),
        ("Bye", "Bye", False),
        ("", "", False),
    ],
)
def test_only_a_line_of_its_own_is_a_stop(text: str, said: str, stopped: bool) -> None:
    assert split_stop(text) == (said, stopped)


def test_at_the_turn_limit_of_a_conversation_the_state_is_judged(sandbox: Sandbox) -> None:
    agent = [call("open_box", box_id="B-1"), say("Anything else?")]
    with llm_server(both(agent, [OPENS, say("Hm, let me think.")])) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=AttemptSetting(conversational=True, max_turns=5))
    assert (made.ending, made.outcome) == ("turn_limit", "solved")
    assert max(step.turn for step in made.steps) == 5


def test_an_unusable_line_of_the_user_is_asked_for_again(sandbox: Sandbox) -> None:
    user = [say(""), say("..."), OPENS, say(STOP)]
    with llm_server(both([say("Yes?")], user)) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK)
    assert made.steps[0].content == "Hi, I would like a box opened."
    assert "could not be used" in texts(server.requests[1])[-1]
    assert made.user_usage.requests == 4
    assert not made.user_error


def test_a_user_that_says_nothing_usable_is_no_failure_of_the_agent(sandbox: Sandbox) -> None:
    with llm_server(both([say("Yes?")], [OPENS, say("")])) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK)
    assert (made.outcome, made.reward, made.user_error) == ("infra_error", None, True)
    assert "3 times" in made.note
    assert made.user_usage.requests == 4
    assert [step.kind for step in made.steps] == ["user", "message"], "what happened before is kept"


def test_a_user_that_cannot_be_reached_is_an_infrastructure_error(sandbox: Sandbox) -> None:
    with llm_server(both([say("Yes?")], [OPENS, refuse(500, "out of memory")])) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK)
    assert (made.outcome, made.reward, made.user_error) == ("infra_error", None, False)
    assert "out of memory" in made.note
    assert (made.user_usage.requests, made.user_usage.lost) == (2, 1)


@pytest.mark.parametrize(
    ("reply", "first", "why"),
    [
        (Message(role="assistant", content=STOP), True, "before it began"),
        (Message(role="assistant", content="…"), False, "nothing said"),
        (Message(role="assistant", content="x" * 9_000), False, "longer than"),
        (Message(role="assistant", content="Hello"), True, ""),
        (Message(role="assistant", content=STOP), False, ""),
    ],
)
def test_what_a_user_may_not_say(reply: Message, first: bool, why: str) -> None:
    content, stopped = split_stop(reply.content)
    found = find_reply_problem(reply, content, stopped, first=first)
    assert why in found
    assert bool(found) == bool(why)


def test_a_user_that_calls_tools_is_asked_again(sandbox: Sandbox) -> None:
    with llm_server(both([say("Yes?")], [calls(("open_box", {})), OPENS, say(STOP)])) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK)
    assert "no tools" in texts(server.requests[1])[-1]
    assert made.ending == "user_stopped"


@pytest.mark.parametrize("kind", ["base", "optimised"])
def test_both_users_know_the_intent_and_how_to_stop(sandbox: Sandbox, kind: str) -> None:
    with llm_server(both([say("Yes?")], [OPENS, say(STOP)])) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=TALK, user=kind)
    system = texts(server.requests[0])[0]
    assert INSTRUCTION in system
    assert STOP in system.splitlines()
    assert made.prompts[f"user/{kind}"] == get_prompt("user", kind).sha256


def test_the_optimised_user_has_every_rule_of_the_paper() -> None:
    text = get_prompt("user", "optimised").text.lower()
    for rule in ("one line a turn", "only what the step needs", "do not remember", "dates, times, amounts"):
        assert rule in text
    for rule in ('"the same" is not "a similar one"', "if a part is missing", "hands you to a person"):
        assert rule in text


def test_a_conversation_without_a_user_is_refused_at_once() -> None:
    with pytest.raises(InputError, match="simulated user"):
        Plan(task(), ReferencePolicy(REFERENCE), TALK)


class Judge:
    """A judge that cannot be asked."""

    name = "judge"

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def complete(self, *messages: Any, **parameters: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (LLMError("unreachable", "Nobody is there."), "could not be asked: Nobody"),
        (TimeoutError(), "said nothing for 3600 seconds"),
    ],
)
def test_a_judge_of_the_user_that_is_away_costs_no_reward(sandbox: Sandbox, error: Exception, note: str) -> None:
    setting = TALK.model_copy(update={"judges_user": True})
    with pytest.raises(InputError, match="no model plays the judge"):
        Plan(task(), ReferencePolicy(REFERENCE), setting, SimulatedUser(Judge(error), INSTRUCTION))

    async def run(url: str) -> Attempt:
        async with connect_to_endpoint(endpoint(url)) as connection:
            user = SimulatedUser(connection.chat("user"), INSTRUCTION)
            policy = ChatPolicy(connection.chat("agent"))
            plan = Plan(task(), policy, setting, user, judge=Judge(error))
            (made,) = [one async for one in run_attempts(sandbox, [plan])]
            return made

    with llm_server(both([call("open_box", box_id="B-1"), say("It is open.")], [OPENS, say(STOP)])) as server:
        made = asyncio.run(run(server.url))
    assert (made.outcome, made.user_fault) == ("solved", "unknown")
    assert made.user_verdict is not None
    assert note in made.user_verdict.note
