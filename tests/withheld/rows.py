"""The desk's tasks in the database, and variants of them."""

from __future__ import annotations

from typing import Any

from synthesis.contracts import CheckRecord, Reference, ReferenceCall
from synthesis.formats.answer_form import serialize_form
from synthesis.formats.records import TaskRecord
from synthesis.runtime import get_default_sandbox
from tests.verifier_fields import nest_verifier
from tests.withheld import desk
from webapp.environments.services import build_program, save_environment
from webapp.scenarios.audits.audit_job import audit_tasks
from webapp.scenarios.frames.services import frame_task
from webapp.scenarios.importer import import_task
from webapp.scenarios.models import Task
from webapp.scenarios.withheld.services import make_variants


def make_task(
    *calls: ReferenceCall,
    checks: tuple[str, ...] = (desk.BOOKED, desk.ROOM),
    key: str = "book",
    audited: bool = False,
    **changes: Any,
) -> Task:
    """A task with a frame, whose tool can be withheld; it counts as green unless it is to be `audited`."""
    _, _, version = save_environment(desk.environment(), [], "test")
    form, expected = (desk.FORM, desk.EXPECTED) if desk.ROOM in checks else ((), {})
    fields: dict[str, Any] = {
        "environment_key": "desk",
        "key": key,
        "title": "A room for Olga",
        "instruction": "Olga Sokolova needs room R-2. Which one does she have then?",
        "answer_form": form,
        "expected_answer": expected,
        "initial_state": desk.INITIAL,
        "checks": tuple(CheckRecord(label=f"Check {number}", source=one) for number, one in enumerate(checks, 1)),
        "score_rule": "goals",
        "reference": Reference(calls=calls or (desk.LOOK, desk.BOOK), answer=desk.ANSWERS),
        "raw": {"env_id": "desk", "task_id": key, "init_config": desk.INITIAL, "task": "Olga needs R-2."}
        | serialize_form(form, expected),
    }
    record = TaskRecord(**nest_verifier(fields | changes))
    row = import_task(get_default_sandbox(), record, version, build_program(version), "test").row
    frame_task(get_default_sandbox(), row, None, audited=False)
    if audited:
        audit_tasks(get_default_sandbox(), [row.pk])
    else:
        Task.objects.filter(pk=row.pk).update(audit_state="green")
    return Task.objects.get(pk=row.pk)


def make_variant(parent: Task | None = None, *, audited: bool = False) -> Task:
    parent = parent or make_task()
    done = make_variants(get_default_sandbox(), [parent.pk])
    assert (len(done.all), done.failed) == (1, []), done
    if audited:
        audit_tasks(get_default_sandbox(), done.all)
    return Task.objects.select_related("current__scenario__version", "environment").get(pk=done.all[0])
