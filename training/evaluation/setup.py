"""Assembly of an evaluation from its job's file: rows, sandbox, and a model here or behind an address."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from synthesis.errors import InputError
from synthesis.runtime import get_default_sandbox
from training.attempts import Table
from training.config import EvaluationJob, Optimiser
from training.dataset import SideName, TaskRow, read_manifest, read_rows
from training.evaluation.asked_policy import AskedModels
from training.evaluation.job import (
    Attempting,
    Evaluation,
    build_endpoint_attempter,
    build_model_attempter,
    run_evaluation,
)
from training.job import LLM_KEY, JobFile, WallTime
from training.job_setup import build_asked_model, check_lengths, check_programs, merge_job_adapters
from training.metrics import Writer
from training.trainer_callbacks import Ended


def run_evaluation_job(
    folder: Path, job: JobFile, cfg: EvaluationJob, writer: Writer, stopped: Callable[[], bool], wall: WallTime
) -> tuple[Ended, int]:
    """Run an evaluation; return how it ended and the number of reports.

    Raises InputError: no tasks, or a model that cannot be used; and as `carry_out`.
    """
    rows = read_evaluated_rows(folder / job.dataset, cfg)
    check_programs(get_default_sandbox(), rows)
    attempting = _build_attempter(folder, job, cfg, rows, writer, stopped)
    return run_evaluation(Evaluation(cfg, folder, rows, attempting, writer, stopped, job.reported, wall))


def read_evaluated_rows(dataset: Path, cfg: EvaluationJob) -> list[TaskRow]:
    """Return the rows of the evaluated side. Raises InputError: it has none."""
    held_out = bool(read_manifest(dataset).test.rows)
    sides: tuple[SideName, ...] = {
        "held_out": ("test",) if held_out else ("train",),
        "learnt": ("train",),
        "all": ("train", "test"),
    }[cfg.side]  # type: ignore[assignment]
    rows = [row for side in sides for row in read_rows(dataset, side) if isinstance(row, TaskRow)]
    if not rows:
        raise InputError(f"side: the dataset has no tasks on the side `{cfg.side}`; take another one")
    return rows


def _build_attempter(
    folder: Path, job: JobFile, cfg: EvaluationJob, rows: list[TaskRow], writer: Writer, stopped: Callable[[], bool]
) -> Attempting:
    key = os.environ.get(LLM_KEY, "")
    user, judge = build_asked_model("user", job.user, key), build_asked_model("judge", job.judge, key)
    policy = build_asked_model("policy", job.policy, key)
    if policy is not None:
        return build_endpoint_attempter(
            get_default_sandbox(),
            AskedModels(policy, user, judge, cfg.sent_reasoning, cfg.think, cfg.seed),
            cfg,
            stopped,
        )
    if cfg.think != "model":
        raise InputError("think: a checkpoint's own template decides; serve the model, and evaluate it at its endpoint")
    if not job.model:
        raise InputError("model: the job names neither a model nor an address of one")
    import torch

    from training.model_loader import load_model, uses_bf16

    optimiser = Optimiser(precision=cfg.precision)
    base = merge_job_adapters(folder, folder / job.model, [folder / name for name in job.adapters])
    model, tokenizer, replaced = load_model(base, optimiser)
    if replaced:
        words = "The model's chat template was replaced by TRL's training form of it, as in training."
        writer.event(job.reported, "info", words)
    check_lengths(model, tokenizer, rows, cfg.decoding)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu")
    table = Table(
        get_default_sandbox(),
        tokenizer,
        cfg.attempts,
        user,
        judge,
        stopped,
        uses_bf16(optimiser),
        thinking=cfg.thinking,
        judges_user=cfg.attempts.judges_user,
        seed=cfg.seed,
    )
    return build_model_attempter(table, model, cfg)
