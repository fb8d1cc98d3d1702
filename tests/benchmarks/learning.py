"""Whether the demo learns: held-out success before, after SFT and after RL, for several seeds.

    python -m tests.benchmarks.learning --seeds 5 [--method environment group ...] [--threads 2] --json

A seed has its own tasks, split, teachers and model. SFT is done once a seed; each method (an advantage of
`training.config`) begins with the same SFT checkpoint. Success is the share of held-out tasks that were solved, with
the likeliest tokens (beside it `sampled`, at temperature 1). `gain` is RL's share beyond SFT's. `twins` counts the
held-out tasks whose instruction and reference calls stand among what was learnt from. The last line of output is one
JSON object.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, get_args

from training.config import AdvantageKind
from training.dataset import read_rows
from training.demo.prepare import prepare_demo
from training.examples import datasets
from training.job import JOB, RESULT, Exit
from training.launch import main as launch


def twins_of(folder: Path) -> int:
    """How many held-out tasks ask what a task or a lesson of training asks: the same words, the same calls."""
    held = [task.behaviour for task in read_rows(folder / "tasks", "test")]
    learnt = {row.behaviour for name in ("tasks", "trajectories") for row in read_rows(folder / name, "train")}
    if "" in learnt or "" in held:
        raise SystemExit("a row names no behaviour: its twins cannot be counted")
    return sum(behaviour in learnt for behaviour in held)


def done(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Carry a job out; (result at its start, at its end)."""
    status = launch([str(folder)])
    if status != Exit.DONE:
        raise SystemExit(f"{folder.name} ended with {Exit(status).name}")
    told = json.loads((folder / RESULT).read_text(encoding="utf-8"))["evaluations"]
    return told[0], told[-1]


def of_method(folder: Path, method: str) -> Path:
    """The RL job with another advantage, beside the demo's own."""
    made = folder / f"rl-{method}"
    made.mkdir()
    told = json.loads((folder / "rl" / JOB).read_text(encoding="utf-8"))
    told["config"]["advantage"]["kind"] = method
    (made / JOB).write_text(json.dumps(told), encoding="utf-8")
    return made


def one_seed(
    folder: Path, seed: int, methods: list[str], threads: int, changes: dict[str, dict[str, Any]]
) -> list[dict[str, Any]]:
    started = time.perf_counter()
    prepare_demo(folder, seed, threads, changes)
    before, sft = done(folder / "sft")
    shared = time.perf_counter() - started
    runs = []
    for method in methods:
        started = time.perf_counter()
        rl = done(of_method(folder, method))[1]
        runs.append(
            {
                "seed": seed,
                "method": method,
                "twins": twins_of(folder),
                "before": before["success"],
                "after_sft": sft["success"],
                "after_rl": rl["success"],
                "gain": rl["success"] - sft["success"],
                "sampled": {
                    "before": before["sampled"],
                    "after_sft": sft["sampled"],
                    "after_rl": rl["sampled"],
                    "gain": rl["sampled"] - sft["sampled"],
                },
                "seconds": round(shared + time.perf_counter() - started, 1),
                "environments": {"after_sft": sft["environments"], "after_rl": rl["environments"]},
            }
        )
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--method", nargs="+", default=["environment"], choices=get_args(AdvantageKind))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--epochs", type=float, help="of SFT; the demo's own where it is not given")
    parser.add_argument("--steps", type=int, help="of RL; the demo's own where it is not given")
    parser.add_argument("--tasks", type=int, help="of an evaluation; the demo's own where it is not given")
    parser.add_argument("--each", type=int, default=datasets.EACH, help="tasks of each environment")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    datasets.EACH = given.each
    evaluation = {"evaluation": {"tasks": given.tasks}} if given.tasks else {}
    changes = {
        "sft": ({"epochs": given.epochs} if given.epochs else {}) | evaluation,
        "rl": ({"steps": given.steps} if given.steps else {}) | evaluation,
    }
    runs: list[dict[str, Any]] = []
    for seed in range(given.first, given.first + given.seeds):
        folder = Path(tempfile.mkdtemp(prefix="learning-"))
        try:
            runs += one_seed(folder, seed, given.method, given.threads, changes)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(json.dumps(runs[-len(given.method) :]), file=sys.stderr, flush=True)
    gains = {m: [run["gain"] for run in runs if run["method"] == m] for m in given.method}
    summary = {m: {"least": min(g), "median": statistics.median(g)} for m, g in gains.items()}
    if given.json:
        twins = max(run["twins"] for run in runs)
        print(json.dumps({"runs": runs, "gain": summary, "twins": twins, "threads": given.threads}))
        return
    for run in runs:
        print({key: value for key, value in run.items() if key != "environments"})
    print(summary)


if __name__ == "__main__":
    main()
