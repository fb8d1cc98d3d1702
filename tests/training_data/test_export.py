"""Stored trajectories as training data: page, API, command and job give the same archive, and its manifest is true."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.files.storage import default_storage
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from synthesis.contracts import Attempt, PromptStyle, State, UserVerdict
from synthesis.rollout import AttemptSetting, ChatPolicy, Plan, run_attempts
from synthesis.runtime import get_default_sandbox
from tests.fixtures import replay_seed
from tests.fixtures.api import Program, problem, program
from tests.rollouts_web.support import make_task, person
from tests.training_data.kits import Scripted, call, say
from webapp.accounts.models import AuditEntry
from webapp.jobs import services as jobs
from webapp.jobs.claims import JobClaim
from webapp.jobs.models import Job, JobState
from webapp.scenarios.models import Task
from webapp.trajectories.export import services
from webapp.trajectories.export.archive import stream_zip
from webapp.trajectories.export.lines import Export
from webapp.trajectories.export.spec import ExportSpec
from webapp.trajectories.models import Trajectory
from webapp.trajectories.rollouts.finished_attempt import store_finished_attempt
from webapp.trajectories.rollouts.plans import build_rollout_task

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)


@pytest.fixture
def task() -> Task:
    return make_task()


def solving() -> Scripted:
    return Scripted([call("find_box", owner="Ada"), call("open_box", box_id="B-1"), say("Her box B-1 is open.")])


def attempted(task: Task, model: Scripted, style: PromptStyle) -> tuple[Attempt, State]:
    """What a model really did, and the state it began in."""
    assert task.current is not None
    plan = Plan(build_rollout_task(task.current), ChatPolicy(model), AttemptSetting(prompt_style=style))
    begun: list[State] = []

    async def on_start(_plan: Plan, state: State) -> None:
        begun.append(state)

    async def act() -> Attempt:
        (made,) = [one async for one in run_attempts(get_default_sandbox(), [plan], on_start=on_start)]
        return made

    return asyncio.run(act()), begun[0]


def store(
    task: Task, model: Scripted, style: PromptStyle = "tools", number: int = 0, copies: int = 1, **changes: Any
) -> Trajectory:
    """An attempt with what is to be changed of it, as rows; gives the last."""
    assert task.current is not None
    did, start = attempted(task, model, style)
    made = did.model_copy(update=changes)
    about = {"prompt_style": style, "ending": made.ending}
    for copy in range(copies):
        row = store_finished_attempt(made, task.current, start, "test", [task.key, number + copy, style], about)
    return row


def content(response: Any) -> bytes:
    async def read() -> bytes:
        return b"".join([part async for part in response])

    assert response.status_code == 200, response.content[:2000]
    assert response.headers["Content-Disposition"].startswith("attachment")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    return async_to_sync(read)()


def opened(data: bytes) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The records and the manifest of an archive, whose hash must be right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == ["train.jsonl", "manifest.json"]
        lines, manifest = archive.read("train.jsonl"), json.loads(archive.read("manifest.json"))
    assert manifest["sha256"] == hashlib.sha256(lines).hexdigest()
    assert manifest["bytes"] == len(lines)
    records = [json.loads(line) for line in lines.splitlines()]
    assert manifest["records"] == len(records)
    return records, manifest


def exported(**fields: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    return opened(b"".join(stream_zip(Export(ExportSpec.model_validate(fields)))))


def counts(manifest: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {one["name"]: (one["seen"], one["dropped"]) for one in manifest["filters"]}


def test_what_the_agent_saw_is_exported_as_it_saw_it(task: Task) -> None:
    model = solving()
    row = store(task, model)
    (record,), manifest = exported()
    seen, offered, _ = model.asked[-1]
    assert [message["content"] for message in record["messages"][:-1]] == [message.content for message in seen]
    assert "A shelf of boxes." in record["messages"][0]["content"]
    assert record["messages"][-1] == {"role": "assistant", "content": "Her box B-1 is open."}
    assert record["messages"][2]["reasoning_content"] == "find_box it is."
    assert [tool["function"] for tool in record["tools"]] == [
        {"name": one.name, "description": one.description, "parameters": one.parameters} for one in offered
    ]
    (source,) = manifest["tasks"]
    assert (source["task"], source["trajectories"]) == (task.pk, [row.pk])
    assert source["content_hash"] == task.current.content_hash  # type: ignore[union-attr]
    assert manifest["policies"] == {"scripted": 1}


def test_a_text_style_is_exported_as_text(task: Task) -> None:
    words = [say("[find_box(owner='Ada')]"), say("[open_box(box_id='B-1')]"), say("Her box B-1 is open.")]
    store(task, Scripted(list(words)), style="call")
    (record,), _ = exported()
    assert record["tools"] == []
    assert '"name": "open_box"' in record["messages"][0]["content"]
    roles = [message["role"] for message in record["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "user", "assistant"]


def test_every_filter_says_what_it_saw_and_left_out(task: Task) -> None:
    kept = store(task, solving())
    store(task, solving(), number=1, outcome="infra_error", reward=None)
    store(task, solving(), number=2, outcome="infra_error", reward=None, user_error=True)
    store(task, solving(), number=6, outcome="program_error", reward=None)
    store(task, solving(), number=7, user_verdict=UserVerdict(finding="fault"))
    store(task, Scripted([call("no_such_tool"), say("Done.")]), number=3)
    store(task, Scripted([say("I will not.")]), number=4)
    store(task, Scripted([call("open_box", box_id="B-1"), say("Open.")]), number=5)
    replay_seed.make(replay_seed.ordinary(outcome="solved", reward=1.0, record={"messages": []}))
    _, manifest = exported(sifting={"action_range": "released"})
    assert counts(manifest) == {
        "infra_error": (9, 1),
        "program_error": (8, 1),
        "user_error": (7, 1),
        "user_fault": (6, 1),
        "invalid_format": (5, 1),
        "cut_turn": (4, 0),
        "impossible_task": (4, 0),
        "not_solved": (4, 1),
        "action_range": (3, 1),
        "conversation": (2, 1),
    }
    assert manifest["tasks"][0]["trajectories"] == [kept.pk]
    assert manifest["left_out_for_their_conversation"] == {"no conversation is stored": 1}
    _, manifest = exported(sifting={"least_reward": 0})
    assert (manifest["trajectories"], "action_range" in counts(manifest)) == (3, False)


def test_a_run_that_was_recorded_elsewhere_needs_its_whole_conversation(task: Task) -> None:
    row = store(task, solving())
    spoken = [{"role": "user", "content": "Open it."}, {"role": "assistant", "content": "It is open."}]
    Trajectory.objects.filter(pk=row.pk).update(record={"messages": spoken, "tools": []})
    assert exported()[1]["trajectories"] == 0
    told = [{"role": "system", "content": "You help."}, *spoken]
    Trajectory.objects.filter(pk=row.pk).update(record={"messages": told, "tools": []})
    (record,), _ = exported()
    assert record == {"messages": told, "tools": []}


def test_a_stored_conversation_that_cannot_be_read_is_left_out_and_named(task: Task) -> None:
    row = store(task, solving())
    for broken in ("text", [{"role": "nobody"}], [3], {}):
        Trajectory.objects.filter(pk=row.pk).update(record={"conversation": broken})
        _, manifest = exported()
        assert counts(manifest)["conversation"] == (1, 1)


def test_mask_history_gives_a_record_a_turn(task: Task) -> None:
    store(task, solving())
    records, manifest = exported(shape={"format": "alpaca", "mask_history": True})
    assert (len(records), manifest["trajectories"]) == (3, 1)
    assert [len(record["history"]) for record in records] == [0, 1, 2]


def test_the_same_export_is_the_same_bytes_in_few_queries_newest_first(task: Task) -> None:
    store(task, solving(), copies=25)
    spec = ExportSpec()
    first = b"".join(stream_zip(Export(spec)))
    assert b"".join(stream_zip(Export(spec))) == first
    ids = opened(first)[1]["tasks"][0]["trajectories"]
    assert ids == sorted(ids, reverse=True)
    with CaptureQueriesContext(
        connection,
    ) as seen:
        exported()
    assert len(seen) <= 3 * 2 + 1 + 2, [one["sql"][:120] for one in seen]


def test_an_archive_that_was_cut_short_does_not_open(task: Task) -> None:
    store(task, solving())
    data = b"".join(list(stream_zip(Export(ExportSpec())))[:-1])
    assert data
    with pytest.raises(zipfile.BadZipFile):
        zipfile.ZipFile(io.BytesIO(data))


def test_the_page_downloads_the_selection(client: Client, task: Task) -> None:
    store(task, solving())
    replay_seed.make(replay_seed.ordinary(outcome="solved", reward=1.0))
    client.force_login(person("viewer"))
    listed = client.get("/trajectories/?source=test").content.decode()
    assert "/trajectories/training/?source=test" in listed
    page = client.get("/trajectories/training/?source=test").content.decode()
    assert "1 trajectory selected" in page
    assert "Make it in the background" not in page, "a viewer starts no jobs"
    form = {"format": "sharegpt", "reasoning": "on", "least_reward": "1", "actions": "own", "fewest": "3", "most": "9"}
    records, manifest = opened(content(client.post("/trajectories/training/download/?source=test", form)))
    assert records[0]["conversations"][-1]["value"] == "Her box B-1 is open."
    assert manifest["settings"]["selection"] == {"source": "test"}
    assert manifest["settings"]["action_range"] == [3, 9]
    entry = AuditEntry.objects.get(action="trajectories.export_training")
    assert entry.detail["format"] == "sharegpt"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"format": "parquet"}, "parquet"),
        ({"least_reward": "2"}, "less than or equal to 1"),
        ({"actions": "own", "fewest": "9", "most": "3"}, "below the lower one"),
        ({"actions": "own", "fewest": "9"}, "both ends"),
    ],
)
def test_what_cannot_be_exported_so_is_said_at_its_field(client: Client, wrong: dict[str, str], said: str) -> None:
    client.force_login(person())
    form = {"format": "trl", "least_reward": "1", "actions": "", **wrong}
    for path in ("download", "start"):
        answer = client.post(f"/trajectories/training/{path}/", form)
        assert answer.status_code == 422
        assert said in answer.content.decode()
    assert not Job.objects.exists()
    assert not AuditEntry.objects.filter(action="trajectories.export_training").exists()


def perform(job: Job) -> Job:
    """The job as a worker runs it."""
    from webapp.jobs.jobs import execute_job as performed

    claimed = jobs.claim_job(job.pk, "test")
    assert claimed is not None
    performed(claimed)
    return Job.objects.get(pk=job.pk)


@pytest.mark.django_db(transaction=True)
def test_a_job_makes_the_same_archive_and_it_can_be_fetched(client: Client) -> None:
    store(make_task(), solving())
    client.force_login(person())
    form = {"format": "trl", "reasoning": "on", "least_reward": "1", "actions": ""}
    answer = client.post("/trajectories/training/start/?source=test", form)
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/trajectories/training/?source=test#exports"
    job = Job.objects.get(kind="export_sft")
    assert client.get(f"/trajectories/training/exports/{job.pk}.zip").status_code == 404, "not made yet"
    done = perform(job)
    assert (done.state, done.result["records"], done.result["trajectories"]) == (JobState.SUCCEEDED, 1, 1), done.error
    data = content(client.get(f"/trajectories/training/exports/{job.pk}.zip"))
    assert data == b"".join(stream_zip(Export(ExportSpec.model_validate({"selection": {"source": "test"}}))))
    assert AuditEntry.objects.filter(action="trajectories.export_training", object_id=str(job.pk)).count() == 1
    page = client.get("/trajectories/training/exports/").content.decode()
    assert f"/trajectories/training/exports/{job.pk}.zip" in page
    assert client.get("/trajectories/training/exports/999.zip").status_code == 404


def test_a_second_attempt_leaves_one_file_and_old_ones_are_cleared_away(monkeypatch: pytest.MonkeyPatch) -> None:
    store(make_task(), solving())
    monkeypatch.setattr(services, "KEPT", 2)
    made = [services.start_export(None, ExportSpec()) for _ in range(3)]
    names = []
    for job in made:
        for attempt in (1, 2):
            names.append(services.write_export(JobClaim(job.pk, attempt), ExportSpec(), lambda *said: None)["file"])
    there = [default_storage.exists(name) for name in names]
    assert there == [False, False, False, True, False, True]


@pytest.fixture
def caller() -> Program:
    return program(person("operator", "bot"), "read", "synthesise")


def test_the_api_streams_the_same_archive(caller: Program, task: Task) -> None:
    store(task, solving())
    found = caller.get("/trajectories/export/training?source=test&format=alpaca&mask_history=true&actions=3-29")
    records, manifest = opened(content(found))
    assert len(records) == 3
    assert manifest["settings"]["action_range"] == [3, 29]
    assert AuditEntry.objects.filter(action="trajectories.export_training").count() == 1
    problem(caller.get("/trajectories/export/training?actions=9-3"), 422)
    problem(caller.get("/trajectories/export/training?format=parquet"), 422)
    problem(caller.get("/trajectories/export/training?fromat=trl"), 422)


def test_the_api_makes_one_in_the_background(caller: Program) -> None:
    problem(caller.get("/trajectories/export/training?order=reward"), 422)
    body = {"format": "sharegpt", "source": "test", "actions": "3-29"}
    answer = caller.post("/exports/training", body, **{"Idempotency-Key": "once"})
    assert answer.status_code == 202
    again = caller.post("/exports/training", body, **{"Idempotency-Key": "once"})
    assert again.json()["id"] == answer.json()["id"]
    job = Job.objects.get(kind="export_sft")
    assert ExportSpec.model_validate(job.payload).sifting.action_range == (3, 29)
    problem(caller.get(f"/exports/training/{job.pk}"), 404)
    problem(caller.post("/exports/training", {"formats": "trl"}), 422)


def test_the_manifest_says_how_llamafactory_loads_the_file(task: Task) -> None:
    store(task, solving())
    assert "llamafactory" not in exported()[1]
    for kind in ("sharegpt", "alpaca"):
        records, manifest = exported(shape={"format": kind, "mask_history": True})
        told = manifest["llamafactory"]
        assert told["arguments"] == {"mask_history": True}
        entry = told["dataset_info"]["train"]
        assert (entry["file_name"], entry["formatting"]) == ("train.jsonl", kind)
        assert {*entry["columns"].values(), "mask_history"} == set(records[0]), "the mask is an argument there"


def test_the_command_writes_both_files_whole(tmp_path: Path, task: Task, capsys: pytest.CaptureFixture[str]) -> None:
    store(task, solving())
    call_command("export_sft", str(tmp_path / "out.jsonl"), "--no-reasoning", "--json")
    printed = json.loads(capsys.readouterr().out)
    manifest = json.loads((tmp_path / "out.manifest.json").read_text())
    assert printed == manifest
    data = (tmp_path / "out.jsonl").read_bytes()
    assert manifest["sha256"] == hashlib.sha256(data).hexdigest()
    assert manifest["file"] == "out.jsonl"
    assert b"reasoning_content" not in data
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out.jsonl", "out.manifest.json"]
    with pytest.raises(CommandError):
        call_command("export_sft", str(tmp_path / "nowhere" / "out.jsonl"))
    with pytest.raises(CommandError):
        call_command("export_sft", str(tmp_path / "out.jsonl"), "--actions", "9-3")
