"""What is found out about rows while they are frozen: executed again, compared between the sides, told everywhere."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from synthesis.contracts import Reference
from tests.datasets.dataset_support import carry_out, context_of, make_tasks, talk, uploaded_file
from tests.datasets.test_dataset_pages import text
from tests.fixtures.api import program
from tests.rollouts_web.support import REFERENCE, make_task, person
from tests.training_data.test_export import solving, store
from training.dataset import Split
from webapp.datasets import freeze_job, services
from webapp.datasets.evidence import executions
from webapp.datasets.evidence.near_duplicates import load_listed_pairs
from webapp.datasets.models import Dataset, DatasetState, RowExecution
from webapp.datasets.selection import parse_selection
from webapp.datasets.storage import get_manifest, read_rows
from webapp.jobs.claims import Cancelled
from webapp.jobs.models import Job, JobState
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.references import save_reference
from webapp.trajectories.models import ReplayState, Trajectory

pytestmark = pytest.mark.django_db
WHOLE = Split(test_share=0)


def frozen(split: Split = WHOLE, **told: Any) -> Dataset:
    row = carry_out(services.create_dataset(None, parse_selection(told), split))
    assert row.state == DatasetState.READY, row.error
    return row


def executed(row: Dataset) -> dict[str, int]:
    report = get_manifest(row).report
    assert report is not None
    assert report.executed is not None
    return {name: number for name, number in report.executed.model_dump().items() if number}


def ids(row: Dataset) -> list[str]:
    return [one.id for one in read_rows(row, "train")]


def test_attempts_that_come_out_otherwise_are_left_out_and_quarantined() -> None:
    task = make_task()
    kept = store(task, solving(), copies=4)
    dearer, elsewhere, lost = Trajectory.objects.exclude(pk=kept.pk).order_by("pk")
    Trajectory.objects.filter(pk=elsewhere.pk).update(final_hash="f" * 64)
    Trajectory.objects.filter(pk=lost.pk).update(final_hash="")
    # Told to have solved the task, it opened nobody's box.
    dearer.steps.filter(tool="open_box").update(arguments={"box_id": "B-9"})
    row = frozen(kind="trajectories")
    assert ids(row) == [f"trajectory:{kept.pk}"]
    assert executed(row) == {"executed": 3, "differing": 2, "failed": 1}
    assert row.left_out == {"Executed again, it came out otherwise": 2, "Could not be executed again": 1}
    dearer.refresh_from_db()
    assert (dearer.replay, dearer.reward, dearer.outcome) == (ReplayState.DIVERGED, 0.0, "failed")
    assert "executed again it earns 0.0000" in dearer.replay_note
    assert dearer.scores.count() == 2, "what it was scored with stays"
    told = dict(RowExecution.objects.values_list("row", "verdict"))
    assert told == {f"trajectory:{dearer.pk}": "differs", f"trajectory:{elsewhere.pk}": "differs",
                    f"trajectory:{lost.pk}": "failed"}  # fmt: skip
    client = Client()
    client.force_login(person("viewer", "vera"))
    page = text(client.get(reverse("datasets:dataset", args=[row.public_id])))
    assert "2 had a different result, 1 could not be executed: left out" in page
    assert "it ends in another state than the stored one" in page


def test_a_task_whose_reference_does_not_solve_it_is_left_out() -> None:
    good, bad, bare = make_tasks(3, 1)
    assert good.current is not None
    assert bad.current is not None
    save_reference(good.current, REFERENCE, "test")
    save_reference(bad.current, Reference(calls=REFERENCE.calls[:1], answer=REFERENCE.answer), "test")
    row = frozen()
    assert ids(row) == [f"revision:{good.current_id}", f"revision:{bare.current_id}"]
    assert executed(row) == {"executed": 2, "differing": 1, "without_reference": 1}


def test_what_was_executed_before_a_job_was_lost_is_not_executed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task()
    store(task, solving(), copies=6)
    row = services.create_dataset(None, parse_selection({"kind": "trajectories"}), WHOLE)
    monkeypatch.setattr(executions, "WRITTEN", 1)
    monkeypatch.setattr(executions, "AT_ONCE", 1)
    really, calls = executions.execute_run, []

    def some(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 4:
            raise Cancelled("the worker was lost")
        return really(*given)

    monkeypatch.setattr(executions, "execute_run", some)
    with pytest.raises(Cancelled):
        freeze_job.freeze_dataset(context_of(row))
    assert RowExecution.objects.count() == 3
    Job.objects.filter(pk=row.job_id).update(state=JobState.QUEUED)
    again = carry_out(row)
    assert again.train_rows == 6
    assert executed(again) == {"executed": 6}
    assert len(calls) == 4 + 3
    assert not RowExecution.objects.exists(), "of a frozen dataset those alone stay that were left out"


def test_what_was_executed_is_executed_again_once_it_changed() -> None:
    task = make_task()
    run = store(task, solving())
    row = services.create_dataset(None, parse_selection({"kind": "trajectories"}), WHOLE)
    RowExecution.objects.create(dataset=row, row=f"trajectory:{run.pk}", basis="of another end", verdict="differs")
    assert executed(carry_out(row)) == {"executed": 1}


def test_near_duplicates_between_the_sides_are_listed() -> None:
    tasks = make_tasks(6, 1)
    said = [
        "Open the box that Ada keeps on the upper shelf, and tell her what is in it before you close it again.",
        "Open the box that Ada keeps on the upper shelf, and tell her what is in it before you close it.",
        "open the box that ada keeps on the upper shelf and tell her what is in it before you close it again",
        "How many boxes does Bo own?",
        "Burn everything that nobody has asked about since spring.",
        "Which of these is locked, and since when, and who holds its key?",
    ]
    for task, words in zip(tasks, said, strict=True):
        TaskRevision.objects.filter(pk=task.current_id).update(instruction=words)
    # A seed that parts the first three.
    for seed in range(40):
        split = Split(unit="task", test_share=0.5, seed=seed)
        row = frozen(split)
        held = {one.id for one in read_rows(row, "test")}
        alike = {f"revision:{task.current_id}" for task in tasks[:3]}
        if 0 < len(held & alike) < 3:
            break
    pairs = load_listed_pairs(row)
    assert {pair.held_out.id for pair in pairs} == held & alike
    assert {pair.learnt.id for pair in pairs} <= alike - held
    assert all(pair.similarity >= 0.9 for pair in pairs)
    near = get_manifest(row).report.near_duplicates  # type: ignore[union-attr]
    assert near is not None
    assert (near.rows, near.listed) == (len(pairs), len(pairs))
    told = f"{near.rows} held out {'is' if near.rows == 1 else 'are'} nearly the same as one to learn from"
    assert get_manifest(row).sentence.endswith(told)
    client, vera = Client(), person("viewer", "vera")
    client.force_login(vera)
    page = client.get(reverse("datasets:near_duplicates", args=[row.public_id]))
    assert pairs[0].held_out.said in text(page)
    assert reverse("scenarios:task", args=[tasks[0].pk]) in page.content.decode()
    by_api = program(vera, "read").get(f"/datasets/{row.public_id}/near_duplicates").json()
    assert (by_api["rows"], by_api["threshold"]) == (near.rows, 0.9)
    assert [one["similarity"] for one in by_api["data"]] == [pair.similarity for pair in pairs]


def test_a_file_s_rows_are_compared_and_nothing_of_them_executed() -> None:
    file = uploaded_file([talk(number) for number in range(12)])
    row = carry_out(
        services.create_file_dataset(None, file, Split(unit="environment", test_share=0.5, seed=0), licence="mit")
    )
    report = get_manifest(row).report
    assert report is not None
    assert (report.executed, report.licence) == (None, "mit")
    assert report.near_duplicates is not None
    assert report.near_duplicates.compared == 12
    whole = get_manifest(carry_out(services.create_file_dataset(None, file))).report
    assert whole is not None
    assert whole.near_duplicates is None
