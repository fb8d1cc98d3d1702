"""Bundled tasks are yardsticks: an audit is green, and an altered answer is among the mutants that it notices.

Two tasks; the command of the README audits them all (`tests/stack/test_readme.py`).
"""

from __future__ import annotations

import pytest

from synthesis.runtime import Sandbox, default_sandbox
from synthesis.runtime.encoding import encode_state
from synthesis.starter import environment, folders, tasks
from synthesis.starter.record import program_of
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.call_sequences import Subject

TASKS = [(folder, tasks(folder)[0]) for folder in (folders()[0], folders()[-1])]


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return default_sandbox()


@pytest.mark.parametrize(("folder", "task"), TASKS, ids=lambda item: getattr(item, "key", ""))
def test_the_audit_is_green(sandbox, folder, task):
    audit = audit_task(
        sandbox,
        Subject(
            program=program_of(environment(folder)),
            initial=encode_state(task.initial_state),
            checks=tuple(check.source for check in task.checks),
            labels=tuple(check.label for check in task.checks),
            rule=task.score_rule,
            reference=task.reference,
            frame=task.frame,
        ),
    )
    assert {fault.kind for fault in audit.faults} <= {"check_never_fails"}, [fault.message for fault in audit.faults]
    assert audit.state == "green"
    assert audit.reference is not None
    assert (audit.nothing.reward, audit.reference.reward, audit.deterministic) == (0, 1, True)
    kinds = {one.mutant.kind for one in audit.counted}
    changed = {"call_removed", "argument_altered", "call_added", "answer_altered", "answer_contrary"}
    assert kinds - {"record_swapped"} == changed
    spelled = [one for one in audit.mutants if one.mutant.expects == "full"]
    assert len(spelled) >= 6
    assert all(one.probe.reward == 1 for one in spelled)
    assert audit.below == len(audit.counted)
