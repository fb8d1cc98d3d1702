"""Frames of real tasks with the audits that follow; only where ENVARIUM_TEST_DATA names their folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from synthesis.formats.files import read_entries
from synthesis.runtime import Sandbox, get_default_sandbox
from synthesis.verifiers.audit import audit_task
from synthesis.verifiers.audit_report import TaskAudit
from webapp.environments.services import build_program
from webapp.scenarios.audits.services import Case, build_audit_subject, list_audit_cases
from webapp.scenarios.importer import import_entries
from webapp.scenarios.models import Task
from webapp.trajectories.importer import import_runs

pytestmark = [pytest.mark.data, pytest.mark.slow, pytest.mark.django_db(transaction=True)]


def unguarded(audit: TaskAudit) -> int:
    return sum(fault.kind == "unguarded_change" for fault in audit.faults)


def audited(sandbox: Sandbox, case: Case) -> tuple[TaskAudit, TaskAudit]:
    """With the task's frame, and without one."""
    subject = build_audit_subject(case, build_program(case.revision.scenario.version))
    assert subject.frame is not None
    return audit_task(sandbox, subject), audit_task(sandbox, subject.with_frame(None))


def test_frames_of_real_tasks_leave_less_unguarded_and_every_finding_is_said(real_data: Path) -> None:
    folder, sandbox = real_data / "envscaler", get_default_sandbox()
    import_entries(
        sandbox, read_entries(folder / "env_metadata.json"), read_entries(folder / "rl_scenarios.json"), "test"
    )
    frames = import_runs(sandbox, read_entries(folder / "trajectories.json"), "test", frames=True)["frames"]
    made = [
        case for case in list_audit_cases([row.pk for row in Task.objects.all()]) if case.revision.frame is not None
    ]
    assert len(made) == frames["made"] > 0
    assert frames["failed"] == []
    pairs = [audited(sandbox, case) for case in made]
    assert sum(unguarded(framed) for framed, _ in pairs) < sum(unguarded(free) for _, free in pairs)
    for framed, free in pairs:
        assert framed.reference is not None
        assert framed.reference.outside == ()
        assert framed.unseen is None
        assert free.unseen is not None
        assert 0 <= free.unseen.unseen <= free.unseen.tried <= free.unseen.records
        assert all(fault.message for fault in (*framed.faults, *free.faults))
