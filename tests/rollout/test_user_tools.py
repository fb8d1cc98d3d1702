"""Simulated users with tools of their own: what they call, who sees it, and what becomes of their mistakes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from synthesis.contracts import Attempt, CallResult, Disturbance, Message, ToolCall, TrajectoryStep, Usage
from synthesis.errors import InputError
from synthesis.llm.chat import Reply
from synthesis.prompts import get_prompt
from synthesis.rollout import (
    STOP,
    AttemptSetting,
    ForkStart,
    Plan,
    RecordedUser,
    ReferencePolicy,
    SimulatedUser,
    StoredStep,
    UserTurn,
    set_due_injections,
)
from synthesis.rollout.user import MOST_CALLS, MOST_ROUNDS, TRIES
from synthesis.rollout.user_judge import judge_user, list_talk, list_user_prompts
from synthesis.runtime import Sandbox
from synthesis.tasks.trajectory_filters import build_attempt_facts
from synthesis.verifiers.rubric_evidence import spell_call
from tests.fixtures.llm import Scripted, call, calls, llm_server, refuse, say
from tests.rollout.support import REFERENCE, chat_attempts, gather, of_model, task, texts
from tests.rollout.test_conversation import OPENS, both

OWN = AttemptSetting(conversational=True, user_tools=("open_box",))
OPENED = [call("open_box", box_id="B-1"), say("I opened it myself. Is all well?"), say(STOP)]


def talk(sandbox: Sandbox, agent: list[Scripted], user: list[Scripted], setting: AttemptSetting = OWN) -> Any:
    with llm_server(both(agent, user)) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=setting)
    return made, server.requests


def test_a_user_calls_its_tool_and_only_its_words_reach_the_agent(sandbox: Sandbox) -> None:
    made, requests = talk(sandbox, [say("Please open box B-1 yourself."), say("Yes.")], [OPENS, *OPENED])
    assert (made.outcome, made.user_tools) == ("solved", ("open_box",)), "its call changed the one state"
    steps = [(step.kind, step.by, step.turn, step.tool or step.content) for step in made.steps]
    assert steps[1:4] == [
        ("message", "agent", 1, "Please open box B-1 yourself."),
        ("call", "user", 1, "open_box"),
        ("user", "agent", 1, "I opened it myself. Is all well?"),
    ]
    assert made.steps[2].result is not None
    assert made.steps[2].result.patch
    agents, users = of_model(requests, "agent"), of_model(requests, "user")
    assert all("open_box" not in str(request) for request in agents), "neither the tool nor the call nor its result"
    assert [tool["function"]["name"] for tool in users[0]["tools"]] == ["open_box"]
    heard = users[2]["messages"]
    assert heard[-2]["tool_calls"][0]["function"]["name"] == "open_box"
    assert (heard[-1]["role"], heard[-1]["content"]) == ("tool", made.steps[2].observation)
    assert get_prompt("user", "tools").text.strip() in texts(users[0])[0]
    assert made.prompts["user/tools"] == get_prompt("user", "tools").sha256
    assert all(not message.tool_calls for message in made.messages)
    assert len(made.turns) == 2, "its calls use up no turn"
    assert build_attempt_facts(made).actions == 2


def test_who_calls_a_tool_of_the_other_one_reads_that_there_is_none(sandbox: Sandbox) -> None:
    agent = [call("open_box", box_id="B-1"), call("no_such"), say("I cannot open it.")]
    made, _ = talk(sandbox, agent, [call("find_box", owner="Ada"), call("no_such"), OPENS, say(STOP)])
    calls_made = [step for step in made.steps if step.kind == "call"]
    assert [(step.by, step.tool, step.result.error.kind) for step in calls_made] == [
        ("user", "find_box", "not_offered"),
        ("user", "no_such", "not_offered"),
        ("agent", "open_box", "not_offered"),
        ("agent", "no_such", "unknown_tool"),
    ]
    unknown = calls_made[3].observation.replace("no_such", "open_box")
    assert calls_made[2].observation == unknown, "nothing tells it from a tool that there is not"
    assert not any(step.result.patch for step in calls_made)
    assert build_attempt_facts(made).refused == ("not_offered", "unknown_tool")


@pytest.mark.parametrize("bad", ['{"box_id": ', "[1]"])
def test_what_a_user_cannot_call_it_reads_and_goes_on(sandbox: Sandbox, bad: str) -> None:
    user = [OPENS, calls(("open_box", bad), ("open_box", {"box_id": "B-9"})), *OPENED]
    made, requests = talk(sandbox, [say("Open it.")], user)
    broken, refused, good = [step for step in made.steps if step.by == "user"]
    assert broken.result.error.kind == "malformed"
    assert "no such box" in refused.observation
    assert (good.result.ok, made.outcome) == (True, "solved")
    assert of_model(requests, "user")[2]["messages"][-2]["content"] == broken.observation


def test_calls_are_bounded_at_once_and_before_a_word(sandbox: Sandbox) -> None:
    many = calls(*[("open_box", {"box_id": "B-1"})] * 40)
    made, _ = talk(sandbox, [say("Open it.")], [OPENS, many, *OPENED[1:]])
    mine = [step for step in made.steps if step.by == "user"]
    assert [step.result.ok for step in mine] == [True] * MOST_CALLS + [False]
    assert "at most 8 calls at once" in mine[-1].observation
    made, _ = talk(sandbox, [say("Open it.")], [OPENS, call("open_box", box_id="B-1")])
    assert (made.outcome, made.reward, made.user_error) == ("infra_error", None, True), "no reward of 0"
    assert f"made calls again, after {MOST_ROUNDS} times" in made.note
    assert sum(step.by == "user" for step in made.steps) == MOST_ROUNDS
    assert made.user_usage.requests == 1 + MOST_ROUNDS + TRIES


def test_an_endpoint_that_fails_between_a_users_calls_is_infrastructure(sandbox: Sandbox) -> None:
    made, _ = talk(sandbox, [say("Open it.")], [OPENS, OPENED[0], refuse(500, "out of memory")])
    assert (made.outcome, made.reward, made.user_error) == ("infra_error", None, False)
    assert "out of memory" in made.note
    assert made.steps[-1].by == "user"


def test_a_program_that_ends_in_a_users_call_is_the_programs_doing(sandbox: Sandbox) -> None:
    setting = AttemptSetting(conversational=True, user_tools=("think",))
    made, _ = talk(sandbox, [say("Think.")], [OPENS, call("think")], setting)
    assert (made.outcome, made.reward) == ("program_error", None)
    assert (made.steps[-1].by, made.steps[-1].result.error.kind) == ("user", "ended")


def test_the_judge_of_a_rubric_is_told_whose_call_it_was() -> None:
    done = CallResult(ok=True, result=1)
    by_agent, by_user = (spell_call("open_box", {"box_id": "B-1"}, done, by) for by in ("agent", "user"))
    assert json.loads(by_user) == {"made_by": "the user, not the agent", **json.loads(by_agent)}


def test_no_call_of_a_user_is_disturbed(sandbox: Sandbox) -> None:
    rough = Disturbance(failures=1.0)
    setting = OWN.model_copy(update={"disturbance": rough})
    made, _ = talk(sandbox, [call("find_box", owner="Ada"), say("Open it.")], [OPENS, *OPENED], setting)
    struck = {step.by: step.injected for step in made.steps if step.kind == "call"}
    assert struck["agent"] is not None
    assert struck["user"] is None
    due = set_due_injections(made.steps, rough, made.disturbance_seed, {"find_box", "open_box"})
    assert due == list(made.steps)


@pytest.mark.parametrize(
    ("names", "conversational", "words"),
    [
        (("open_bx",), True, "no tool 'open_bx'. It has: find_box, open_box, burn, think, print_all"),
        (("find_box", "open_box", "burn", "think", "print_all"), True, "leave the agent one"),
        (("open_box",), False, "only a simulated user"),
    ],
)
def test_user_tools_that_cannot_be_are_refused(names: tuple[str, ...], conversational: bool, words: str) -> None:
    setting = AttemptSetting(conversational=conversational, user_tools=names)
    with pytest.raises(InputError, match=words):
        Plan(task(), ReferencePolicy(REFERENCE), setting, RecordedUser([]) if conversational else None)


def replayed(sandbox: Sandbox, made: Attempt, kept: int, state_hash: str = "") -> Attempt:
    """A fork that keeps so many steps; then the talk ends."""
    mine = [step for step in made.steps[:kept] if step.kind == "user" or step.by == "user"]
    lines = [
        UserTurn(calls=(ToolCall(name=step.tool, arguments=step.arguments),))
        if step.kind == "call"
        else UserTurn(content=step.content)
        for step in mine
    ]
    turns = tuple(message for message in made.messages if message.role == "assistant")
    count = max((step.turn for step in made.steps[:kept] if step.kind == "message"), default=0)
    steps = [
        StoredStep(kind=step.kind, tool=step.tool, by=step.by, ok=step.result.ok if step.result else None)
        for step in made.steps[:kept]
    ]
    fork = ForkStart(turns[:count], tuple(steps), state_hash)
    (again,) = gather(sandbox, [Plan(task(), ReferencePolicy(REFERENCE), OWN, RecordedUser(lines), fork=fork)])
    return again


@pytest.mark.parametrize("kept", [3, 4])
def test_a_recorded_user_makes_its_calls_again(sandbox: Sandbox, kept: int) -> None:
    """Also if the fork is in the middle of the user's turn, behind its call."""
    made, _ = talk(sandbox, [say("Please open it."), say("Yes.")], [OPENS, *OPENED])
    again = replayed(sandbox, made, kept, made.final_hash)
    assert again.ending != "lost", again.note
    assert [(step.tool, step.by) for step in again.steps[:3]] == [("", "agent"), ("", "agent"), ("open_box", "user")]
    assert again.final_hash == made.final_hash


