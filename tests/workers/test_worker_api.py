"""The workers' API: what a worker of another machine sends and gets, by token and JSON, and what it may not."""

from __future__ import annotations

import hashlib
import threading
from typing import Any

import httpx
import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from tests.fixtures.api import problem, program, token_of
from tests.fixtures.pages_seed import person
from tests.workers.worker_support import (
    FINAL,
    WorkerProgram,
    blob,
    checkpoint_files,
    course,
    frozen,
    operator,
    queued,
    safetensors,
    step_lines,
    values,
    weights,
)
from webapp.accounts.models import Role
from webapp.runs.models import Checkpoint, CheckpointState, MetricPoint, RunRollout, TrainingJob, TrainingState
from webapp.workers import checkpoint_uploads
from webapp.workers.models import Worker

pytestmark = pytest.mark.django_db


@pytest.fixture
def worker() -> WorkerProgram:
    return WorkerProgram()


def register(worker: WorkerProgram, **more: Any) -> str:
    body = {"name": "gpu-1", "host": "box", "pid": 7, "version": "1.0", **more}
    answer = worker.post("/training/workers", body)
    assert answer.status_code == 201, answer.content
    told = answer.json()
    assert 0 < told["heartbeat_s"] < told["lease_s"]
    return str(told["id"])


def claim(worker: WorkerProgram, **more: Any) -> dict[str, Any]:
    answer = worker.post(f"/training/workers/{register(worker, **more)}/claim")
    assert answer.status_code == 200, answer.content
    told: dict[str, Any] = answer.json()
    return told


def at(told: dict[str, Any], rest: str = "") -> str:
    return f"/training/jobs/{told['job']}/attempts/{told['attempt']}/{rest}"


