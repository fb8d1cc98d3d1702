"""Checks and the rewards made of them."""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from synthesis.contracts import Verdict
from synthesis.errors import InputError, StateError
from synthesis.runtime import Sandbox, encode_state
from synthesis.runtime.episode import Link
from synthesis.runtime.sandbox import AT_ONCE
from synthesis.verifiers import compute_reward, hash_checks, mark_checks, trace_checks
from synthesis.verifiers.check_table import build_verdict_table
from tests.verifier_fields import score_checks

DONE = "def check_func(final_state):\n    return final_state['n'] == 2\n"
KEPT = "def check_func(final_state):\n    return 'k' in final_state\n"
BROKEN = "def check_func(final_state):\n    return final_state['missing']\n"
TRUTHY = "def check_func(final_state):\n    return 1\n"


def one(sandbox: Sandbox, source: str, **options: object) -> Verdict:
    return sandbox.evaluate_checks([source], {"n": 1, "k": 0}, {"n": 2, "k": 0}, **options)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "source",
    [
        DONE,
        "def check_func(final_state): return initial_state['n'] == 1",
        "def check_func(a, b): return (a['n'], b['n']) == (1, 2)",
        "def check_func(a, b, c): return (a['n'], b['n'], c) == (1, 2, 'yes')",
        "def check_func(state): return state['n'] == 2",
        "def check_func(answer): return answer == 'yes'",
        "def check_func(final_state, initial_state): return (initial_state['n'], final_state['n']) == (1, 2)",
        "def check_func(x): return x['n'] == 2",
        "def check_func(final_state, extra=5): return final_state['n'] == 2 and extra == 5",
        "def check_func(): return final_state['n'] == 2",
        "import re\ndef helper(x): return x == 2\ndef check_func(final_state): return helper(final_state['n'])",
        "def verify_it(final_state): return True",
        "def check_func(final_state):\n    from datetime import datetime\n    return datetime.strptime('2025', '%Y').year == 2025",
        "check_func = lambda final_state: final_state['n'] == 2",
        "def check_func(f, /, *, answer, extra=5): return (f['n'], answer, extra) == (2, 'yes', 5)",
    ],
)
def test_ways_to_write_a_check(sandbox: Sandbox, source: str) -> None:
    assert one(sandbox, source, answer="yes") == Verdict(passed=True)


def test_only_true_passes(sandbox: Sandbox) -> None:
    truthy = one(sandbox, TRUTHY)
    assert not truthy.passed
    assert truthy.non_boolean
    assert one(sandbox, "def check_func(s): pass").non_boolean
    assert not one(sandbox, BROKEN).passed
    assert one(sandbox, BROKEN).error.startswith("KeyError")
    assert "no function" in one(sandbox, "x = 1").error
    assert "SyntaxError" in one(sandbox, "def check_func(").error


def test_a_check_sees_the_state_as_the_program_had_it(sandbox: Sandbox) -> None:
    state = encode_state({"s": {1, 2}, "d": {1: (1, 2)}})
    source = "def check_func(f): return f['s'] == {2, 1} and f['d'][1] == (1, 2)"
    assert sandbox.evaluate_checks([source], state, state)[0].passed


def test_a_check_cannot_change_what_others_see(sandbox: Sandbox) -> None:
    spoil = "def check_func(f):\n    ok = initial_state['n'] == 1 and 'x' not in f\n    f['x'] = initial_state['n'] = 9\n    return ok"
    verdicts = sandbox.evaluate_checks([spoil, spoil, DONE], {"n": 1}, {"n": 2})
    assert [verdict.passed for verdict in verdicts] == [True, True, True]


