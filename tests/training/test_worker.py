"""The worker's parts by themselves: folders, cache, exits, lifeline, arguments. Whole jobs are in `tests/runs`."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from synthesis.errors import InfrastructureError, InputError
from training import lifeline
from training.job import EXIT, RECORD, Exit
from training.metrics import Position, Writer
from training.worker import attempt_folder, child, loop, machine, uploads
from training.worker.assignment import (
    Assignment,
    RemoteFile,
    parse_reply,
    read_position,
    read_worker_id,
    store_position,
    store_worker_id,
)
from training.worker.client import Client, StaleAttempt
from training.worker.uploads import Sender, send_checkpoint, send_files, send_records

ROOT = Path(__file__).resolve().parents[2]
FILE = {"path": "train.jsonl", "bytes": 3, "sha256": "0" * 64, "url": "/x"}
TOLD = {
    "job": "ftjob-1", "attempt": 2, "config": {"type": "supervised"}, "model": {"name": "m", "kind": "named"},
    "dataset": {"id": "ds-1", "files": [FILE]}, "new_in_the_next_version": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "a/../../b", "a//..", "", "a\\b", "x\0", ".", "a b", "a/b/c/d/e"]
)
def test_paths_that_lead_elsewhere_are_refused(path: str) -> None:
    with pytest.raises(InfrastructureError, match=r"path"):
        parse_reply(RemoteFile, FILE | {"path": path})


@pytest.mark.parametrize("job", ["../x", "a/b", "", "x" * 65])
def test_assignments_with_odd_ids_are_refused(job: str) -> None:
    assert parse_reply(Assignment, TOLD).name == "ftjob-1-2"
    with pytest.raises(InfrastructureError, match="of one version"):
        parse_reply(Assignment, TOLD | {"job": job})


def remote(content: bytes, path: str = "a.json") -> RemoteFile:
    return RemoteFile(path=path, bytes=len(content), sha256=hashlib.sha256(content).hexdigest(), url=f"/{path}")


def far(answer) -> Client:
    return Client("http://site.test", "t", transport=httpx.MockTransport(answer))


def test_files_come_once_and_are_taken_out_of_the_cache_then(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        return httpx.Response(200, content=b"[1]")

    file, cache = remote(b"[1]"), tmp_path / "cache"
    for number in range(2):
        attempt_folder.place_file(far(answer), file, tmp_path / f"{number}/a.json", cache, True, lambda: False)
    assert asked == ["/a.json"]
    # A damaged file of the cache is fetched again; one that a trainer may write over is no link into it.
    (cache / file.sha256).unlink()
    (cache / file.sha256).write_bytes(b"[2]")
    attempt_folder.place_file(far(answer), file, tmp_path / "3/a.json", cache, False, lambda: False)
    assert (tmp_path / "3/a.json").read_bytes() == b"[1]"
    assert len(asked) == 2
    assert not list(cache.iterdir())


def test_adapters_are_laid_out_in_the_order_in_which_they_are_merged(tmp_path: Path) -> None:
    """Adapters (`ft:B`) upon adapters (`ft:A`) upon a whole model."""
    contents = {f"/{name}": name.encode() for name in ("b.json", "a.json", "config.json", "train.jsonl")}
    base = {"name": "ft:C", "kind": "files", "files": [remote(b"config.json", "config.json").model_dump()]}
    inner = {"name": "ft:A", "kind": "adapter", "files": [remote(b"a.json", "a.json").model_dump()], "base": base}
    outer = {"name": "ft:B", "kind": "adapter", "files": [remote(b"b.json", "b.json").model_dump()], "base": inner}
    data = {"id": "ds-1", "files": [remote(b"train.jsonl", "train.jsonl").model_dump()]}
    told = parse_reply(Assignment, TOLD | {"model": outer, "dataset": data, "spent_s": 90.5})
    client = far(lambda request: httpx.Response(200, content=contents[request.url.path]))
    job = attempt_folder.prepare_folder(client, told, tmp_path, tmp_path / "cache", None, (), 0, lambda: False)
    assert (job.model, job.adapters, job.spent_s) == ("base", ("adapter-1", "adapter-0"), 90.5)
    assert (tmp_path / "adapter-1/a.json").read_bytes() == b"a.json"
    assert (tmp_path / "adapter-0/b.json").read_bytes() == b"b.json"
    assert (tmp_path / "base/config.json").is_file()
    for wrong in (outer | {"base": None}, base | {"base": inner}):
        with pytest.raises(InfrastructureError, match="adapters have a base"):
            parse_reply(Assignment, TOLD | {"model": wrong})


def test_disk_that_is_too_small_is_said_before_anything_is_fetched(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(attempt_folder.shutil, "disk_usage", lambda path: SimpleNamespace(free=300 * 2**20))
    huge = RemoteFile(path="a", bytes=2**30, sha256="0" * 64, url="/a")
    with pytest.raises(InfrastructureError, match=r"disk is too full .*1280 MiB are needed, 300 MiB are free"):
        attempt_folder.require_room([huge], tmp_path, tmp_path / "cache")


def test_cache_keeps_what_was_used_last(tmp_path: Path) -> None:
    for age, name in enumerate(("new", "middle", "old")):
        (tmp_path / name).write_bytes(b"x" * 100)
        os.utime(tmp_path / name, (time.time() - age * 100,) * 2)
    attempt_folder.prune_cache(tmp_path, 200)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "middle"}


def test_named_models_lie_below_their_folder_alone(tmp_path: Path) -> None:
    models = tmp_path / "models"
    for folder in (models / "owner/tiny", tmp_path / "secret"):
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    assert machine.list_models(models) == ["owner/tiny"]
    assert attempt_folder._find_named_model("owner/tiny", models, ()) == str(models / "owner/tiny")
    for name in ("../secret", "/etc", "a/b/c", "..", "owner/..", "a b"):
        with pytest.raises(InputError, match="names no model"):
            attempt_folder._find_named_model(name, models, ())
    with pytest.raises(InputError, match=r"not in .*models, and it may fetch only other/one \(--hub\)"):
        attempt_folder._find_named_model("owner/none", models, ("other/one",))


@pytest.mark.parametrize("offline", [False, True])
def test_a_hub_that_is_away_says_nothing_about_the_model(monkeypatch: pytest.MonkeyPatch, offline: bool) -> None:
    hub = pytest.importorskip("huggingface_hub")

    def away(*_: object, **__: object) -> None:
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr(hub, "snapshot_download", away)
    monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", offline)
    with pytest.raises(InputError if offline else InfrastructureError, match="cannot be fetched from Hugging Face"):
        attempt_folder._find_named_model("owner/none", None, ())


def test_what_a_worker_says_it_can_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = ["--url", "http://x", "--home", str(tmp_path), "--models", str(tmp_path)]
    (tmp_path / "owner/tiny").mkdir(parents=True)
    (tmp_path / "owner/tiny/config.json").write_text("{}")
    monkeypatch.setattr("training.job.importlib.util.find_spec", lambda name: object())
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert loop._list_models(loop._build_parser().parse_args(given)) == ["*", "owner/tiny"]
    assert loop._list_models(loop._build_parser().parse_args([*given, "--hub", "a/b"])) == ["a/b", "owner/tiny"]
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert loop._list_models(loop._build_parser().parse_args(given)) == ["owner/tiny"]


def test_a_signal_may_come_amid_the_answer_to_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: dict[int, Any] = {}
    monkeypatch.setattr("signal.signal", handlers.__setitem__)
    assert loop.main(["--url", "http://127.0.0.1:9", "--home", str(tmp_path), "--token-file", str(tmp_path)]) == 2
    answer = lambda: handlers[signal.SIGTERM](signal.SIGTERM, None)  # noqa: E731

    def interrupted() -> None:
        # Whatever is called on the way, a second signal is answered there.
        sys.setprofile(lambda frame, event, given: answer() if "call" in event else None)
        answer()
        sys.setprofile(None)

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()


def test_a_worker_remembers_who_it_was_in_its_own_folder(tmp_path: Path) -> None:
    assert read_worker_id(tmp_path) == ""
    store_worker_id(tmp_path, "wk-1")
    assert read_worker_id(tmp_path) == "wk-1"
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert read_worker_id(tmp_path / "copy") == "", "a copy of the folder is another worker's"
    (tmp_path / "worker.json").write_text("[")
    assert read_worker_id(tmp_path) == ""


@pytest.mark.parametrize(
    ("code", "written", "name"),
    [
        (0, "", "done"), (10, "", "stopped"), (22, "", "memory"), (1, "", "fault"), (-9, "", "crashed"),
        (1, "diverged", "diverged"), (None, "done", "done"), (None, "", "crashed"), (1, "no such word", "fault"),
    ],
)  # fmt: skip
def test_how_a_trainer_ended(tmp_path: Path, code: int | None, written: str, name: str) -> None:
    if written:
        (tmp_path / EXIT).write_text(written)
    assert child.read_exit_name(tmp_path, code) == name


def test_a_full_disk_that_took_no_reason_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.txt").write_text("Traceback:\n    with _open_zipfile_wri")
    monkeypatch.setattr(child.shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    assert child.read_end_message(tmp_path, "infrastructure", 30).startswith("The worker's disk is full")
    with Writer(tmp_path / RECORD) as writer:
        writer.event(3, "error", "Something else.")
    assert child.read_end_message(tmp_path, "infrastructure", 30) == "Something else."


def test_why_a_trainer_ended(tmp_path: Path) -> None:
    assert child.read_end_message(tmp_path, "done", 0) == ""
    assert "SIGKILL" in child.read_end_message(tmp_path, "crashed", -9)
    assert "worker was ended" in child.read_end_message(tmp_path, "crashed", None)
    (tmp_path / "log.txt").write_bytes(b"begin\nImportError: no torch\xff\n\n")
    assert child.read_end_message(tmp_path, "fault", 1).startswith("ImportError: no torch")
    with Writer(tmp_path / RECORD) as writer:
        writer.event(3, "error", "The disk is full.")
        writer.event(3, "warn", 'An "error" that is none.')
    assert child.read_end_message(tmp_path, "infrastructure", 30) == "The disk is full."


CHILD = """
import os, sys, time
from training.lifeline import ALIVE, end_with_holder
end_with_holder(os.environ[ALIVE])
print("up", flush=True)
time.sleep(120)
"""
HOLDER = """
import os, subprocess, sys
from pathlib import Path
from training.lifeline import ALIVE, hold_lock
hold_lock(Path(sys.argv[1]))
env = {**os.environ, ALIVE: sys.argv[1]}
# A shell stands between, as what starts several trainers does.
command = ["sh", "-c", '"$0" -c "$1"; true', sys.executable, sys.argv[2]]
subprocess.Popen(command, env=env, start_new_session=True).wait()
"""


@pytest.mark.kill
def test_trainer_ends_with_its_worker(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "alive"), CHILD]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"up\n"
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    # The pipe's end comes when the last process that holds it is gone.
    assert holder.stdout.read() == b""
    holder.stdout.close()


def test_lock_is_held_by_the_living_alone(tmp_path: Path) -> None:
    ended: list[int] = []
    held = lifeline.hold_lock(tmp_path / "alive")
    assert lifeline._is_lock_held(str(tmp_path / "alive"))
    os.close(held)
    assert not lifeline._is_lock_held(str(tmp_path / "alive"))
    lifeline._watch_lock(str(tmp_path / "nowhere"), ended.append)
    assert ended == [1]


class Server:
    """What the site would keep of records and checkpoints."""

    def __init__(self) -> None:
        self.records: list[dict] = []
        self.pieces: dict[str, bytes] = {}
        self.lose = 0
        self.complete = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path
        if path.endswith("/records"):
            known = len(self.records)
            fresh = [one for one in json.loads(request.content)["records"] if one["seq"] > known]
            if fresh and fresh[0]["seq"] != known + 1:
                return httpx.Response(409, json={"error": {"code": "gap"}, "next_seq": known + 1})
            self.records += fresh
            return httpx.Response(200, json={"next_seq": len(self.records) + 1})
        if path.endswith("/checkpoints"):
            files = [one["path"] for one in json.loads(request.content)["files"]]
            told = [{"path": name, "received": len(self.pieces.get(name, b""))} for name in files]
            return httpx.Response(201, json={"id": "ftckpt-1", "state": "uploading", "files": told})
        if path.endswith("/files"):
            name, offset = request.url.params["path"], int(request.url.params["offset"])
            if len(self.pieces.get(name, b"")) != offset:
                return httpx.Response(409, json={"error": {"code": "wrong_offset"}})
            self.pieces[name] = self.pieces.get(name, b"") + request.content
            if self.lose:
                # It was taken, and the answer was lost.
                self.lose -= 1
                raise httpx.ReadError("lost")
            return httpx.Response(200, json={"path": name, "received": len(self.pieces[name])})
        self.complete += 1
        return httpx.Response(200, json={"id": "ftckpt-1", "state": "ready", "files": []})


def sender(folder: Path, answer) -> Sender:
    return Sender(far(answer), parse_reply(Assignment, TOLD), folder, lambda: False, lambda line: None)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.worker.client.WAITS_S", (0.01, 0.02))


def test_records_are_sent_once_and_again_where_the_server_forgot(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(uploads, "BATCH_BYTES", 400)
    server = Server()
    with Writer(tmp_path / RECORD) as writer:
        for step in range(1, 21):
            writer.values(step, {"loss": 1 / step})
    send_records(sender(tmp_path, server), lambda: True)
    assert [one["seq"] for one in server.records] == list(range(1, 21))
    assert read_position(tmp_path / "records.json").next_seq == 21
    # A server that was set back gets what it lacks; a position that was lost sends nothing twice.
    del server.records[5:]
    with Writer(tmp_path / RECORD) as writer:
        writer.values(21, {"loss": 0.0})
    send_records(sender(tmp_path, server), lambda: True)
    store_position(tmp_path / "records.json", Position())
    send_records(sender(tmp_path, server), lambda: True)
    assert [one["seq"] for one in server.records] == list(range(1, 22))


def test_stale_attempts_stop_at_once(tmp_path: Path) -> None:
    with Writer(tmp_path / RECORD) as writer:
        writer.values(1, {"loss": 1.0})
    stale = httpx.Response(409, json={"error": {"code": "stale_attempt"}})
    with pytest.raises(StaleAttempt):
        send_records(sender(tmp_path, lambda request: stale), lambda: True)


def checkpoint(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in ("model.safetensors", "optimizer.pt", "trainer_state.json", "training_args.bin", "evil.pkl"):
        (folder / name).write_bytes(name.encode() * 100)
    return folder


def test_checkpoint_goes_up_in_pieces_without_pickles(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(uploads, "PIECE_BYTES", 300)
    server, folder = Server(), checkpoint(tmp_path / "checkpoints/checkpoint-3")
    server.lose = 4
    send_checkpoint(sender(tmp_path, server), 3, folder)
    assert server.complete == 1
    kept = ("model.safetensors", "optimizer.pt", "trainer_state.json")
    assert server.pieces == {name: name.encode() * 100 for name in kept}
    assert not list((tmp_path / "outgoing").iterdir())


def test_checkpoints_that_the_trainer_let_go_are_passed_over(tmp_path: Path) -> None:
    server = Server()
    half = checkpoint(tmp_path / "checkpoints/checkpoint-3")
    with Writer(tmp_path / RECORD) as writer:
        writer.artefact(2, "checkpoint", "checkpoints/checkpoint-2")
        writer.artefact(3, "checkpoint", "checkpoints/checkpoint-3", files=[*os.listdir(half), "rng_state.pth"])
        writer.artefact(3, "rollouts", "../../etc/passwd")
    with pytest.raises(InfrastructureError, match="outside its folder"):
        send_files(sender(tmp_path, server), lambda: True)
    assert not server.pieces
    assert read_position(tmp_path / "files.json").next_seq == 3


def test_arguments_that_lack_something_are_told(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(loop.importlib.util, "find_spec", lambda name: object())
    monkeypatch.delenv(child.TOKEN, raising=False)
    where = ["--url", "http://127.0.0.1:9", "--home", str(tmp_path)]
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    try:
        assert loop.main(where) == 2
        assert child.TOKEN in capsys.readouterr().err
        assert loop.main([*where, "--token-file", str(tmp_path / "none")]) == 2
        assert "cannot be read" in capsys.readouterr().err
        monkeypatch.setenv(child.TOKEN, "secret")
        assert loop.main(["--url", "nowhere", "--home", str(tmp_path)]) == 2
        assert "--url" in capsys.readouterr().err
        monkeypatch.setattr(loop.importlib.util, "find_spec", lambda name: None)
        assert loop.main(where) == 2
        assert "extra `train`" in capsys.readouterr().err
    finally:
        for number, handler in zip((signal.SIGTERM, signal.SIGINT), before, strict=True):
            signal.signal(number, handler)


def test_exit_names_are_what_the_server_knows() -> None:
    assert {one.name.lower() for one in Exit} == {
        "done", "fault", "stopped", "out_of_time", "input", "diverged", "memory", "infrastructure", "too_many_lost",
        "program_errors",
    }  # fmt: skip