def send_checkpoint(
    worker: WorkerProgram, told: dict[str, Any], step: int, files: dict[str, bytes], final: bool = False
) -> str:
    listed = [
        {"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for path, content in files.items()
    ]
    begun = worker.post(at(told, "checkpoints"), {"step": step, "final": final, "files": listed})
    assert begun.status_code == 201, begun.content
    place = at(told, f"checkpoints/{begun.json()['id']}")
    for path, content in files.items():
        sent = worker.raw("PATCH", f"{place}/files?path={path}&offset=0", content)
        assert sent.json() == {"path": path, "received": len(content)}
    whole = worker.post(f"{place}/complete")
    assert whole.json()["state"] == "ready", whole.content
    return str(begun.json()["id"])


def test_a_job_from_claim_to_model(worker: WorkerProgram) -> None:
    job = queued()
    name = register(worker)
    told = worker.post(f"/training/workers/{name}/claim?wait_s=0").json()
    assert (told["job"], told["attempt"], told["model"]["kind"]) == (job.public_id, 1, "demo")
    usage = {"memory_mib": 900, "gpus": [{"name": "H", "used_mib": 1, "total_mib": 2, "utilisation": 0.5}]}
    beat = {"usage": usage, "job": told["job"], "attempt": 1, "step": 0}
    assert worker.post(f"/training/workers/{name}/heartbeat", beat).json() == {"wish": "", "stale": False}
    for file in told["dataset"]["files"]:
        got = worker.get(file["url"].partition("/api/v1")[2])
        assert hashlib.sha256(got.content).hexdigest() == file["sha256"]
        assert len(got.content) == file["bytes"]
    records = [values(step, step, loss=1.0 / step, **({"reward": 0.625} if step == 2 else {})) for step in range(1, 6)]
    assert worker.post(at(told, "records"), {"records": records}).json() == {"next_seq": 6}
    content = blob(step_lines())
    digest = {"X-Content-SHA256": hashlib.sha256(content).hexdigest()}
    assert worker.put(at(told, "rollouts/2"), content, **digest).json() == {"count": 4}
    send_checkpoint(worker, told, 5, checkpoint_files(5))
    problem(worker.post(at(told, "end"), {"exit": "done"}), 409)
    send_checkpoint(worker, told, 5, FINAL, final=True)
    assert worker.post(at(told, "end"), {"exit": "done", "result": {"step": 5}, "log": "x"}).json() == {
        "job": job.public_id,
        "state": "succeeded",
    }
    assert worker.post(at(told, "end"), {"exit": "done"}).status_code == 200
    assert worker.post(f"/training/workers/{name}/claim").status_code == 204
    assert worker.post(f"/training/workers/{name}/goodbye").status_code == 204
    assert Worker.objects.get().stopped_at
    job.refresh_from_db()
    assert job.fine_tuned_model == f"ft:{job.public_id}"
    assert (MetricPoint.objects.count(), RunRollout.objects.count()) == (6, 4)


def test_a_gap_says_where_to_go_on(worker: WorkerProgram) -> None:
    queued()
    told = claim(worker)
    found = problem(worker.post(at(told, "records"), {"records": course(3, 4)}), 409)
    assert (found["error"]["code"], found["next_seq"]) == ("gap", 1)


def test_a_wrong_offset_says_what_is_here(worker: WorkerProgram) -> None:
    queued()
    told = claim(worker)
    content = weights()
    listed = [{"path": "model.safetensors", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}]
    begun = worker.post(at(told, "checkpoints"), {"step": 1, "files": listed}).json()
    place = at(told, f"checkpoints/{begun['id']}/files?path=model.safetensors&offset=")
    worker.raw("PATCH", f"{place}0", content[:9])
    found = problem(worker.raw("PATCH", f"{place}4", content[4:]), 409)
    assert (found["error"]["code"], found["received"]) == ("wrong_offset", 9)
    found = problem(worker.post(at(told, f"checkpoints/{begun['id']}/complete")), 409)
    assert found["files"] == [{"path": "model.safetensors", "received": 9}]


@pytest.mark.parametrize(
    ("method", "rest", "body"),
    [
        ("POST", "records", {"records": []}),
        ("POST", "end", {"exit": "fault"}),
        ("POST", "checkpoints", {"step": 1, "files": [{"path": "a.safetensors", "bytes": 1, "sha256": "0" * 64}]}),
        ("PATCH", "checkpoints/ftckpt-1/files?path=a&offset=0", {}),
        ("POST", "checkpoints/ftckpt-1/complete", {}),
        ("GET", "download?what=dataset&path=train.jsonl", None),
        ("PUT", "rollouts/1", {}),
        ("POST", "llm/user/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
    ],
)
def test_a_stale_attempt_gets_409_everywhere(worker: WorkerProgram, method: str, rest: str, body: Any) -> None:
    job = queued()
    told = claim(worker)
    for change in ({"state": TrainingState.QUEUED}, {"state": TrainingState.RUNNING, "attempt": 2}):
        TrainingJob.objects.filter(pk=job.pk).update(**change)
        found = problem(worker.send(method, at(told, rest), body, **{"X-Content-SHA256": "0" * 64}), 409)
        assert found["error"]["code"] == "stale_attempt"
    missing = worker.send(method, at(told | {"job": "ftjob-none"}, rest), body, **{"X-Content-SHA256": "0" * 64})
    problem(missing, 404)


def test_a_worker_of_another_person_has_no_part_in_an_attempt(worker: WorkerProgram) -> None:
    queued()
    told = claim(worker)
    other = WorkerProgram(operator("another"))
    found = problem(other.post(at(told, "records"), {"records": course(1, 1)}), 409)
    assert found["error"]["code"] == "stale_attempt"
    problem(other.post(at(told, "end"), {"exit": "done"}), 409)
    problem(other.get(at(told, "download?what=dataset&path=train.jsonl")), 409)
    name = Worker.objects.get().public_id
    for act in ("claim", "goodbye"):
        found = problem(other.post(f"/training/workers/{name}/{act}"), 404)
        assert found["error"]["code"] == "unknown_worker"


def test_other_scopes_do_nothing() -> None:
    queued()
    researcher = program(person(Role.RESEARCHER), "read", "train")
    problem(researcher.post("/training/workers", {"name": "x"}), 403)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"records": [{"kind": "values", "seq": 1, "time": 1, "step": 1, "values": {"x": NaN}}]}', 400),
        (b'{"records": [{"kind": "values", "seq": 1, "time": 1, "step": 1, "values": {"x": 1e999}}]}', 400),
        (b'{"records": [{"kind": "values", "seq": 1, "time": 1, "step": 99999999999, "values": {"x": 1}}]}', 422),
        (b'{"records": [{"kind": "event", "seq": 1, "time": 1, "step": 1, "level": "info", "message": 7}]}', 422),
        (b'{"records": [{"kind": "shell", "seq": 1}]}', 422),
        (b'{"records": ' + b"[" * 100_000, 400),
        (b'{"records": [' + b"{}," * 1_001 + b"{}]}", 422),
        (b'{"records": [], "more": 1}', 422),
        (b'{"records": ["' + b"x" * (10 << 20) + b'"]}', 413),
        (b"\xff\xfe", 400),
    ],
)
def test_hostile_records(worker: WorkerProgram, body: bytes, status: int) -> None:
    queued()
    told = claim(worker)
    problem(worker.raw("POST", at(told, "records"), body), status)
    assert not MetricPoint.objects.exists()


