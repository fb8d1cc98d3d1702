"""How time enters a plan, and rules that no operation carries out or shows: asked about before there is code."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from synthesis.drafts import Plan, TimePlan
from synthesis.errors import MalformedReply, Rejected
from synthesis.skeleton import plan_environment
from synthesis.skeleton.code import build_method_prompt
from synthesis.skeleton.plan_text import format_plan
from synthesis.skeleton.repair import build_record
from tests.skeleton.support import ATTRIBUTES, METHODS, OPERATIONS, STATE, THEME, Author, kit

RULES = [*STATE["rules"], "A pot comes back within 30 days."]
DATED = STATE | {
    "rules": RULES,
    "time": {"rules": [3], "kept_in": "today", "due": "A pot is overdue from the 31st day on."},
}
BARE = [{key: value for key, value in one.items() if key != "rules"} for one in OPERATIONS]
TODAY = {"name": "get_today", "description": "Tells what day it is.", "kind": "query", "rules": [3]}


def author(*coverage: dict[str, Any], state: Any = STATE, operations: Any = OPERATIONS, told_by: str = "") -> Author:
    made = Author()
    made.said["plan_state"] = [json.dumps(state)]
    made.said["plan_operations"] = [json.dumps({"operations": operations, "time_told_by": told_by})]
    made.said["plan_coverage"] = [json.dumps(one) for one in coverage]
    return made


def made(asked: Author, **settings: Any) -> Plan:
    return asyncio.run(plan_environment(kit(asked, **settings), THEME))


def test_a_plan_says_how_time_enters_and_who_tells_the_day() -> None:
    asked = author(state=DATED, operations=[*OPERATIONS, TODAY], told_by="get_today")
    found = made(asked)
    due = "A pot is overdue from the 31st day on."
    assert found.time == TimePlan(rules=(3,), kept_in="today", due=due, told_by="get_today")
    assert "plan_coverage" not in asked.places
    text = build_method_prompt(found, ATTRIBUTES, found.operations[1])
    assert f"Time: the day it is, kept in `today`, decides rule 3. {due}\nget_today tells it." in text
    assert "- take_pot (change): Take a pot home. (rules 1, 2)" in text
    assert "find_pots (query), take_pot (change)" in text, "of the others the names"
    assert found.operations[0].description not in text
    today = 'def get_today(self) -> dict:\n    """Tells what day it is."""\n    return {"success": True}\n'
    inner = "".join(f"    {line}\n" for text in (*METHODS.values(), today) for line in text.splitlines())
    record = build_record(THEME, found, "PlantSwap", f"{ATTRIBUTES}\n{inner}")
    assert record.introduction.endswith(f"{due} The day it is: get_today.")


@pytest.mark.parametrize(
    ("time", "words"),
    [
        ({"rules": [3], "due": "It is."}, "must say kept_in"),
        ({"rules": [3], "kept_in": "today"}, "must say due"),
        ({"rules": [4], "kept_in": "today", "due": "It is."}, "names rule 4; the rules are 1 to 3"),
    ],
)
def test_time_that_is_half_said_is_asked_again(time: dict[str, Any], words: str) -> None:
    with pytest.raises(MalformedReply, match=words):
        made(author(state=DATED | {"time": time}))


def test_rules_that_speak_of_days_without_a_word_on_time_are_told_once() -> None:
    asked = author(state=STATE | {"rules": RULES}, operations=[*OPERATIONS, TODAY])
    found = made(asked)
    assert "rule 3 may depend on the day it is" in asked.heard("plan_state")[1]
    assert asked.places.count("plan_state") == 2
    assert found.time == TimePlan()


def test_rules_that_no_operation_covers_are_asked_about_and_covered() -> None:
    reply = {
        "covered": [{"rule": 1, "by": ["take_pot", "count_pots"]}],
        "reworded": [{"rule": 2, "text": "A pot that somebody holds is not taken.", "by": ["take_pot"]}],
    }
    asked = author(reply, operations=BARE)
    found = made(asked)
    (told,) = asked.heard("plan_coverage")
    assert all(f"rule {number}: {rule}" in told for number, rule in enumerate(STATE["rules"], 1))
    assert found.rules == (STATE["rules"][0], "A pot that somebody holds is not taken.")
    assert [one.rules for one in found.operations] == [(), (1, 2), (1,)]


def test_a_day_that_no_tool_tells_is_asked_about_and_an_operation_added() -> None:
    asked = author({"operations": [TODAY], "time_told_by": "get_today"}, state=DATED)
    found = made(asked)
    (told,) = asked.heard("plan_coverage")
    assert "the day it is, which decides rule 3: no query tells it" in told
    assert found.operations[-1].name == found.time.told_by == "get_today"
    assert "get_today (query)" in format_plan(found)


def test_what_stays_open_after_two_rounds_is_taken_out() -> None:
    asked = author({}, state=DATED)
    found = made(asked)
    assert asked.places.count("plan_coverage") == 2
    assert found.rules == tuple(STATE["rules"])
    assert found.dropped == (RULES[2],)
    assert found.time == TimePlan()
    assert made(author({"dropped": [3]}, state=DATED)).dropped == (RULES[2],)


def test_numbers_of_rules_follow_when_one_is_taken_out() -> None:
    operations = [{**OPERATIONS[0], "rules": [3]}, {**OPERATIONS[1], "rules": [2]}, OPERATIONS[2]]
    found = made(author({}, state=STATE | {"rules": [*STATE["rules"], "A pot has one plant."]}, operations=operations))
    assert found.dropped == (STATE["rules"][0],)
    assert [one.rules for one in found.operations] == [(2,), (1,), ()]


def test_a_plan_of_which_too_little_is_left_is_rejected() -> None:
    with pytest.raises(Rejected) as met:
        made(author({}, operations=BARE))
    assert met.value.reason == "rules_uncovered"
    assert STATE["rules"][0] in str(met.value)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ({"covered": [{"rule": 9, "by": ["take_pot"]}]}, "names rule 9"),
        ({"covered": [{"rule": 1, "by": ["fly"]}]}, "'fly' is no operation of the plan"),
        ({"operations": [OPERATIONS[0]]}, "these stand twice"),
        ({"operations": [{**TODAY, "name": f"get_day_{n}", "rules": []} for n in range(3)]}, "1 to 5 operations"),
        ({"time_told_by": "take_pot"}, "which is no query"),
    ],
)
def test_a_reply_that_points_nowhere_is_asked_again(reply: dict[str, Any], words: str) -> None:
    good = {"covered": [{"rule": 1, "by": ["take_pot"]}, {"rule": 2, "by": ["take_pot"]}]}
    asked = author(reply, good, operations=BARE)
    found = made(asked, most_tools=5)
    assert words in asked.heard("plan_coverage")[1]
    assert found.operations[1].rules == (1, 2)
