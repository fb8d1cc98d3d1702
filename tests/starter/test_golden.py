"""Bundled tasks judged by golden states instead of checks: each is made of the reference, and its audit is green."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthesis.formats.answer_form import build_field_checks
from synthesis.formats.records import TaskRecord
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import build_program, list_folders, read_environment, read_tasks
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.call_sequences import Subject, run_calls
from synthesis.verifiers.golden import golden_differences
from synthesis.verifiers.golden.golden_states import make_golden
from tests.starter.audited import TASKS

SAMPLE = {read_tasks(folder)[2].key for folder in list_folders()[:6]}


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return get_default_sandbox()


def judged_by_golden(sandbox: Sandbox, folder: Path, task: TaskRecord) -> Subject:
    """The task with a golden state in the place of its own verifier; of its checks those of the answer form stay."""
    subject = Subject(
        program=build_program(read_environment(folder)),
        initial=encode_state(task.initial_state),
        answer_form=task.answer_form,
        verifier=task.verifier,
        reference=task.reference,
    )
    checks = build_field_checks(task.answer_form, task.expected_answer)
    made = make_golden(sandbox, subject, checks=checks)
    assert made.unapproved == ()
    return subject.model_copy(update={"verifier": made.golden})


@pytest.mark.parametrize(
    ("folder", "task"), [pytest.param(*one, id=one[1].key) for one in TASKS if one[1].key in SAMPLE]
)
def test_the_reference_makes_a_golden_state(sandbox: Sandbox, folder: Path, task: TaskRecord) -> None:
    subject = judged_by_golden(sandbox, folder, task)
    start = run_calls(sandbox, subject, ()).state
    assert start is not None
    assert subject.golden is not None
    assert subject.reference is not None
    assert golden_differences(subject.golden, start, start)
    elsewhere = subject.model_copy(update={"seed": 991, "now": "2029-03-04T01:02:03+00:00"})
    end = run_calls(sandbox, elsewhere, subject.reference.calls).state
    assert end is not None
    assert golden_differences(subject.golden, start, end) == ()


@pytest.mark.parametrize(("folder", "task"), [pytest.param(*one, id=one[1].key) for one in TASKS[::4]])
@pytest.mark.slow
def test_the_audit_of_the_golden_state_is_green(sandbox: Sandbox, folder: Path, task: TaskRecord) -> None:
    found = audit_task(sandbox, judged_by_golden(sandbox, folder, task))
    told = [fault.message for fault in found.faults if fault.kind not in ("check_never_fails", "argument_unaltered")]
    assert told == []
    own = (found.reference, found.other_clock, found.other_seed)
    assert [found.nothing.reward, *(one and one.reward for one in own)] == [0, 1, 1, 1]
    assert found.below == len(found.counted)
    assert len(found.mutants) - len(found.counted) < len(found.counted) / 2, "equivalent ones, and answers spelled anew"
