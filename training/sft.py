"""SFT on trajectories: the loss is on the agent's own tokens, each turn's end included, and on nothing else."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
from accelerate.utils import gather_object
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from synthesis.errors import InputError
from training.attempts import Table
from training.config import Decoding, Supervised
from training.dataset import TaskRow, TrajectoryRow
from training.evaluate import Result, evaluate
from training.metrics import Writer
from training.model_loader import adapters, require_window
from training.sampler import Prompt, epoch_rows
from training.step import Ranks, StepStopped
from training.templates import Messages, Tokenizer, agent_mask, without_reasoning
from training.trainer_callbacks import (
    Ended,
    RecordKeeper,
    Watch,
    disk_errors,
    latest_checkpoint,
    micro_batch,
    say_begun,
    say_resumed,
    trainer_arguments,
    write_values,
)

IGNORED = -100
"""The label of a token that bears no loss."""


@dataclass(frozen=True)
class Sample:
    """One sequence: `labels` are the ids where the token is learnt, else `IGNORED`. `row` is its place in the data."""

    row: int
    input_ids: list[int]
    labels: list[int]


@dataclass
class SupervisedJob:
    """An SFT job's parts. `held_out` are tasks for the evaluation, none if it is empty; then `table` is not used."""

    cfg: Supervised
    folder: Path
    model: Any
    tokenizer: Tokenizer
    rows: Sequence[TrajectoryRow]
    writer: Writer | None
    watch: Watch
    held_out: Sequence[TaskRow] = ()
    table: Table | None = None
    decoding: Decoding = field(default_factory=Decoding)
    results: list[tuple[int, Result]] = field(default_factory=list)


def samples_of(tokenizer: Tokenizer, rows: Sequence[TrajectoryRow], cfg: Supervised) -> tuple[list[Sample], int]:
    """(samples, how many were dropped as too long).

    Raises InputError: a conversation that the template does not keep, a sample longer than `max_length` where they
    are refused, or nothing left to learn.
    """
    samples, long, longest = [], list[str](), 0
    for number, row in enumerate(rows):
        tools = [tool.model_dump(mode="json", exclude={"function": {"strict"}}) for tool in row.tools]
        for messages, whole in _conversations(row, cfg):
            sample = _sample(tokenizer, number, messages, tools, whole)
            longest = max(longest, len(sample.input_ids))
            if len(sample.input_ids) > cfg.max_length:
                long.append(row.id or f"number {number + 1}")
            elif any(label != IGNORED for label in sample.labels):
                samples.append(sample)
    if long and cfg.too_long == "refuse":
        raise InputError(
            f"max_length: {len(long)} samples are longer than {cfg.max_length} tokens (the longest has {longest}), "
            f"row {long[0]!r} among them; raise max_length, leave them out, or take too_long = drop"
        )
    if not samples:
        raise InputError("dataset: there is nothing to learn: no sample fits max_length and holds a turn of the agent")
    return samples, len(long)


def _conversations(row: TrajectoryRow, cfg: Supervised) -> Iterator[tuple[list[dict[str, Any]], bool]]:
    """(messages, whether every turn is learnt or only the last) of a row's samples."""
    messages = [message.trl() for message in row.messages or (*row.prompt, *row.completion)]
    if row.messages and cfg.samples == "whole":
        yield messages, True
        return
    ends = [n for n, m in enumerate(messages) if m["role"] == "assistant"] if row.messages else [len(messages) - 1]
    for end in ends:
        part = messages[: end + 1]
        yield (_stripped(part) if cfg.thinking == "stripped" else part), False


