"""An intentionally bad task for every kind of fault, and a sound one that is green."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from synthesis.contracts import Allowance, ChecksVerifier, Frame, Limits, ReferenceCall, Verdict
from synthesis.errors import InfrastructureError, InputError, ProgramError
from synthesis.runtime import Sandbox
from synthesis.verifiers import probe_families
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import TaskAudit
from synthesis.verifiers.checks import mark_checks
from synthesis.verifiers.score_comparison import JudgedEnd, sample_checks

from .shop import ANSWER, INITIAL, ORDER, OTHERS, TEA, UNPINNED, check, reference, subject


def kinds(found: TaskAudit) -> set[str]:
    return {fault.kind for fault in found.faults}


def message(found: TaskAudit, kind: str) -> str:
    return next(fault.message for fault in found.faults if fault.kind == kind)


def test_a_sound_task_is_green(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, subject())
    assert (found.state, kinds(found)) == ("green", set())
    assert (found.nothing.reward, found.reference and found.reference.reward) == (0, 1)
    assert found.deterministic is True
    spelled = [one for one in found.mutants if one.mutant.expects == "full"]
    assert [one.mutant.after for one in spelled if one.mutant.kind == "answer_respelled"] == ['{"count": 3.0}']
    assert found.below == len(found.counted) == len(found.mutants) - len(spelled) > 5
    removed = next(one for one in found.mutants if one.mutant.kind == "call_removed")
    assert removed.noticed_by == (0,)
    told = [one for one in found.mutants if one.mutant.kind == "answer_altered"]
    assert told
    assert all(one.noticed_by == (2,) for one in told)
    assert list(found.marks) == ["goal", "guard", "goal"]


def test_a_second_audit_says_the_same(sandbox: Sandbox) -> None:
    assert audit_task(sandbox, subject(), at_once=1) == audit_task(sandbox, subject(), at_once=4)


def test_doing_nothing_that_is_paid_is_red(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, subject(TEA, OTHERS, rule="proportion"))
    assert found.state == "red"
    assert found.nothing.reward == 0.5
    assert "earns 0.5; it must earn 0" in message(found, "noop_scores")


def test_a_mutant_that_nobody_notices_is_red(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, subject(check("'tea' in final_state['orders']"), OTHERS, ANSWER, frame=UNPINNED))
    assert found.state == "red"
    assert "1 places may change, such as /orders/tea" in message(found, "values_unpinned")
    assert "behind the reference: look(), then order(item='tea', count=3), then order(" in message(
        found, "reachable_wrong_end"
    )
    assert found.below < len(found.counted)
    assert "call 2 (order) with count 4 instead of 3" in message(found, "mutant_passes")


def test_a_reference_that_does_not_solve_is_red(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, subject(reference=reference(ReferenceCall(tool="look"), ReferenceCall(tool="none"))))
    assert found.state == "red"
    assert "earns 0.5 instead of 1. Checks that fail: Check 1." in message(found, "reference_fails")
    assert "calls that did not succeed: 2 none" in message(found, "reference_fails")


class Drifting:
    """The sandbox with another seed at every reset: a program whose randomness nobody fixed."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.seeds = itertools.count()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sandbox, name)

    def reset(self, *given: Any, **options: Any) -> Any:
        return self.sandbox.reset(*given, **options | {"seed": next(self.seeds)})


def test_what_a_wrong_reference_lacks_is_no_hole_of_the_verifier(sandbox: Sandbox) -> None:
    """Two teas instead of three: what alters that into the right count rightly earns everything."""
    two = reference(ReferenceCall(tool="look"), ReferenceCall(tool="order", arguments={"item": "tea", "count": 2}))
    found = audit_task(sandbox, subject(reference=two, frame=UNPINNED))
    paid = [probe.mutant for probe in found.mutants if probe.probe.reward == 1]
    assert [mutant.after for mutant in paid if mutant.kind == "argument_altered"] == [3]
    assert kinds(found) & {"reference_fails", "mutant_passes", "unguarded_change", "answer_too_narrow"} == {
        "reference_fails"
    }


def test_a_program_that_ends_differently_is_red(sandbox: Sandbox) -> None:
    drawing = subject(reference=reference(ORDER, ReferenceCall(tool="draw")))
    found = audit_task(Drifting(sandbox), drawing)  # type: ignore[arg-type]
    assert (found.state, found.deterministic) == ("red", False)
    assert "nondeterministic" in kinds(found)
    steady = audit_task(sandbox, drawing)
    assert steady.deterministic is True
    assert "nondeterministic" not in kinds(steady)


