"""Checks that cannot tell what an answer says: a judge decides by their criterion, or they stay uncertain."""

from __future__ import annotations

import asyncio
import json

import pytest

from synthesis.contracts import Reward, Verdict
from synthesis.errors import LLMError
from synthesis.llm import Endpoint
from synthesis.llm.client import connect
from synthesis.verifiers.checks import reward_of
from synthesis.verifiers.doubts import as_judged, criterion_of, decided, doubt_words
from synthesis.verifiers.rubric import RubricCase
from tests.fixtures.llm import Scripted, ScriptedServer, html, llm_server, say

SAYS = "The answer says that 40.25 is left."
ANSWERS = f'CRITERION = "{SAYS}"\ndef check(initial_state, final_state, answer):\n    return says_money(answer, 4025)\n'
STATE = "def check(initial_state, final_state):\n    return final_state['paid']\n"
BOTH = ANSWERS.replace("return", "return final_state['paid'] and")
DOUBT = Verdict(passed=False, error="it cannot be told: the value is one of a choice", uncertain=True)
YES, NO = Verdict(passed=True), Verdict(passed=False)
CHECKS, GOALS = (STATE, ANSWERS), ("goal", "goal")
CASE = RubricCase(instruction="Pay, and say what is left.", criteria=(), answer="224.75 or 40.25")


def asked(server: ScriptedServer, *verdicts: Verdict, marks: tuple = GOALS, checks: tuple = CHECKS) -> Reward:
    async def ask() -> Reward:
        async with connect(Endpoint(name="judge", base_url=server.url, max_retries=0)) as connection:
            reward = reward_of(verdicts, "goals", marks)
            return (await decided(connection.chat("scripted-1"), checks, reward, marks, CASE)).reward

    return asyncio.run(ask())


def verdict(passed: bool) -> Scripted:
    return say(json.dumps({"verdicts": [{"criterion": 1, "passed": passed, "reason": "It says so."}]}))


@pytest.mark.parametrize("met", [True, False])
def test_the_judge_decides_and_its_verdict_stands_beside_the_checks(met: bool) -> None:
    with llm_server([verdict(met)]) as server:
        reward = asked(server, YES, DOUBT)
        assert f"1. {SAYS}" in server.requests[0]["messages"][0]["content"]
    assert (reward.reward, reward.passed) == ((1.0, 2) if met else (0.5, 1))
    told = reward.verdicts[1]
    assert (told.uncertain, told.undecided, told.error) == (True, False, DOUBT.error)
    assert told.judged is not None
    assert (told.judged.passed, told.judged.criterion, told.judged.reason) == (met, SAYS, "It says so.")
    assert reward.doubts == ()


@pytest.mark.parametrize("reply", ["I cannot help with that.", '{"verdicts": []}'])
def test_a_judge_that_refuses_leaves_the_doubt_as_it_is(reply: str) -> None:
    with llm_server([say(reply)]) as server:
        reward = asked(server, YES, DOUBT)
    assert (reward.reward, reward.doubts) == (0.5, (2,))
    assert "gave no usable verdict" in reward.verdicts[1].error
    assert doubt_words(reward) == "Check 2 is uncertain: counted as not passed."


def test_a_judge_that_is_not_there_is_no_reward() -> None:
    with llm_server([html()]) as server, pytest.raises(LLMError, match="the judge could not be asked"):
        asked(server, YES, DOUBT)


def test_nobody_is_asked_where_a_yes_would_earn_nothing() -> None:
    with llm_server([verdict(True)]) as server:
        assert asked(server, NO, DOUBT, marks=("guard", "goal")).reward == 0
        assert asked(server, YES, DOUBT, checks=(STATE, BOTH)).doubts == (2,)
        assert not server.requests


def test_a_criterion_belongs_to_a_check_that_looks_at_the_answer_alone() -> None:
    assert criterion_of(ANSWERS) == SAYS
    assert criterion_of(ANSWERS.replace(SAYS, "  ")) == ""
    assert criterion_of(f"CRITERION = 'again'\n{ANSWERS}") == ""
    assert [criterion_of(source) for source in (STATE, BOTH, "def check(:")] == ["", "", ""]
    assert criterion_of(ANSWERS.replace("4025", "initial_state['bill']")) == SAYS
    assert criterion_of(f"{ANSWERS}# {'long ' * 20_000}") == "", "nor is one read that takes a server long to parse"


def test_what_was_judged_before_is_not_asked_again() -> None:
    with llm_server([verdict(True)]) as server:
        before = asked(server, YES, DOUBT).verdicts
    assert as_judged([YES, DOUBT], before) == list(before)
    assert as_judged([YES, NO], before) == [YES, NO]
    assert as_judged([YES, DOUBT], ()) == [YES, DOUBT]