def test_ends_are_asked_ahead_each_as_alone(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    send = Link.send

    def noted(link: Link, payload: bytes) -> None:
        sent.append(payload)
        send(link, payload)

    monkeypatch.setattr(Link, "send", noted)
    ends = [([DONE], {"n": n}, "") for n in range(6)]
    found = sandbox.evaluate_ends({"n": 1}, ends)
    first = next(found)
    assert len(sent) == AT_ONCE, "the ends that follow are asked about before the first is said"
    assert [first, *found] == [sandbox.evaluate_checks(checks, {"n": 1}, end) for checks, end, _ in ends]
    assert sent[:6] == sent[6:], "with the same bytes"


def test_a_check_is_asked_the_same_bytes_by_an_audit_and_by_a_score(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []

    def noted(self: Link, payload: bytes) -> None:
        sent.append(payload)
        send(self, payload)

    send = Link.send
    monkeypatch.setattr(Link, "send", noted)
    start, end = {"n": 1, "k": [1, {"a": None}]}, {"n": 2, "k": [1, {"a": None}]}
    table = build_verdict_table(sandbox, [DONE], start, [(start, ""), (end, "yes"), ({"n": 3}, "no")])
    audited, sent[:] = list(sent), []
    score = score_checks(sandbox, [DONE], start, end, answer="yes", rule="goals", marks=["goal"])
    assert sent == [audited[1]]
    assert list(score.verdicts) == table[1]


def test_states_that_cannot_be_read_are_an_error_not_a_verdict(sandbox: Sandbox) -> None:
    with pytest.raises(StateError, match="final state of a check"):
        sandbox.evaluate_checks([DONE], {"n": 1}, {"n": {"$set": 3}})


def test_a_table_asks_once_for_ends_that_show_a_check_the_same(sandbox: Sandbox) -> None:
    asked: list[str] = []

    class Counting:
        def verdicts(self, questions: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
            return sandbox.verdicts(asked.append(source) or (source, world) for source, world in questions)

    start = {"n": 1, "k": 0, "deep": {"a": 1, "b": 1}}
    ends = [(start | {"k": k, "n": n}, "") for n in (1, 2) for k in range(5)]
    deep = "def check_func(final_state):\n    return final_state['deep'].get('a') == 1"
    whole = "def check_func(final_state):\n    return len(final_state) == 3"
    told = "def check(a, b, said):\n    return 'n' in b and said == ''"
    columns = build_verdict_table(Counting(), [DONE, deep, whole, told], start, ends)  # type: ignore[arg-type]
    assert [asked.count(source) for source in (DONE, deep, whole, told)] == [2, 1, 10, 2]
    assert columns == [sandbox.evaluate_checks([DONE, deep, whole, told], start, state) for state, _ in ends]


@pytest.mark.slow
def test_a_check_that_hangs_is_given_up_and_the_others_are_asked(sandbox: Sandbox) -> None:
    hang = "def check_func(f):\n    while f: pass"
    reasons: list[Verdict] = []
    ends = [({"n": n}, "") for n in range(9)]
    columns = build_verdict_table(
        sandbox, [hang, DONE], {"n": 0}, ends, lambda verdict: str(reasons.append(verdict) or "")
    )
    assert [column[1].passed for column in columns] == [n == 2 for n in range(9)]
    assert columns[0][0].error.startswith("stopped (time)")
    assert columns[8][0].error.startswith("not run: it was stopped")
    assert [verdict.error[:15] for verdict in reasons].count("stopped (time):") == 1


def test_rewards(sandbox: Sandbox) -> None:
    start, end = {"n": 1, "k": 0}, {"n": 2, "k": 0}
    checks = [DONE, KEPT, BROKEN, TRUTHY]
    found = score_checks(sandbox, checks, start, end, rule="proportion")
    assert (found.reward, found.passed, found.total) == (0.5, 2, 4)
    assert mark_checks(sandbox, checks, start) == ["goal", "guard", "broken", "goal"]
    assert score_checks(sandbox, checks, start, start, rule="proportion").reward == 0.25
    goals = score_checks(sandbox, [DONE, KEPT], start, end, rule="goals")
    assert (goals.reward, goals.passed, goals.total) == (1.0, 1, 1)
    assert score_checks(sandbox, [DONE, KEPT], start, {"n": 2}, rule="goals").reward == 0.0
    assert score_checks(sandbox, [DONE, KEPT], start, start, rule="goals").reward == 0.0
    matrix = trace_checks(
        sandbox, [DONE, KEPT], start, [[{"op": "replace", "path": "/n", "value": 2}], [{"op": "remove", "path": "/k"}]]
    )
    assert [[v.passed for v in row] for row in matrix] == [[False, True, True], [True, True, False]]


def test_rewards_need_checks_and_goals() -> None:
    with pytest.raises(InputError):
        compute_reward([], "proportion")
    with pytest.raises(InputError):
        compute_reward([Verdict(passed=True)], "goals", ["guard"])
    with pytest.raises(InputError):
        compute_reward([Verdict(passed=True)], "goals", [])


def test_a_third_keeps_its_places(sandbox: Sandbox) -> None:
    verdicts = [Verdict(passed=n < 7) for n in range(9)]
    assert compute_reward(verdicts, "proportion").reward == 7 / 9


def test_hash_names_the_verifier() -> None:
    hashes = {hash_checks([DONE], "goals"), hash_checks([DONE], "proportion"), hash_checks([DONE, KEPT], "goals")}
    assert len(hashes | {hash_checks([KEPT, DONE], "goals")}) == 4
    assert hash_checks([DONE], "goals") == hash_checks([DONE], "goals")
