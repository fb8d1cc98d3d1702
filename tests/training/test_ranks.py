"""Two processes learn what one does: the same attempts, advantages over all of them, the same weights; as copies of the
model, and with the model spread over them (FSDP2 on gloo). They are forked from one that has loaded torch, but for
two that torchrun starts, as docs/training.md says."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ranks")]

from safetensors.torch import load_file  # noqa: E402

from tests.training import ranked, small  # noqa: E402
from training import rl  # noqa: E402
from training.metrics import Position, read_records  # noqa: E402
from training.step_record import read_rollouts  # noqa: E402

RANKS = multiprocessing.get_context("forkserver")
RANKS.set_forkserver_preload([ranked.__name__])


def trained_by_torchrun(folder: Path, model: str, way: str) -> Path:
    folder.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1", "--nproc-per-node", "2", "--standalone"]
    command += ["-m", ranked.__name__, str(folder), model, way]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    subprocess.run(command, cwd=Path(__file__).parents[2], env=environment, check=True, timeout=600)
    return folder


def trained_by_two(folder: Path, model: str, *how: str) -> Path:
    folder.mkdir(exist_ok=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = [(rank, port, folder, model, *how) for rank in (0, 1)]
    ranks = [RANKS.Process(target=ranked.one_of_two, args=one, daemon=True) for one in given]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(600)
    said = "".join(log.read_text()[-3_000:] for log in sorted(folder.glob("rank-*.log")))
    assert [process.exitcode for process in ranks] == [0, 0], said
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return small.saved(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def ones(tmp_path_factory: pytest.TempPathFactory, model: str) -> dict[str, Path]:
    """By way, what one process learns."""
    folders = {way: tmp_path_factory.mktemp(way) for way in ranked.WAYS}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rl, "attempt_tasks", rl.attempt_tasks)  # as it was, when the job has changed it
        patch.setenv("ACCELERATE_USE_CPU", "true")
        for way, folder in folders.items():
            ranked.main(folder, model, way)
    return folders


def attempts(folder: Path, step: int) -> list[tuple[str, int, float | None, bool]]:
    lines = read_rollouts(folder / f"rollouts/step-{step:06d}.jsonl.gz")
    return [(one["row"], one["ordinal"], one["reward"], one["advantage"] is None) for one in lines]


def told(folder: Path) -> list[tuple[int, float, float | None]]:
    records = read_records(folder / "record.jsonl", Position())[0]
    return [
        (r.step, round(r.values["reward"] or 0.0, 6), r.values["draws"]) for r in records if r.kind == "values"
        and "draws" in r.values
    ]  # fmt: skip


def require_same_weights(one: Path, two: Path) -> None:
    first, second = (load_file(folder / "model/model.safetensors") for folder in (one, two))
    untrained = small.model().state_dict()
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.allclose(value, second[name], atol=2e-4), name
    assert not all(torch.equal(value, untrained[name]) for name, value in first.items())


@pytest.mark.parametrize(
    ("way", "sharding"), [("whole", "copies"), ("whole", "fsdp2"), ("turns", "copies"), ("turns", "fsdp2")]
)
def test_two_processes_learn_what_one_does(
    tmp_path: Path, model: str, ones: dict[str, Path], way: str, sharding: str
) -> None:
    one, plain = ones[way], (way, sharding) == ("whole", "copies")
    folder = tmp_path / "2"
    two = trained_by_torchrun(folder, model, way) if plain else trained_by_two(folder, model, way, sharding)
    for step in (1, 2, 3):
        assert attempts(one, step) == attempts(two, step)
    require_same_weights(one, two)
    assert told(one) == told(two)
    if (way, sharding) == ("whole", "fsdp2"):
        shards = sorted(path.name for path in (two / "checkpoints/checkpoint-2/optimizer_0").glob("*.distcp"))
        assert shards == ["__0_0.distcp", "__1_0.distcp"], "each rank writes its own"
        shutil.rmtree(two / "checkpoints/checkpoint-3")
        shutil.rmtree(two / "model")
        require_same_weights(one, trained_by_two(two, model, way, sharding, "resume"))