def test_records_may_hold_null_for_what_was_no_number(worker: WorkerProgram) -> None:
    queued()
    told = claim(worker)
    worker.post(at(told, "records"), {"records": [values(1, 1, loss=None)]})
    assert MetricPoint.objects.get().value is None


@pytest.mark.parametrize(
    "body",
    [
        {"name": ""},
        {"name": "x" * 201},
        {"name": "a\x00b"},
        {"name": "x", "engines": []},
        {"name": "x", "engines": ["pickle"]},
        {"name": "x", "models": ["m"] * 201},
        {"name": "x", "devices": [{"name": "d", "memory_mib": 2**80}]},
        {"name": "x", "software": {str(number): "1" for number in range(51)}},
        {"name": "x", "pid": "1"},
        {"name": "x", "admin": True},
    ],
)
def test_hostile_introductions(worker: WorkerProgram, body: dict[str, Any]) -> None:
    problem(worker.post("/training/workers", body), 422)
    assert not Worker.objects.exists()


def test_pieces_are_bounded(worker: WorkerProgram) -> None:
    queued(model="small/model")
    told = claim(worker, models=["small/model"])
    content = safetensors({"w": [checkpoint_uploads.PIECE_BYTES // 2 + 32]})
    listed = [{"path": "model.safetensors", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}]
    begun = worker.post(at(told, "checkpoints"), {"step": 1, "files": listed}).json()
    place = at(told, f"checkpoints/{begun['id']}/files?path=model.safetensors&offset=")
    problem(worker.raw("PATCH", f"{place}0", content), 413)
    first = worker.raw("PATCH", f"{place}0", content[: checkpoint_uploads.PIECE_BYTES])
    assert first.json()["received"] == checkpoint_uploads.PIECE_BYTES
    worker.raw("PATCH", f"{place}{checkpoint_uploads.PIECE_BYTES}", content[checkpoint_uploads.PIECE_BYTES :])
    assert worker.post(at(told, f"checkpoints/{begun['id']}/complete")).json()["state"] == "ready"


def test_parts_of_a_file(worker: WorkerProgram) -> None:
    queued()
    told = claim(worker)
    path = at(told, "download?what=dataset&path=train.jsonl")
    whole = worker.get(path).content
    for wanted, found, said in (
        ("bytes=0-9", whole[:10], f"bytes 0-9/{len(whole)}"),
        ("bytes=10-", whole[10:], f"bytes 10-{len(whole) - 1}/{len(whole)}"),
        ("bytes=-5", whole[-5:], f"bytes {len(whole) - 5}-{len(whole) - 1}/{len(whole)}"),
        (f"bytes=0-{10**17}", whole, f"bytes 0-{len(whole) - 1}/{len(whole)}"),
    ):
        answer = worker.get(path, Range=wanted)
        assert (answer.status_code, answer.content, answer.headers["Content-Range"]) == (206, found, said)
    for wanted in (f"bytes={len(whole)}-", "bytes=5-4", "bytes=-0", "bytes=0-1,3-4", "lines=1-2", "bytes=a-b"):
        answer = worker.get(path, Range=wanted)
        problem(answer, 416)
        assert answer.headers["Content-Range"] == f"bytes */{len(whole)}"


@pytest.mark.parametrize(
    "query",
    [
        "what=dataset&path=../../../../etc/passwd",
        "what=dataset&path=manifest.json/../train.jsonl",
        "what=evaluation&path=train.jsonl",
        "what=model&path=config.json",
        "what=resume&path=optimizer.pt",
    ],
)
def test_what_is_not_there_to_be_fetched(worker: WorkerProgram, query: str) -> None:
    queued()
    problem(worker.get(at(claim(worker), f"download?{query}")), 404)


def test_what_resuming_needs_is_no_part_of_a_model(worker: WorkerProgram) -> None:
    """A step's checkpoint as a model has its weights; its optimizer goes to a trainer that goes on with it alone."""
    job = queued()
    told = claim(worker)
    send_checkpoint(worker, told, 5, checkpoint_files(5))
    worker.post(at(told, "end"), {"exit": "stopped"})
    resumed = claim(worker)
    assert {file["path"] for file in resumed["resume"]["files"]} == set(checkpoint_files(5))
    assert worker.get(at(resumed, "download?what=resume&path=optimizer.pt")).status_code == 200
    TrainingJob.objects.filter(pk=job.pk).update(state=TrainingState.PAUSED)
    queued(model=f"ft:{job.public_id}:step-5")
    other = claim(worker)
    assert {file["path"] for file in other["model"]["files"]} == {"model.safetensors", "trainer_state.json"}
    problem(worker.get(at(other, "download?what=model&path=optimizer.pt")), 404)


ADAPTERS = {"adapter_config.json": b"{}", "adapter_model.safetensors": weights(), "tokenizer.json": b"{}"}


def test_a_step_of_adapters_comes_with_what_it_lies_upon(worker: WorkerProgram) -> None:
    """Adapters of a second job upon those of a first one, upon a model that only some workers have."""
    job, above = queued(model="mine-7B"), ""
    for number in (1, 2):
        told = claim(worker, models=["mine-7B"])
        content = {**ADAPTERS, "adapter_model.safetensors": weights(bytes([number]) * 64)}
        send_checkpoint(worker, told, number, content)
        worker.post(at(told, "end"), {"exit": "stopped"})
        TrainingJob.objects.filter(pk=job.pk).update(state=TrainingState.PAUSED)
        above = f"ft:{job.public_id}:step-{number}"
        job = queued(model=above)
    lacking = worker.post(f"/training/workers/{register(worker, name='lacks')}/claim?wait_s=0")
    assert lacking.status_code == 204, "a worker without mine-7B leaves it to others"
    told = claim(worker, name="has", models=["mine-7B"])
    second = told["model"]
    first, base = second["base"], second["base"]["base"]
    assert [part["kind"] for part in (second, first, base)] == ["adapter", "adapter", "named"]
    assert (second["name"], base["name"], base["base"]) == (above, "mine-7B", None)
    for number, part in ((2, second), (1, first)):
        assert {file["path"] for file in part["files"]} == set(ADAPTERS)
        (file,) = [file for file in part["files"] if file["path"].endswith(".safetensors")]
        got = worker.get(file["url"].partition("/api/v1")[2])
        assert got.content == weights(bytes([number]) * 64)
    problem(worker.get(at(told, "download?what=model-2&path=config.json")), 404)
    Checkpoint.objects.filter(step=1).update(state=CheckpointState.DELETED)
    TrainingJob.objects.filter(pk=job.pk).update(state=TrainingState.QUEUED, lease_until=None)
    assert worker.post(f"/training/workers/{register(worker, name='has')}/claim?wait_s=0").status_code == 204
    job.refresh_from_db()
    assert (job.state, job.error_code) == (TrainingState.FAILED, "input")
    assert "is no checkpoint that is kept" in job.error


@pytest.mark.django_db(transaction=True)
def test_over_a_real_connection_claims_wait_without_holding_the_database(live_site: str) -> None:
    """More waiting claims than the pool has connections, and a file of 40 MiB streams meanwhile and goes on."""
    token = token_of(operator(), "worker")
    headers = {"Authorization": f"Bearer {token}"}
    dataset = frozen()
    content = bytes(range(256)) * (40 * 4096)
    default_storage.delete(f"{dataset.stored}/train.jsonl")
    default_storage.save(f"{dataset.stored}/train.jsonl", ContentFile(content))
    with httpx.Client(base_url=live_site, headers=headers, timeout=60) as http:
        queued(dataset=dataset)
        first = http.post("/api/v1/training/workers", json={"name": "gpu"}).json()["id"]
        told = http.post(f"/api/v1/training/workers/{first}/claim", json={}).json()
        answers: list[int] = []

        def wait(number: int) -> None:
            with httpx.Client(base_url=live_site, headers=headers, timeout=60) as own:
                name = own.post("/api/v1/training/workers", json={"name": f"w{number}"}).json()["id"]
                answers.append(own.post(f"/api/v1/training/workers/{name}/claim?wait_s=8", json={}).status_code)

        threads = [threading.Thread(target=wait, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        url = f"/api/v1{at(told, 'download?what=dataset&path=train.jsonl')}"
        assert http.get(url).content == content
        rest = http.get(url, headers={"Range": f"bytes={30 << 20}-"})
        assert (rest.status_code, rest.content) == (206, content[30 << 20 :])
        assert http.post(f"/api/v1{at(told, 'records')}", json={"records": course(1, 3)}).status_code == 200
        queued()
        for thread in threads:
            thread.join(timeout=60)
    default_storage.delete(f"{dataset.stored}/train.jsonl")
    assert sorted(answers) == [200] + [204] * 15
    assert Checkpoint.objects.count() == 0
