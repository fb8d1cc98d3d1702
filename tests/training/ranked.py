"""An RL job on one process or several: `torchrun ... -m tests.training.ranked FOLDER MODEL WAY`. Leaves `weights.pt`.

An untrained model solves nothing, so what it happens to write earns something here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch

from tests.training import small
from training import rl
from training import step as stepping
from training.config import (
    Advantage,
    Attempts,
    Constant,
    Decoding,
    DynamicSampling,
    Evaluation,
    Kl,
    Loss,
    Optimiser,
    Reinforcement,
    Sampling,
)
from training.metrics import Writer
from training.model_loader import load_model
from training.rewards import AttemptReward
from training.trainer_callbacks import Watch

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


def main(folder: Path, model_folder: str, way: str) -> None:
    cfg = WAYS[way]
    torch.set_num_threads(1)
    stepping.scored = lambda attempt, *_: AttemptReward(reward=attempt.turns[0].completion_ids[0] % 5 / 4)
    first = os.environ.get("RANK", "0") == "0"
    model, _, _ = load_model(model_folder, cfg.optimiser)
    table = small.table(16, thinking=cfg.thinking)
    writer = Writer(folder / "record.jsonl") if first else None
    rows = small.rows()
    job = rl.ReinforcementJob(cfg, folder, model, table, rows, rows[:4], writer, Watch(lambda: False, cfg.limits))
    ended, trainer = rl.train(job)
    assert ended == "done"
    if first:
        torch.save(trainer.accelerator.unwrap_model(trainer.model).state_dict(), folder / "weights.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