def _stripped(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the reasoning of all turns but the last one, which is learnt (ES B.2)."""
    return [*map(without_reasoning, messages[:-1]), messages[-1]]


def _sample(
    tokenizer: Tokenizer, row: int, messages: Messages, tools: Sequence[Mapping[str, Any]], whole: bool
) -> Sample:
    try:
        ids, mask = agent_mask(tokenizer, messages, tools)
    except InputError as error:
        raise InputError(f"dataset: row {row + 1}: {error}") from error
    if not whole:
        # Only the last run of the agent's tokens is the turn that completes the sample.
        start = len(ids) - 1
        while start >= 0 and not mask[start]:
            start -= 1
        while start >= 0 and mask[start]:
            start -= 1
        mask = [0] * (start + 1) + mask[start + 1 :]
    return Sample(row, ids, [token if bit else IGNORED for token, bit in zip(ids, mask, strict=True)])


def ordered(rows: Sequence[TrajectoryRow], samples: Sequence[Sample], cfg: Supervised) -> list[int]:
    """Places of samples in the order in which they are learnt, all epochs, each row as often as the mixture weighs."""
    by_row: dict[int, list[int]] = {}
    for place, sample in enumerate(samples):
        by_row.setdefault(sample.row, []).append(place)
    prompts = [Prompt(row=n, environment=rows[n].environment, setting=rows[n].setting) for n in by_row]
    order: list[int] = []
    for epoch in range(math.ceil(cfg.epochs)):
        places = [place for row in epoch_rows(prompts, cfg.mixture, epoch, cfg.seed) for place in by_row[row]]
        share = min(1.0, cfg.epochs - epoch)
        order += places[: round(len(places) * share)]
    return order


def train(job: SupervisedJob, resume: bool = False) -> tuple[Ended, SFTTrainer]:
    """Train to the end, or until the watch says stop; then a checkpoint is there. With `resume`, from the last one.

    Raises InputError (see `samples_of`), Diverged, InfrastructureError: the disk is full.
    """
    cfg = job.cfg
    samples, dropped = samples_of(job.tokenizer, job.rows, cfg)
    require_window(job.model, max(len(sample.input_ids) for sample in samples), "max_length", "the longest sample has")
    order = ordered(job.rows, samples, cfg)
    checkpoint = latest_checkpoint(job.folder) if resume else None
    say_resumed(job.writer, checkpoint)
    if job.writer is not None:
        learnt = sum(label != IGNORED for sample in samples for label in sample.labels)
        job.writer.event(
            0, "info", "The data is tokenised.", samples=len(samples), dropped=dropped, learnt_tokens=learnt,
            longest=max(len(sample.input_ids) for sample in samples),
        )  # fmt: skip
    trainer = _trainer(job, samples, order)
    ranks = Ranks(trainer.accelerator.process_index, trainer.accelerator.num_processes, gather_object)
    say_begun(job.writer, trainer)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(RecordKeeper(job.writer, job.watch, lambda: ranks))
    if checkpoint is None:
        _evaluate(job, trainer, ranks)
    with disk_errors():
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    if job.watch.ended == "done" and not _evaluate(job, trainer, ranks):
        job.watch.ended = "stopped"
    return job.watch.ended, trainer


def _evaluate(job: SupervisedJob, trainer: SFTTrainer, ranks: Ranks) -> bool:
    """Whether it was carried out to its end; a stop in between leaves no numbers of a part of the tasks."""
    if not job.held_out or job.table is None:
        return True
    model, step, cfg = trainer.accelerator.unwrap_model(trainer.model), trainer.state.global_step, job.cfg
    try:
        result = evaluate(
            job.table, model, job.held_out, cfg.evaluation, job.decoding, cfg.seed, ranks=ranks, name=f"step {step}"
        )
    except StepStopped:
        return False
    job.results.append((step, result))
    write_values(job.writer, step, result.values())
    return True


def _trainer(job: SupervisedJob, samples: Sequence[Sample], order: Sequence[int]) -> SFTTrainer:
    cfg = job.cfg
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if cfg.batch % world:
        raise InputError(f"batch: {cfg.batch} sequences a step cannot be shared evenly by {world} processes")
    micro = micro_batch(cfg.batch // world, cfg.optimiser.micro_batch)
    columns = {
        "input_ids": [sample.input_ids for sample in samples],
        "labels": [sample.labels for sample in samples],
    }
    args = SFTConfig(
        **trainer_arguments(job.folder, cfg.optimiser, cfg.limits, cfg.seed),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=cfg.batch // world // micro,
        num_train_epochs=1,
        train_sampling_strategy="sequential",
        # Longer samples were refused or dropped; nothing is cut in silence.
        max_length=None,
        packing=False,
    )
    return SFTTrainer(
        model=job.model,
        args=args,
        train_dataset=datasets.Dataset.from_dict(columns).select(order),
        processing_class=job.tokenizer,
        peft_config=adapters(cfg.tuning),
    )
