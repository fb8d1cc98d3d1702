"""What is stored of a task beside its content: who made it, how solvers agreed, what makes it difficult."""

from __future__ import annotations

import pytest

from synthesis.contracts import Consistency, Reference, ReferenceCall
from synthesis.formats.envscaler import read_scenario
from synthesis.formats.files import Entry
from tests.scenarios_pages.support import make_task
from tests.scenarios_pages.support import task_record as imported_record
from webapp.scenarios.measures.difficulty import count_difficulty
from webapp.scenarios.models import Task
from webapp.scenarios.references import save_reference
from webapp.scenarios.revision_record import RevisionChanges, build_task_record, read_start
from webapp.scenarios.services import save_task
from webapp.scenarios.task_records import iterate_revision_records

AGREED = Consistency(runs=5, solved=3, agree=2, turn_limit=12, turns=(4, 5, 9, 12, 12))
CALLS = [ReferenceCall(tool=name, arguments={}) for name in ("look", "add", "add")]
BLUEPRINT = """{"nodes": [{"id": "t1", "kind": "tool", "tool": "look"}, {"id": "t2", "kind": "tool", "tool": "add"}],
"walks": [["look", "add"]]}"""


@pytest.mark.django_db
def test_variant_and_consistency_are_no_content_and_travel_with_exports() -> None:
    task = make_task()
    assert task.current is not None
    plain = imported_record()
    record = plain.model_copy(update={"variant": "programmatic", "consistency": AGREED})
    version, initial = task.scenario.version, task.scenario.initial
    saved = save_task(record, version, initial, read_start(task.current), task.source)
    assert (saved.task, saved.revision.pk) == ("unchanged", task.current_id), "neither makes a new revision"
    assert Task.objects.get(pk=task.pk).variant == "programmatic"
    ((_, spelled),) = iterate_revision_records([saved.revision.pk])
    read = read_scenario(Entry("record", spelled))
    assert (read.variant, read.consistency) == ("programmatic", AGREED)
    again = save_task(plain, version, initial, read_start(task.current), task.source).revision
    again.refresh_from_db()
    assert (again.variant, again.consistency["solved"]) == ("programmatic", 3), "it is not forgotten"


@pytest.mark.django_db
def test_a_changed_instruction_keeps_who_made_it_and_drops_how_solvers_did() -> None:
    task = make_task()
    revision = task.current
    assert revision is not None
    revision.variant, revision.consistency = "autoforge", AGREED.model_dump(mode="json")
    assert build_task_record(revision, None).consistency == AGREED
    changed = build_task_record(revision, None, RevisionChanges(instruction="Count further."))
    assert (changed.variant, changed.consistency) == ("autoforge", None)


@pytest.mark.django_db
def test_difficulty_follows_the_reference_that_counts() -> None:
    task = make_task()
    assert task.current is not None
    save_reference(task.current, Reference(calls=tuple(CALLS)), "test")
    row = type(task.current).objects.get(pk=task.current_id).difficulty
    assert (row.unique_tools, row.invocations, row.walk_steps) == (2, 3, None)
    save_reference(task.current, Reference(calls=tuple(CALLS[:1])), "test")
    row.refresh_from_db()
    assert (row.unique_tools, row.invocations) == (1, 1)


def test_difficulty_is_counted_from_what_a_task_was_made_of() -> None:
    walked = count_difficulty(BLUEPRINT, "", CALLS)
    assert (walked.walk_steps, walked.unique_tools, walked.invocations) == (2, 2, 3), "calls are the reference's"
    script = count_difficulty("", "def solve(call):\n    return sum(call('look') for _ in [1] if _)", CALLS)
    assert (script.branches, script.aggregations, script.invocations) == (1, 1, 3)
    assert count_difficulty('{"nodes": []}', "", CALLS).walk_steps is None, "a blueprint that cannot be read"
