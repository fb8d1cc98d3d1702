"""Two processes learn what one does: the same attempts, advantages over all of them, the same weights."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
pytestmark = pytest.mark.slow

from tests.training import ranked, small  # noqa: E402
from training import step as stepping  # noqa: E402
from training.metrics import Position, read  # noqa: E402
from training.step_record import read_rollouts  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


def trained_by_two(folder: Path, model: str, way: str) -> Path:
    folder.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command += ["-m", "tests.training.ranked", str(folder), model, way]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=300)
    return folder


def attempts(folder: Path, step: int) -> list[tuple[str, int, float | None, bool]]:
    lines = read_rollouts(folder / f"rollouts/step-{step:06d}.jsonl.gz")
    return [(one["row"], one["ordinal"], one["reward"], one["advantage"] is None) for one in lines]


@pytest.mark.parametrize("way", ranked.WAYS)
def test_two_processes_learn_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    model = small.saved(tmp_path / "model")
    one, two = tmp_path / "1", trained_by_two(tmp_path / "2", model, way)
    one.mkdir()
    monkeypatch.setattr(stepping, "scored", stepping.scored)  # as it was, when the job has changed it
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    ranked.main(one, model, way)
    for step in (1, 2, 3):
        assert attempts(one, step) == attempts(two, step)
    first, second = (torch.load(folder / "weights.pt", weights_only=True) for folder in (one, two))
    untrained = small.model().state_dict()
    for name, value in first.items():
        assert torch.allclose(value, second[name], atol=2e-4), name
    assert not all(torch.equal(value, untrained[name]) for name, value in first.items())
    numbers = [read(folder / "record.jsonl", Position())[0] for folder in (one, two)]
    told = [
        [(r.step, round(r.values["reward"] or 0.0, 6), r.values["draws"]) for r in records if r.kind == "values"
         and "draws" in r.values]
        for records in numbers
    ]  # fmt: skip
    assert told[0] == told[1]
