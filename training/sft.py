"""SFT on trajectories: the loss is on the agent's own tokens, each turn's end included, and on nothing else."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers import PrinterCallback
from trl import SFTConfig, SFTTrainer

from synthesis.errors import InputError
from training.attempts import Table
from training.config import Decoding, Supervised
from training.dataset import TaskRow, TrajectoryRow
from training.evaluate import Result, evaluate
from training.metrics import Writer
from training.model_loader import adapters, require_window
from training.placement.model_placement import begin, sharded, whole_weights
from training.sampler import Prompt, epoch_rows
from training.step import Ranks, StepStopped, ranks_of
from training.supervised.lazy_samples import Collator, LazySamples
from training.supervised.sample_trainer import SampleTrainer
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
LOOKED_AT = 64
"""So many of the largest rows are tokenised before the first step, to refuse what is too long at once."""
PREPARING = 2
"""Processes beside each GPU's trainer that tokenise ahead."""


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
    """(samples of all rows, how many were dropped as too long).

    Raises InputError: a conversation that the template does not keep, a sample longer than `max_length` where they
    are refused, or nothing left to learn.
    """
    samples, long, longest = [], list[str](), 0
    for number, row in enumerate(rows):
        for sample in row_samples(tokenizer, number, row, cfg):
            longest = max(longest, len(sample.input_ids))
            if len(sample.input_ids) > cfg.max_length:
                long.append(row.id or f"number {number + 1}")
            elif any(label != IGNORED for label in sample.labels):
                samples.append(sample)
    if long and cfg.too_long == "refuse":
        raise _too_long(len(long), longest, long[0], cfg)
    if not samples:
        raise InputError("dataset: there is nothing to learn: no sample fits max_length and holds a turn of the agent")
    return samples, len(long)


def require_short(job: SupervisedJob, rows: Iterable[int]) -> None:
    """Count all samples of these rows that are longer than `max_length`. Raises InputError that says how many."""
    count, longest, name = 0, 0, ""
    for number in rows:
        lengths = [len(one.input_ids) for one in row_samples(job.tokenizer, number, job.rows[number], job.cfg)]
        long = sum(length > job.cfg.max_length for length in lengths)
        count, longest = count + long, max(longest, *lengths)
        name = name or (job.rows[number].id or f"number {number + 1}" if long else "")
    if count:
        raise _too_long(count, longest, name, job.cfg)


def _too_long(count: int, longest: int, name: str, cfg: Supervised) -> InputError:
    are = "samples are" if count > 1 else "sample is"
    return InputError(
        f"max_length: {count} {are} longer than {cfg.max_length} tokens (the longest has {longest}), row {name!r} "
        "among them; raise max_length, leave them out, or take too_long = drop"
    )


def row_samples(tokenizer: Tokenizer, number: int, row: TrajectoryRow, cfg: Supervised) -> list[Sample]:
    """A row's samples, however long. Raises InputError: a conversation that the template does not keep."""
    tools = [tool.model_dump(mode="json", exclude={"function": {"strict"}}) for tool in row.tools]
    return [_sample(tokenizer, number, messages, tools, whole) for messages, whole in _conversations(row, cfg)]


def sample_counts(rows: Sequence[TrajectoryRow], cfg: Supervised) -> list[int]:
    """How many samples each row has, without tokenising it; 0 if no turn is to be learnt."""
    counts = []
    for row in rows:
        turns = sum(message.learnt for message in row.messages) if row.messages else 1
        counts.append(turns if cfg.samples == "mask_history" else min(1, turns))
    return counts


def _conversations(row: TrajectoryRow, cfg: Supervised) -> Iterator[tuple[list[dict[str, Any]], bool]]:
    """(messages, whether every turn is learnt, but those of weight 0, or only the last) of a row's samples."""
    messages = row.conversation()
    if row.messages and cfg.samples == "whole":
        yield messages, True
        return
    ends = [n for n, m in enumerate(row.messages) if m.learnt] if row.messages else [len(messages) - 1]
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


def ordered(rows: Sequence[TrajectoryRow], counts: Sequence[int], cfg: Supervised) -> list[tuple[int, int]]:
    """(row, number of its sample) in the order in which they are learnt, all epochs, each row as often as the mixture
    weighs; `counts` says how many samples each row has."""
    prompts = [Prompt(row=n, environment=r.environment, setting=r.setting) for n, r in enumerate(rows) if counts[n]]
    order: list[tuple[int, int]] = []
    for epoch in range(math.ceil(cfg.epochs)):
        drawn = epoch_rows(prompts, cfg.mixture, epoch, cfg.seed)
        places = [(row, number) for row in drawn for number in range(counts[row])]
        share = min(1.0, cfg.epochs - epoch)
        order += places[: round(len(places) * share)]
    return order


def look_ahead(job: SupervisedJob, counts: Sequence[int]) -> int:
    """Tokens of the longest sample among the rows that have most bytes; what is longer is met while it is learnt.

    A token has a byte at least, so that no row below `max_length` bytes needs to be looked at. Raises InputError as
    `samples_of`.
    """
    sizes = {n: len(row.model_dump_json().encode()) for n, row in enumerate(job.rows) if counts[n]}
    if not sizes:
        raise InputError("dataset: there is nothing to learn: no row holds a turn of the agent")
    order = sorted(sizes, key=lambda n: -sizes[n])
    able = [n for n in order if sizes[n] > job.cfg.max_length]
    chosen = able[:LOOKED_AT] or order[:1]
    every = job.cfg.model_copy(update={"max_length": 10**9})
    refuses = job.cfg.too_long == "refuse"
    cfg = job.cfg if len(chosen) == len(sizes) and not refuses else every
    samples, _ = samples_of(job.tokenizer, [job.rows[n] for n in chosen], cfg)
    longest = max(len(sample.input_ids) for sample in samples)
    if refuses and longest > job.cfg.max_length:
        # The job ends here: all that can be too long are counted, so that the message says how many there are.
        require_short(job, able)
    return min(job.cfg.max_length, longest)


