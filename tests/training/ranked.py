"""An RL job on one process, on two that call `one_of_two`, or `torchrun ... -m tests.training.ranked FOLDER MODEL WAY`.

Leaves `model/`. An untrained model solves nothing, so what it happens to write earns something here.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from synthesis.contracts import Reward
from tests.training import small
from training import rl
from training.attempts import TaskAttempt
from training.config import (
    Advantage,
    Attempts,
    Constant,
    Decoding,
    DynamicSampling,
    Evaluation,
    Hardware,
    Kl,
    Limits,
    Loss,
    Optimiser,
    Reinforcement,
    Sampling,
)
from training.evaluate import attempt_tasks
from training.metrics import Writer
from training.model_loader import load_model
from training.trainer_callbacks import Watch, save_final

CFG = Reinforcement(
    steps=3,
    sampling=Sampling(environments=4, tasks=8, rollouts=2),
    decoding=Decoding(turn_tokens=8, trajectory_tokens=400),
    attempts=Attempts(at_once=16, deadline_s=60),
    advantage=Advantage(kind="environment"),
    dynamic_sampling=DynamicSampling(enabled=True, rounds=2),
    loss=Loss(form="trajectory", updates=1),
    kl=Kl(coefficient=0.05),
    optimiser=Optimiser(learning_rate=1e-3, micro_batch=4),
    evaluation=Evaluation(every=2, tasks=4, turns=1, temperature=0.0),
    limits=Limits(checkpoint_every=2),
)
WAYS = {
    "whole": CFG,
    "turns": CFG.model_copy(
        update={"thinking": "stripped", "advantage": Advantage(kind="global"), "loss": Loss(form="grpo"),
                "dynamic_sampling": DynamicSampling(), "horizon": Constant(turns=2),
                "kl": Kl(coefficient=0.05, place="reward_to_go", estimator="k1")}
    ),
}  # fmt: skip
"""Attempts that are one sample each, and those that are a sample a turn."""


def graded(*given: Any) -> list[TaskAttempt]:
    made = []
    for tried in attempt_tasks(*given):
        earned = tried.trace.completion[0] % 5 / 4
        reward = Reward(reward=earned, passed=0, total=1, rule="proportion", verdicts=())
        made.append(replace(tried, attempt=tried.attempt.model_copy(update={"reward": reward, "outcome": "failed"})))
    return made


def main(folder: Path, model_folder: str, way: str = "whole", sharding: str = "copies", resume: bool = False) -> None:
    """With `fsdp2` also in micro batches of a budget of tokens."""
    torch.set_num_threads(1)
    budget = 900 if sharding == "fsdp2" else 0
    cfg = WAYS[way].model_copy(update={"hardware": Hardware(sharding=sharding, micro_tokens=budget)})  # type: ignore[arg-type]
    rl.attempt_tasks = graded
    first = os.environ.get("RANK", "0") == "0"
    model, _, _ = load_model(model_folder, cfg.optimiser)
    table = small.table(16, thinking=cfg.thinking)
    writer = Writer(folder / "record.jsonl") if first else None
    rows = small.rows()
    job = rl.ReinforcementJob(cfg, folder, model, table, rows, rows[:4], writer, Watch(lambda: False, cfg.limits))
    ended, trainer = rl.train_reinforcement(job, resume)
    assert ended == "done"
    save_final(trainer, folder / "model")


def one_of_two(
    rank: int, port: int, folder: Path, model_folder: str, way: str, sharding: str, resume: str = ""
) -> None:
    """A process of two: what it says goes to `rank-N.log`."""
    with open(folder / f"rank-{rank}.log", "wb", buffering=0) as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true"}
    main(folder, model_folder, way, sharding, resume=resume == "resume")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:4])
