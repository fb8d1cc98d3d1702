"""Checks' verdicts that attempts share."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from synthesis.contracts import Verdict
from synthesis.errors import InfrastructureError
from synthesis.rollout.shared_verdicts import SharedVerdicts
from synthesis.runtime.sandbox import STOPPED

START, END = {"n": 1}, {"n": 2}


class Counted:
    """Says yes to each question, or once what it is told to of a check, and remembers the questions."""

    def __init__(self, **verdicts: Verdict | Exception) -> None:
        self.asked: list[tuple[str, str]] = []
        self.told = verdicts
        self.go = threading.Event()
        self.go.set()

    def verdicts(self, asked: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
        for question in asked:
            self.asked.append(question)
            assert self.go.wait(10)
            verdict = self.told.pop(question[0], Verdict(passed=True))
            if isinstance(verdict, Exception):
                raise verdict
            yield verdict


def shared(sandbox: Counted, most: int = 100) -> SharedVerdicts:
    return SharedVerdicts(sandbox, most)  # type: ignore[arg-type]


def test_the_same_question_is_asked_once() -> None:
    sandbox = Counted(b=Verdict(passed=False, error="KeyError: 'x'"))
    verdicts = shared(sandbox)
    first = verdicts.evaluate_checks(["a", "b", "a"], START, END, answer="yes")
    assert [one.passed for one in first] == [True, False, True]
    assert verdicts.evaluate_checks(["b", "a"], START, END, answer="yes") == [first[1], first[0]]
    assert [source for source, _ in sandbox.asked] == ["a", "b"]


@pytest.mark.parametrize(
    ("initial", "final", "answer"), [(END, END, "yes"), (START, START, "yes"), (START, END, "no"), (START, END, None)]
)
def test_another_world_is_another_question(initial: dict[str, int], final: dict[str, int], answer: str | None) -> None:
    sandbox = Counted()
    verdicts = shared(sandbox)
    verdicts.evaluate_checks(["a"], START, END, answer="yes")
    verdicts.evaluate_checks(["a"], initial, final, answer=answer)
    assert len(sandbox.asked) == 2


def test_who_asks_the_same_meanwhile_waits_for_it() -> None:
    sandbox = Counted(a=Verdict(passed=False))
    sandbox.go.clear()
    verdicts = shared(sandbox)
    with ThreadPoolExecutor(8) as pool:
        told = [pool.submit(verdicts.evaluate_checks, ["a"], START, END) for _ in range(8)]
        sandbox.go.set()
        assert [one.result(10) for one in told] == [[Verdict(passed=False)]] * 8
    assert len(sandbox.asked) == 1


def test_a_lost_process_is_no_verdict_for_others() -> None:
    lost = Verdict(passed=False, error=f"{STOPPED} (time): no answer")
    sandbox = Counted(a=lost)
    verdicts = shared(sandbox)
    assert verdicts.evaluate_checks(["a"], START, END) == [lost]
    assert verdicts.evaluate_checks(["a"], START, END) == [Verdict(passed=True)]


def test_who_waits_for_a_sandbox_that_fails_asks_again() -> None:
    sandbox = Counted(a=Verdict(passed=False), b=InfrastructureError("gone"))
    sandbox.go.clear()
    verdicts = shared(sandbox)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(verdicts.evaluate_checks, ["a", "b"], START, END)
        while not sandbox.asked:
            pass
        second = pool.submit(verdicts.evaluate_checks, ["b", "c"], START, END)
        while ("c" not in [source for source, _ in verdicts._known]) and not second.done():
            pass
        sandbox.go.set()
        with pytest.raises(InfrastructureError):
            first.result(10)
        assert len(second.result(10)) == 2
    # What was answered before it failed stays answered.
    assert verdicts.evaluate_checks(["a"], START, END) == [Verdict(passed=False)]


def test_the_oldest_questions_are_forgotten() -> None:
    sandbox = Counted()
    verdicts = shared(sandbox, most=2)
    verdicts.evaluate_checks(["a", "b", "c"], START, END)
    assert len(verdicts._known) == 2
    verdicts.evaluate_checks(["a", "c"], START, END)
    assert [source for source, _ in sandbox.asked] == ["a", "b", "c", "a"]
