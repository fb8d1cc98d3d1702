"""Datasets over the API: dry run, freeze, list, look at, download, archive; what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from tests.datasets.dataset_support import add_task, carry_out, make_environment, make_tasks, talk, uploaded_file
from tests.datasets.test_datasets import job_on
from tests.fixtures.api import Program, problem, program
from tests.rollouts_web.support import person
from training.dataset import TaskRow
from webapp.accounts.models import AuditEntry
from webapp.datasets.models import Dataset
from webapp.jobs.models import Job

pytestmark = pytest.mark.django_db

BY_TASK = {"unit": "task", "test_share": 0.5, "seed": 1}


@pytest.fixture
def researcher() -> Program:
    return program(person("researcher", "ruth"), "read", "train")


def asked(client: Program, status: int = 202, **body: Any) -> dict[str, Any]:
    answer = client.post("/datasets", body)
    assert answer.status_code == status, answer.content[:2000]
    found: dict[str, Any] = answer.json()
    return found


def frozen(client: Program, **body: Any) -> dict[str, Any]:
    ident = asked(client, **body)["id"]
    carry_out(Dataset.objects.get(public_id=ident))
    found: dict[str, Any] = client.get(f"/datasets/{ident}").json()
    return found


def downloaded(answer: Any) -> bytes:
    async def read() -> bytes:
        return b"".join([part async for part in answer])

    assert answer.status_code == 200, answer.content[:2000]
    assert answer.headers["Content-Disposition"].startswith("attachment")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    return async_to_sync(read)()


def test_a_dataset_from_the_filter_to_its_rows(researcher: Program) -> None:
    make_tasks(2, 4)
    begun = asked(researcher, selection={"kind": "tasks", "source": "test"}, split=BY_TASK, name="Shelves")
    assert (begun["object"], begun["state"], begun["name"]) == ("dataset", "freezing", "Shelves")
    assert begun["id"].startswith("ds-")
    carry_out(Dataset.objects.get(public_id=begun["id"]))
    found = researcher.get(f"/datasets/{begun['id']}").json()
    assert found["state"] == "ready"
    assert found["train_rows"] + found["test_rows"] == 8
    assert found["manifest"]["split"] == BY_TASK
    assert found["selection"]["source"] == "test"
    assert "split by task" in found["sentence"]
    sides = {}
    for side in ("train", "test"):
        lines = downloaded(researcher.get(f"/datasets/{begun['id']}/content?side={side}")).splitlines()
        sides[side] = {TaskRow.model_validate(json.loads(line)).id for line in lines}
        assert len(lines) == found[f"{side}_rows"]
        assert {"prompt", "rollout"} <= json.loads(lines[0]).keys()
    assert not sides["train"] & sides["test"]
    assert AuditEntry.objects.filter(action="dataset.download").count() == 2


def test_a_dry_run_stores_nothing_and_says_what_would_be(researcher: Program) -> None:
    make_tasks(3, 2)
    add_task(make_environment("shelf-0"), "unchecked", checks=False)
    found = asked(researcher, 200, dry_run=True, split={"unit": "environment", "test_share": 0.001})
    assert found["object"] == "dataset.dry_run"
    assert (found["found"], found["usable"], found["environments"]) == (7, 6, 3)
    assert found["left_out"] == {"This task has no checks and no criteria, so nothing could judge an attempt.": 1}
    assert "nothing held out" in found["problem"]
    assert found["proposals"]
    assert len(found["examples"]) == 6
    assert not Dataset.objects.exists()
    assert not Job.objects.exists()


def test_what_the_dry_run_proposes_can_be_frozen(researcher: Program) -> None:
    make_tasks(3, 3)
    said = {"unit": "environment", "test_share": 0.2, "seed": 0}
    found = asked(researcher, 200, dry_run=True, split=said | {"test_share": 0.001})
    for near in found["proposals"]:
        made = frozen(researcher, split=near["split"])
        assert (made["train_rows"], made["test_rows"]) == (near["train_rows"], near["test_rows"])


def test_the_same_content_is_named(researcher: Program) -> None:
    make_tasks(2, 2)
    first = frozen(researcher, split={"test_share": 0})
    second = frozen(researcher, split={"test_share": 0}, name="Another name")
    assert second["sha256"] == first["sha256"]
    assert second["same_content"] == [first["id"]]


def test_the_list_is_paged_and_narrowed(researcher: Program) -> None:
    make_tasks(1, 2)
    made = [frozen(researcher, split={"test_share": 0}, name=f"Number {number}") for number in range(3)]
    page = researcher.get("/datasets?limit=2").json()
    assert [one["id"] for one in page["data"]] == [made[2]["id"], made[1]["id"]]
    rest = researcher.get(f"/datasets?limit=2&cursor={page['next_cursor']}").json()
    assert [one["id"] for one in rest["data"]] == [made[0]["id"]]
    assert researcher.get("/datasets?kind=trajectories").json()["data"] == []
    assert len(researcher.get("/datasets?state=ready").json()["data"]) == 3


def test_archive_and_restore(researcher: Program) -> None:
    make_tasks(1, 2)
    made = frozen(researcher, split={"test_share": 0})
    row = Dataset.objects.get(public_id=made["id"])
    job = job_on(row)
    refused = problem(researcher.send("DELETE", f"/datasets/{made['id']}"), 409)
    assert job.public_id in refused["detail"]
    job.delete()
    assert researcher.send("DELETE", f"/datasets/{made['id']}").json()["archived"] is True
    assert researcher.get("/datasets").json()["data"] == []
    assert len(researcher.get("/datasets?archived=true").json()["data"]) == 1
    assert researcher.post(f"/datasets/{made['id']}/restore").json()["archived"] is False


def test_a_file_becomes_a_dataset(researcher: Program) -> None:
    file = uploaded_file([talk(number) for number in range(3)])
    made = frozen(researcher, file=file.public_id, split={"test_share": 0})
    assert (made["source"], made["file"], made["train_rows"]) == ("file", file.public_id, 3)


def test_a_file_that_the_split_does_not_fit_is_refused_at_once(researcher: Program) -> None:
    """Rows as OpenAI has them name nothing that could be split by."""
    said = b'{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}]}'
    bare = uploaded_file([said], report={"rows": 1})
    found = problem(researcher.post("/datasets", {"file": bare.public_id}), 422)
    assert "has no `environment`, by which this dataset is to be split" in found["detail"]
    assert "a test share of 0" in found["detail"]
    few = uploaded_file([talk(0)], report={"rows": 1})
    found = problem(researcher.post("/datasets", {"file": few.public_id}), 422)
    assert "Take another: a share of 0, which holds nothing out" in found["detail"]
    assert not Dataset.objects.exists()


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"selection": {"kind": "games"}}, 422, "selection.kind"),
        ({"selection": {"kind": "tasks", "low": 0.5}}, 422, "low: is for datasets of trajectories"),
        ({"selection": {"pass_low": 0.9, "pass_high": 0.1}}, 422, "pass_high"),
        ({"selection": {"surprise": 1}}, 422, "surprise"),
        ({"selection": {"environments": [0]}}, 422, "environments"),
        ({"split": {"test_share": 1}}, 422, "test_share"),
        ({"split": {"unit": "category"}}, 422, "unit"),
        ({"file": "file-unknown"}, 422, "there is no file"),
        ({"file": "file-unknown", "selection": {}}, 422, "not both"),
        ({"file": "file-unknown", "dry_run": True}, 422, "dry run"),
        ({"name": "x" * 201}, 422, "name"),
    ],
)
def test_what_cannot_be_asked_for(researcher: Program, body: dict[str, Any], status: int, words: str) -> None:
    said = problem(researcher.post("/datasets", body), status)
    assert words in said["detail"]
    assert not Dataset.objects.exists()


def test_what_is_sure_to_hold_nothing_is_refused_with_splits_that_do(researcher: Program) -> None:
    make_tasks(1, 2)
    said = problem(researcher.post("/datasets", {"split": {"unit": "environment", "test_share": 0.1}}), 422)
    assert "With this split there is nothing " in said["detail"]
    assert "1 environment at a test share of 0.1. Take one" in said["detail"]
    assert "Take one of these instead: Split by" in said["detail"]
    assert "Hold nothing out" in said["detail"]
    assert not Dataset.objects.exists()


def test_unknown_ones_and_ones_that_are_not_ready(researcher: Program) -> None:
    problem(researcher.get("/datasets/ds-unknown"), 404)
    problem(researcher.send("DELETE", "/datasets/ds-unknown"), 404)
    make_tasks(1, 1)
    made = asked(researcher, split={"test_share": 0})
    assert "not ready" in problem(researcher.get(f"/datasets/{made['id']}/content"), 409)["detail"]
    problem(researcher.get(f"/datasets/{made['id']}/content?side=both"), 422)


def test_readers_look_and_do_not_make() -> None:
    reader = program(person("viewer", "vi"), "read")
    assert reader.get("/datasets").status_code == 200
    problem(reader.post("/datasets", {}), 403)


def test_a_post_sent_twice_makes_one(researcher: Program) -> None:
    make_tasks(1, 1)
    body = {"split": {"test_share": 0}}
    first = researcher.post("/datasets", body, **{"Idempotency-Key": "once"})
    again = researcher.post("/datasets", body, **{"Idempotency-Key": "once"})
    assert first.json()["id"] == again.json()["id"]
    assert Dataset.objects.count() == 1