def train(job: SupervisedJob, resume: bool = False) -> tuple[Ended, SFTTrainer]:
    """Train to the end, or until the watch says stop; then a checkpoint is there. With `resume`, from the last one.

    Raises InputError (see `samples_of`), Diverged, InfrastructureError: the disk is full.
    """
    cfg = job.cfg
    counts = sample_counts(job.rows, cfg)
    longest = look_ahead(job, counts)
    require_window(job.model, longest, "max_length", "the longest sample has")
    order = ordered(job.rows, counts, cfg)
    checkpoint = latest_checkpoint(job.folder) if resume else None
    say_resumed(job.writer, checkpoint)
    if job.writer is not None:
        message = "The data is ready; samples are tokenised as they are learnt."
        job.writer.event(0, "info", message, samples=sum(counts), longest=longest)
    trainer = _trainer(job, order)
    ranks = ranks_of(trainer.accelerator)
    say_begun(job.writer, trainer)
    trainer.remove_callback(PrinterCallback)
    spread = sharded(cfg.hardware)

    def begun() -> None:
        # A sharded model lies on its devices from the first step on.
        if spread and not trainer.state.global_step:
            _evaluate(job, trainer, ranks)

    after = partial(_require_short, job, trainer, ranks)
    trainer.add_callback(RecordKeeper(job.writer, job.watch, lambda: ranks, after=after, begun=begun))
    if checkpoint is None and not spread:
        _evaluate(job, trainer, ranks)
    with disk_errors():
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    _say_left_out(job, trainer, ranks)
    if job.watch.ended == "done" and not _evaluate(job, trainer, ranks):
        job.watch.ended = "stopped"
    return job.watch.ended, trainer


def _require_short(job: SupervisedJob, trainer: SampleTrainer, ranks: Ranks, step: int) -> None:
    """Raises InputError on all ranks: one of them met a sample that is too long, where they are refused."""
    if job.cfg.too_long == "drop":
        return
    if rows := sorted(row for refused in ranks.every([trainer.refused]) for row in refused):
        name = job.rows[rows[0] - 1].id or f"number {rows[0]}"
        raise InputError(
            f"max_length: row {name!r} has a sample that is longer than {job.cfg.max_length} tokens (met at step "
            f"{step}); raise max_length, leave it out, or take too_long = drop"
        )


def _say_left_out(job: SupervisedJob, trainer: SampleTrainer, ranks: Ranks) -> None:
    count = sum(ranks.every([trainer.blank]))
    if job.writer is not None and count:
        message = f"{count} samples were longer than max_length and were left out."
        job.writer.event(trainer.state.global_step, "info", message, dropped=count)


def _evaluate(job: SupervisedJob, trainer: SFTTrainer, ranks: Ranks) -> bool:
    """Whether it was carried out to its end; a stop in between leaves no numbers of a part of the tasks."""
    if not job.held_out or job.table is None:
        return True
    model, step, cfg = trainer.accelerator.unwrap_model(trainer.model), trainer.state.global_step, job.cfg
    try:
        with whole_weights(model):
            result = evaluate(
                job.table, model, job.held_out, cfg.evaluation, job.decoding, cfg.seed, ranks=ranks,
                name=f"step {step}",
            )  # fmt: skip
    except StepStopped:
        return False
    job.results.append((step, result))
    write_values(job.writer, step, result.values())
    return True


def _trainer(job: SupervisedJob, order: Sequence[tuple[int, int]]) -> SampleTrainer:
    cfg = job.cfg
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if cfg.batch % world:
        raise InputError(f"batch: {cfg.batch} sequences a step cannot be shared evenly by {world} processes")
    each = cfg.batch // world
    # With a budget of tokens a batch is a rank's whole share, of which the trainer makes micro batches.
    micro = each if cfg.hardware.micro_tokens else micro_batch(each, cfg.optimiser.micro_batch)
    workers = PREPARING if torch.cuda.is_available() else 0
    args = SFTConfig(
        **trainer_arguments(job.folder, cfg.optimiser, cfg.limits, cfg.hardware, cfg.seed),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=each // micro,
        num_train_epochs=1,
        train_sampling_strategy="sequential",
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        dataloader_num_workers=workers,
        dataloader_persistent_workers=workers > 0,
        # What is longer was refused or comes as a blank; nothing is cut in silence.
        max_length=None,
    )
    begin(args)
    pad = job.tokenizer.pad_token_id
    return SampleTrainer(
        cfg,
        model=job.model,
        args=args,
        train_dataset=LazySamples(partial(_tokenised, job), cfg.max_length, pad, IGNORED).dataset(order),
        data_collator=Collator(pad, IGNORED),
        processing_class=job.tokenizer,
        peft_config=adapters(cfg.tuning),
    )


def _tokenised(job: SupervisedJob, number: int) -> list[Sample]:
    return row_samples(job.tokenizer, number, job.rows[number], job.cfg)
