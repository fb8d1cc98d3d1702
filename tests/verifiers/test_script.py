"""Verification scripts: named assertions in the language of checks, scored, traced and audited as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from synthesis.contracts import ReferenceCall, Reward, ScriptVerifier
from synthesis.errors import FormatError
from synthesis.formats.envscaler import read_scenario
from synthesis.formats.files import Entry
from synthesis.formats.records import Failure, TaskRecord
from synthesis.formats.verifier_record import find_script_problem, nest_former_fields, serialize_verifier
from synthesis.runtime import Sandbox, encode_state
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.check_reads import reads_answer
from synthesis.verifiers.rewards import hash_verifier, score_end, trace_verdicts
from tests.verifiers.shop import FRAME, INITIAL, reference, subject

SOURCE = """
def verify(answer, expected, initial_state, final_state):
    others = {k: v for k, v in final_state["orders"].items() if k != "tea"}
    return {
        "three teas are ordered": final_state["orders"].get("tea") == 3,
        "other orders stay": others == initial_state["orders"],
        "the agent's \\"count\\" is right": answer.get("count") == expected["count"],
    }
"""
NAMES = ("three teas are ordered", "other orders stay", 'the agent\'s "count" is right')
SCRIPT = ScriptVerifier(source=SOURCE, assertions=NAMES, expected_answer={"count": 3})
START = encode_state(INITIAL)
DONE = encode_state({**INITIAL, "orders": {**INITIAL["orders"], "tea": 3}})


def score(sandbox: Sandbox, verifier: ScriptVerifier, end: Any = DONE, answer: str = '{"count": 3}') -> Reward:
    return score_end(sandbox, verifier, START, end, answer)


def returning(text: str, *names: str) -> ScriptVerifier:
    source = f"def verify(answer, expected, initial_state, final_state):\n    return {text}\n"
    return SCRIPT.model_copy(update={"source": source, "assertions": names})


def test_all_assertions_must_hold_and_each_says_so(sandbox: Sandbox) -> None:
    right = score(sandbox, SCRIPT)
    assert (right.reward, right.passed, right.total, right.rule) == (1, 3, 3, "all")
    wrong = score(sandbox, SCRIPT, answer='{"count": 4}')
    assert (wrong.reward, wrong.passed) == (0, 2)
    assert [one.passed for one in wrong.verdicts] == [True, True, False]
    assert score(sandbox, SCRIPT, START, "").reward == 0
    rows = trace_verdicts(sandbox, SCRIPT, START, [[{"op": "add", "path": "/orders/tea", "value": 3}]], answer="")
    assert [[one.passed for one in row] for row in rows] == [[False, True], [True, True], [False, False]]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (returning("{'a': True}", "a", "b"), "must return a dict with the assertions ['a', 'b']"),
        (returning("{'a': True, 'b': False}", "a"), "must return a dict with the assertions ['a']"),
        (returning("[True]", "a"), "must return a dict"),
        (returning("{'a': 1}", "a"), "it returned a int, not a boolean"),
        (returning("{'a': answer['none']}", "a"), "KeyError"),
    ],
)
def test_other_assertions_than_declared_hold_nowhere(sandbox: Sandbox, script: ScriptVerifier, said: str) -> None:
    found = score(sandbox, script)
    assert found.reward == 0
    assert said in found.verdicts[0].error or found.verdicts[0].non_boolean, found.verdicts[0]


def test_a_script_is_in_the_language_of_checks(sandbox: Sandbox) -> None:
    sly = SCRIPT.model_copy(update={"source": "import sys\n" + SOURCE})
    assert "the module 'sys' is not in the language of checks" in score(sandbox, sly).verdicts[0].error
    assert hash_verifier(sly) != hash_verifier(SCRIPT) != hash_verifier(SCRIPT.model_copy(update={"frame": FRAME}))


def test_a_frame_beside_a_script_makes_the_reward_0(sandbox: Sandbox) -> None:
    framed = SCRIPT.model_copy(update={"frame": FRAME})
    assert score(sandbox, framed).reward == 1
    logged = score(sandbox, framed, DONE | {"log": [7]})
    assert (logged.reward, logged.passed, logged.outside[0].path) == (0, 3, "/log")


def judged_by(script: ScriptVerifier, **changes: Any) -> Subject:
    return subject(**changes).model_copy(update={"verifier": script})


def test_a_script_is_audited_as_checks_are(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, judged_by(SCRIPT.model_copy(update={"frame": FRAME})))
    assert (found.state, found.faults) == ("green", ()), found.faults
    assert found.nothing.reward == 0
    assert found.below == len(found.counted) > 5
    loose = SCRIPT.model_copy(update={"source": SOURCE.replace("== 3", "!= 0"), "frame": None})
    assert audit_task(sandbox, judged_by(loose)).state == "red"
    idle = returning("{'a': True}", "a")
    assert "noop_scores" in {fault.kind for fault in audit_task(sandbox, judged_by(idle)).faults}
    stamped = judged_by(SCRIPT, reference=reference(ReferenceCall(tool="order", arguments={"item": "tea", "count": 2})))
    assert "reference_fails" in {fault.kind for fault in audit_task(sandbox, stamped).faults}


def read(**changes: Any) -> TaskRecord | Failure:
    form = [{"name": "count", "type": "number"}]
    raw = {"env_id": "shop", "task_id": "t", "task": "Order tea.", "init_config": INITIAL, "answer_form": form}
    raw |= {"expected_answer": {"count": 3}} | serialize_verifier(SCRIPT) | changes
    try:
        return read_scenario(Entry("[0]", raw))
    except FormatError as error:
        return Failure(place=error.place, reason=error.reason)


def test_a_record_spells_a_script_and_says_what_is_wrong_with_one() -> None:
    found = read()
    assert isinstance(found, TaskRecord)
    assert found.verifier == SCRIPT
    spelled = serialize_verifier(SCRIPT)["verifier"]
    for changes, place, reason in [
        ({"verifier": spelled | {"source": "x = 1"}}, "source", "defines no function `verify(answer, expected"),
        ({"verifier": spelled | {"source": "def verify(a):\n  return 1"}}, "source", "takes answer, expected"),
        ({"verifier": spelled | {"source": "def verify(:"}}, "source", "line 1"),
        ({"verifier": spelled | {"assertions": ["a", "a"]}}, "verifier", "the same name"),
        ({"verifier": spelled | {"assertions": []}}, "assertions", "at least 1"),
        ({"verifier": spelled | {"source": None}}, "source", "string"),
        ({"verifier": {"kind": "poem"}}, "kind", "expected `golden` or `script`"),
        ({"verifier": ["x"]}, "verifier", "expected an object"),
        ({"criteria": ["It is done."]}, "verifier", "neither checks nor criteria"),
        ({"verifier": {"kind": "golden"}}, "state", "missing"),
        ({"verifier": {"kind": "golden", "state": {}}, "frame": {"allowances": []}}, "verifier", "has no meaning"),
    ]:
        failed = read(**changes)
        assert isinstance(failed, Failure), changes
        assert place in failed.place, failed
        assert reason in failed.reason, failed
    with pytest.raises(ValidationError):
        ScriptVerifier(source="x" * 30_000, assertions=("a",))
    assert find_script_problem(SOURCE) == ""


def test_what_is_no_former_task_stays_as_it_is() -> None:
    for value in ("x", None, {"verifier": {"kind": "checks"}, "checks": ["True"]}, {"key": "t"}):
        assert nest_former_fields(value) == value


@pytest.mark.parametrize(
    ("body", "reading"),
    [
        ('return {"a": final_state["x"] == 1, "b": answer.get("x") == expected["x"]}', "b"),
        ('told = answer.get("x")\n    return {"a": bool(final_state), "b": told == 1}', "b"),
        (
            'def told(name):\n        return answer.get(name)\n    return {"a": True, "b": told("x") == 1}',
            "b",
        ),
        ('found = []\n    found.append(answer.get("x"))\n    return {"a": found == [], "b": bool(final_state)}', "a"),
        (
            'if answer:\n        ok = True\n    else:\n        ok = False\n    return {"a": ok, "b": True}',
            "a",
        ),
        ('one = answer\n    two = one\n    return {"a": bool(two), "b": bool(initial_state)}', "a"),
        ('if not answer:\n        return {"a": False, "b": False}\n    return {"a": True, "b": True}', "ab"),
        ('found = {"a": True, "b": bool(answer)}\n    return found', "ab"),
        ('return {"a": True} | {"b": bool(answer)}', "ab"),
        ('return {"a": bool(final_state), "b": bool(initial_state)}', ""),
    ],
)
def test_assertions_that_look_at_the_answer_are_told_apart(body: str, reading: str) -> None:
    source = f"def verify(answer, expected, initial_state, final_state):\n    {body}\n"
    script = ScriptVerifier(source=source, assertions=("a", "b"))
    assert "".join(check.label for check in script.checks if reads_answer(check.source)) == reading