def test_a_reward_that_hangs_on_clock_or_seed_is_noted(sandbox: Sandbox) -> None:
    calls = (ORDER, ReferenceCall(tool="stamp"), ReferenceCall(tool="draw"))
    clock = check("final_state['log'][0] == 9 if final_state['log'] else False")
    found = audit_task(sandbox, subject(TEA, OTHERS, ANSWER, clock, reference=reference(*calls)))
    assert "depends_on_clock" in kinds(found)
    assert "depends_on_seed" not in kinds(found)
    assert found.other_clock is not None
    assert found.other_clock.reward == pytest.approx(2 / 3)


def test_a_check_that_raises_at_the_start_or_on_the_reference_is_red(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, subject(TEA, OTHERS, ANSWER, check("final_state['absent']")))
    assert found.state == "red"
    assert "Check 4 raises on the initial state: KeyError" in message(found, "check_raises")
    late = check("initial_state == final_state or final_state['absent']")
    found = audit_task(sandbox, subject(TEA, OTHERS, ANSWER, late))
    assert "raises on the reference's end state" in message(found, "check_raises")


def test_a_check_that_raises_on_mutants_alone_is_noted(sandbox: Sandbox) -> None:
    shaky = check("initial_state == final_state or final_state['orders']['tea'] == 3")
    found = audit_task(sandbox, subject(TEA, OTHERS, ANSWER, shaky))
    assert found.state == "green"
    assert "where it counts as failed: KeyError" in message(found, "check_raises_later")


HEAD = "def check(initial_state, final_state, answer):\n"


def test_a_check_outside_of_its_language_is_broken_and_the_audit_red(sandbox: Sandbox) -> None:
    """It would be honest while the process that forks its own has few forks to count, and pay for anything later."""
    sleeper = (
        HEAD + "    import sys\n    frame = sys._getframe()\n"
        "    while frame.f_code.co_name != '_child': frame = frame.f_back\n"
        "    late = frame.f_locals['zygote'].jail.count > 600\n"
        "    return late or final_state['orders'].get('tea') == 3\n"
    )
    found = audit_task(sandbox, subject(sleeper, OTHERS, ANSWER))
    assert found.state == "red"
    assert "raises on the initial state: line 2: the module 'sys' is not in the language" in message(
        found, "check_raises"
    )
    assert mark_checks(sandbox, [sleeper], INITIAL) == ["broken"]