class Judge:
    """Says what it is told to, and keeps what it was asked."""

    name = "judge"

    def __init__(self, reply: dict[str, Any]) -> None:
        self.reply, self.asked = reply, ""

    async def complete(self, messages: Any, *tools: Any, **parameters: Any) -> Reply:
        self.asked = messages[0].content
        return Reply(message=Message(role="assistant", content=json.dumps(self.reply)), usage=Usage())


def looked(said: str) -> list[TrajectoryStep]:
    seen = TrajectoryStep(
        kind="call", by="user", tool="status", arguments={}, result=CallResult(ok=True), observation="signal: weak"
    )
    hidden = seen.model_copy(update={"by": "agent", "observation": "the agent's alone"})
    asks = TrajectoryStep(kind="message", content="What does it show?")
    return [TrajectoryStep(kind="user", content="It is slow."), hidden, asks, seen,
            TrajectoryStep(kind="user", content=said)]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "mistake", "finding"),
    [
        ("It shows: strong.", {"rule": 1, "line": 4, "quote": "strong", "intent": "signal: weak"}, "fault"),
        ("It shows: weak.", {"rule": 2, "line": 4, "quote": "weak", "intent": ""}, "unknown"),
        ("It shows: weak.", {"rule": 1, "line": 3, "quote": "signal", "intent": "slow"}, "unknown"),
    ],
)
def test_the_judge_of_a_user_sees_what_its_tools_told_it(said: str, mistake: Any, finding: str) -> None:
    """What a tool told it is no invention, and a line of a tool has no mistake: such verdicts are of no use."""
    judge, steps = Judge({"mistakes": [mistake], "erred": True}), looked(said)
    verdict = asyncio.run(judge_user(judge, "It is slow.", list_talk(steps)))  # type: ignore[arg-type]
    assert verdict.finding == finding, verdict.note
    assert '{"line": 3, "who": "tool", "words": "status {} returned: signal: weak"}' in judge.asked
    assert "the agent's alone" not in judge.asked
    assert get_prompt("judge", "user_tools").text.strip() in judge.asked
    assert set(list_user_prompts(list_talk(steps))) == {"judge/user_faults", "judge/user_tools"}


def test_a_user_that_looked_and_told_nothing_of_it_is_not_taken_for_one_that_recited_its_intent() -> None:
    judge = Judge({"mistakes": [], "erred": False})
    steps = looked("It is slow.")
    assert asyncio.run(judge_user(judge, "It is slow.", list_talk(steps))).judge == "judge"  # type: ignore[arg-type]
    plain = [step for step in steps if step.kind != "call"]
    assert asyncio.run(judge_user(judge, "It is slow.", list_talk(plain))).judge == ""  # type: ignore[arg-type]
    assert set(list_user_prompts(list_talk(plain))) == {"judge/user_faults"}
    assert SimulatedUser(judge, "x").prompts.keys() == {"user/optimised", "user/opening", "user/again"}  # type: ignore[arg-type]
