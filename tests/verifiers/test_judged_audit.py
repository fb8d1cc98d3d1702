"""Audits of checks that leave their doubts to a judge: it is asked as a score asks it, or the audit is incomplete."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from synthesis.errors import LLMError
from synthesis.runtime import default_sandbox
from synthesis.verifiers import judge as audit_judge
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import TaskAudit
from synthesis.verifiers.call_sequences import Subject
from tests.fixtures.llm import Request, Scripted, html, llm_server, say

from .shop import FRAME, OTHERS, TEA, check, reference, subject
from .test_rubric import evidence, judge_of, verdicts

ASKS = f"CRITERION = 'The answer says that three teas were ordered.'\n{check('says_number(answer, 3)')}"
HEDGED = "I think I ordered 3 teas."


def case(**changes: object) -> Subject:
    given = subject(TEA, OTHERS, ASKS, reference=reference(answer=HEDGED), frame=FRAME)
    return given.model_copy(update={"instruction": "Order three teas.", **changes})


def sober(request: Request) -> Scripted:
    """Takes three for three, unless another number or a doubt stands beside it."""
    _changes, answer = evidence(request)
    return verdicts(not any(word in answer for word in ("4", "5", "maybe", "wrong")))


def audited(judge: Callable[[Request], Scripted], given: Subject | None = None) -> tuple[TaskAudit, list[Request]]:
    with llm_server(judge) as server:
        found = audit_task(default_sandbox(), given or case(), judge=judge_of(server))
        return found, server.requests


def kinds(found: TaskAudit) -> set[str]:
    return {fault.kind for fault in found.faults}


def test_a_sober_judge_makes_it_green_and_is_asked_each_question_once() -> None:
    found, asked = audited(sober)
    assert (found.state, kinds(found)) == ("green", set())
    assert found.reference is not None
    assert (found.reference.reward, found.reference.passed) == (1, (True, True, True))
    answers = [evidence(request)[1] for request in asked]
    assert len(answers) == len(set(answers)) > 6
    assert HEDGED in answers
    assert "It is not 3." not in answers, "the check tells that alone"
    assert (found.judge_usage.requests, found.judge) == (len(asked), "judge/scripted-1")


@pytest.mark.parametrize(
    ("passes", "fault"), [(True, "answer_too_loose"), (False, "reference_fails")], ids=["all", "nothing"]
)
def test_a_judge_that_cannot_judge_makes_it_red(passes: bool, fault: str) -> None:
    found, _ = audited(lambda request: verdicts(passes))
    assert (found.state, fault in kinds(found)) == ("red", True)


def test_a_judge_that_refuses_leaves_the_doubt_as_a_score_does() -> None:
    found, _ = audited(lambda request: say("I would rather not."))
    assert "reference_fails" in kinds(found)
    assert "gave no usable verdict" in next(fault.message for fault in found.faults if fault.kind == "reference_fails")


def test_without_a_judge_it_is_incomplete_and_says_which_check_needs_one() -> None:
    found = audit_task(default_sandbox(), case())
    assert (found.state, kinds(found)) == ("incomplete", {"no_judge"})
    (fault,) = found.faults
    assert (fault.check, "Check 3 cannot tell" in fault.message) == (2, True)
    assert found.reference is not None
    assert (found.reference.reward, found.reference.unjudged) == (None, True)
    clear = audit_task(default_sandbox(), case(reference=reference(answer="I ordered 3 teas.")))
    assert clear.state == "incomplete", "contrary answers are doubts: whether they earn is not known"
    unclaimed = subject(TEA, OTHERS, ASKS, reference=None)
    assert kinds(audit_task(default_sandbox(), unclaimed)) == {"no_reference"}


def test_of_many_doubts_some_are_asked_and_the_rest_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_judge, "MOST_VARIANTS", 4)
    found, asked = audited(sober)
    assert len(asked) == 5, "the reference's own end comes first"
    assert (found.state, kinds(found)) == ("green", {"mutants_cut"})
    left = [probe for probe in found.mutants if probe.probe.unjudged]
    assert left
    assert not any(probe in found.counted for probe in left)


def test_a_judge_that_is_not_there_leaves_nothing_known() -> None:
    with pytest.raises(LLMError, match="the judge could not be asked"):
        audited(lambda request: html())