class Apart:
    """The sandbox with a third check that turns round when it is scored."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sandbox, name)

    def evaluate_ends(self, initial: Any, ends: list[Any]) -> Iterator[list[Verdict]]:
        for (checks, _, _), verdicts in zip(ends, self.sandbox.evaluate_ends(initial, ends), strict=True):
            yield [
                Verdict(passed=not verdict.passed) if source == ANSWER and self.turned() else verdict
                for source, verdict in zip(checks, verdicts, strict=True)
            ]

    def turned(self) -> bool:
        return True


def test_a_check_that_tells_an_audit_from_a_score_is_red(sandbox: Sandbox) -> None:
    found = audit_task(Apart(sandbox), subject())  # type: ignore[arg-type]
    assert found.state == "red"
    assert {fault.check for fault in found.faults if fault.kind == "judged_differently"} == {2}
    assert "Check 3 fails in the audit and passes when the start is scored" in message(found, "judged_differently")
    assert "nondeterministic" not in kinds(found)


def test_every_check_is_scored_on_the_start_the_reference_and_a_variant() -> None:
    ends = [JudgedEnd(str(n), {}, str(n), "", ()) for n in range(40)]
    chosen = sample_checks(["a", "b", "c"], ends[0], ends[1], ends[2:])
    assert [list(checks) for _, checks in chosen] == [[0, 1, 2], [0, 1, 2], [0], [1], [2]]
    assert len({end.name for end, _ in chosen}) == 5
    assert [list(checks) for _, checks in sample_checks(["a"] * 9, ends[0], ends[1], ends[2:3])][2] == list(range(9))


class Flaky(Apart):
    """The sandbox with a third check that answers by turns."""

    turns = itertools.count()

    def turned(self) -> bool:
        return next(self.turns) % 2 == 0


def test_a_check_that_answers_by_chance_is_named(sandbox: Sandbox) -> None:
    found = audit_task(Flaky(sandbox), subject())  # type: ignore[arg-type]
    assert (found.state, found.deterministic) == ("red", False)
    assert [fault.check for fault in found.faults if fault.kind == "nondeterministic"] == [2]
    assert "Check 3 answers differently for the same state and answer" in message(found, "nondeterministic")


def test_a_check_that_hangs_on_some_ends_leaves_mutants_unjudged_not_refused(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("synthesis.runtime.sandbox.AT_ONCE", 1)
    monkeypatch.setattr("synthesis.verifiers.check_table.MOST_STOPPED", 1)
    hang = HEAD + "    while final_state['orders'].get('tea', 3) != 3: pass\n    return True\n"
    found = audit_task(sandbox, subject(TEA, OTHERS, ANSWER, hang))
    assert found.state == "incomplete"
    unjudged = [one for one in found.mutants if one.probe.reward is None]
    assert unjudged
    assert "was stopped on other end states" in unjudged[0].probe.note


def test_checks_that_never_vary_are_named(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, subject(TEA, OTHERS, ANSWER, check("True"), check("False")))
    by_kind = {fault.kind: fault.check for fault in found.faults}
    assert by_kind["check_never_fails"] == 3
    assert by_kind["check_never_passes"] == 4
    assert found.state == "red"


def test_checks_that_contradict_are_observed_not_proved(sandbox: Sandbox) -> None:
    more = check("final_state['orders'].get('tea', 0) > 3")
    found = audit_task(sandbox, subject(TEA, OTHERS, ANSWER, more))
    fault = next(fault for fault in found.faults if fault.kind == "checks_contradict")
    assert fault.check == 0
    assert "Check 1 and Check 4" in fault.message
    assert "observed, not proved" in fault.message


def test_an_answer_that_no_check_reads_is_noted_and_not_altered(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, subject(TEA, OTHERS, answer_form=()))
    assert (found.state, kinds(found)) == ("green", {"answer_ignored"})
    assert not [one for one in found.mutants if one.mutant.kind == "answer_altered"]


def test_a_field_that_no_check_reads_is_red(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, subject(TEA, OTHERS))
    assert (found.state, kinds(found)) == ("red", {"answer_ignored", "answer_too_loose"})


def test_a_third_parameter_is_the_answer_under_any_name(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, subject(TEA, OTHERS, check("is_expected(c, 'count', 3, type='number')", "a, b, c")))
    assert (found.state, kinds(found)) == ("green", set())


def test_without_a_reference_it_is_unproven_or_red(sandbox: Sandbox) -> None:
    found = audit_task(sandbox, subject(reference=None))
    assert (found.state, kinds(found), found.reference) == ("unproven", {"no_reference"}, None)
    paid = audit_task(sandbox, subject(TEA, OTHERS, rule="proportion", reference=None))
    assert paid.state == "red"


def test_a_mutant_that_hangs_is_neither_right_nor_wrong(sandbox: Sandbox) -> None:
    """Altered by one, this reference runs into the program's endless loop: nothing is known of that end."""
    many = reference(ReferenceCall(tool="order", arguments={"item": "tea", "count": 100}), answer='{"count": 100}')
    frame = Frame(allowances=(Allowance(path="/orders/tea", values=(100,)),))
    hundred = check("final_state['orders'].get('tea') == 100")
    found = audit_task(sandbox, subject(hundred, OTHERS, answer_form=(), reference=many, frame=frame), at_once=1)
    lost = [one for one in found.mutants if one.probe.reward is None]
    assert len(lost) == 1
    assert found.below == len(found.counted) - 1
    assert found.state == "incomplete"
    assert "ran out of time" in message(found, "mutant_lost") or "time" in message(found, "mutant_lost")


def test_too_many_mutants_are_spread_and_said(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    few = tuple(replace(family, most=3) for family in probe_families.FAMILIES[:1])
    monkeypatch.setattr(probe_families, "FAMILIES", few)
    found = audit_task(sandbox, subject())
    assert len(found.mutants) == 3
    assert "3 of " in message(found, "mutants_cut")


def test_what_cannot_be_audited_says_why(sandbox: Sandbox) -> None:
    with pytest.raises(InputError, match="no checks"):
        audit_task(sandbox, subject().model_copy(update={"verifier": ChecksVerifier()}))
    broken = subject().program.model_copy(update={"source": "class Other: pass"})
    with pytest.raises(ProgramError):
        audit_task(sandbox, subject(program=broken))


def test_a_stop_in_the_middle_passes_through(sandbox: Sandbox) -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        audit_task(sandbox, subject(), stop)


@pytest.mark.kill
def test_a_sandbox_killed_in_the_middle_gives_no_audit_and_no_zero() -> None:
    own = Sandbox(limits=Limits(memory_mib=128, call_seconds=3.0))

    class Killing:
        """The sandbox goes away under the seventh episode, a mutant's."""

        count = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(own, name)

        def reset(self, *given: Any, **options: Any) -> Any:
            episode = own.reset(*given, **options)
            type(self).count += 1
            if type(self).count == 7:
                own.close()
            return episode

    try:
        with pytest.raises(InfrastructureError):
            audit_task(Killing(), subject(), at_once=1)  # type: ignore[arg-type]
    finally:
        own.close()
