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
from training.evaluate import Result, evaluate_model
from training.metrics import Writer
from training.model_loader import build_lora_config, require_window
from training.placement.model_placement import configure_cpu_sharding, gather_whole_weights, is_sharded
from training.sampler import Prompt, draw_epoch_rows
from training.step import Ranks, StepStopped, get_ranks
from training.supervised.lazy_samples import Collator, LazySamples
from training.supervised.sample_trainer import SampleTrainer
from training.templates import Messages, Tokenizer, drop_reasoning, encode_with_agent_mask
from training.trainer_callbacks import (
    Ended,
    RecordKeeper,
    Watch,
    build_trainer_arguments,
    choose_micro_batch,
    find_latest_checkpoint,
    report_begin,
    report_resume,
    translate_disk_errors,
    write_values,
)

IGNORED = -100
"""The label of a token that bears no loss."""
LOOKED_AT = 64
"""So many of the largest rows are tokenised before the first step, to refuse what is too long at once."""
PREPARING = 2
"""Processes for each GPU's trainer that tokenise ahead."""


@dataclass(frozen=True)
class Sample:
    """One sequence: `labels` are the ids of tokens that are trained on, else `IGNORED`. `row` is its place in the
    data.
    """

    row: int
    input_ids: list[int]
    labels: list[int]


@dataclass
class SupervisedJob:
    """Parts of an SFT job. `held_out` are tasks for the evaluation; if empty there is none, and `table` is not used."""

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


def build_samples(tokenizer: Tokenizer, rows: Sequence[TrajectoryRow], cfg: Supervised) -> tuple[list[Sample], int]:
    """Return (samples of all rows, number of those dropped as too long).

    Raises InputError: a conversation that the template does not preserve, a sample longer than `max_length` if those
    are refused, or nothing left to learn.
    """
    samples, long, longest = [], list[str](), 0
    for number, row in enumerate(rows):
        for sample in build_row_samples(tokenizer, number, row, cfg):
            longest = max(longest, len(sample.input_ids))
            if len(sample.input_ids) > cfg.max_length:
                long.append(row.id or f"number {number + 1}")
            elif any(label != IGNORED for label in sample.labels):
                samples.append(sample)
    if long and cfg.too_long == "refuse":
        raise _build_length_error(len(long), longest, long[0], cfg)
    if not samples:
        raise InputError("dataset: there is nothing to learn: no sample fits max_length and holds a turn of the agent")
    return samples, len(long)


def require_short_samples(job: SupervisedJob, rows: Iterable[int]) -> None:
    """Raise InputError with the number of samples of these rows that are longer than `max_length`, if any."""
    count, longest, name = 0, 0, ""
    for number in rows:
        lengths = [len(one.input_ids) for one in build_row_samples(job.tokenizer, number, job.rows[number], job.cfg)]
        long = sum(length > job.cfg.max_length for length in lengths)
        count, longest = count + long, max(longest, *lengths)
        name = name or (job.rows[number].id or f"number {number + 1}" if long else "")
    if count:
        raise _build_length_error(count, longest, name, job.cfg)


def _build_length_error(count: int, longest: int, name: str, cfg: Supervised) -> InputError:
    are = "samples are" if count > 1 else "sample is"
    return InputError(
        f"max_length: {count} {are} longer than {cfg.max_length} tokens (the longest has {longest}), row {name!r} "
        "among them; raise max_length, leave them out, or take too_long = drop"
    )


def build_row_samples(tokenizer: Tokenizer, number: int, row: TrajectoryRow, cfg: Supervised) -> list[Sample]:
    """Return a row's samples, of any length. Raises InputError: a conversation that the template does not preserve."""
    tools = [tool.model_dump(mode="json", exclude={"function": {"strict"}}) for tool in row.tools]
    return [
        _build_sample(tokenizer, number, messages, tools, whole) for messages, whole in _split_conversations(row, cfg)
    ]


def count_samples(rows: Sequence[TrajectoryRow], cfg: Supervised) -> list[int]:
    """Return the number of samples of each row, without tokenising it; 0 if no turn is trained on."""
    counts = []
    for row in rows:
        turns = sum(message.is_learnt for message in row.messages) if row.messages else 1
        counts.append(turns if cfg.samples == "mask_history" else min(1, turns))
    return counts


def _split_conversations(row: TrajectoryRow, cfg: Supervised) -> Iterator[tuple[list[dict[str, Any]], bool]]:
    """Yield (messages, whether every turn, except those of weight 0, is trained on, or only the last) of a row's
    samples.
    """
    messages = row.conversation()
    if row.messages and cfg.samples == "whole":
        yield messages, True
        return
    ends = [n for n, m in enumerate(row.messages) if m.is_learnt] if row.messages else [len(messages) - 1]
    for end in ends:
        part = messages[: end + 1]
        yield (_strip_reasoning(part) if cfg.thinking == "stripped" else part), False


def _strip_reasoning(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return messages without the reasoning of all turns but the last, which is trained on (ES B.2)."""
    return [*map(drop_reasoning, messages[:-1]), messages[-1]]


def _build_sample(
    tokenizer: Tokenizer, row: int, messages: Messages, tools: Sequence[Mapping[str, Any]], whole: bool
) -> Sample:
    try:
        ids, mask = encode_with_agent_mask(tokenizer, messages, tools)
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


def order_samples(rows: Sequence[TrajectoryRow], counts: Sequence[int], cfg: Supervised) -> list[tuple[int, int]]:
    """Return (row, number of its sample) in training order over all epochs, each row as often as the mixture weighs;
    `counts` has the number of samples of each row.
    """
    prompts = [Prompt(row=n, environment=r.environment, setting=r.setting) for n, r in enumerate(rows) if counts[n]]
    order: list[tuple[int, int]] = []
    for epoch in range(math.ceil(cfg.epochs)):
        drawn_rows = draw_epoch_rows(prompts, cfg.mixture, epoch, cfg.seed)
        places = [(row, number) for row in drawn_rows for number in range(counts[row])]
        share = min(1.0, cfg.epochs - epoch)
        order += places[: round(len(places) * share)]
    return order


def find_longest_sample(job: SupervisedJob, counts: Sequence[int]) -> int:
    """Return the number of tokens of the longest sample among the rows with most bytes; longer ones are found in
    training.

    A token has at least one byte, so no row below `max_length` bytes needs to be checked. Raises InputError as
    `build_samples`.
    """
    sizes = {n: len(row.model_dump_json().encode()) for n, row in enumerate(job.rows) if counts[n]}
    if not sizes:
        raise InputError("dataset: there is nothing to learn: no row holds a turn of the agent")
    order = sorted(sizes, key=lambda n: -sizes[n])
    able = [n for n in order if sizes[n] > job.cfg.max_length]
    chosen_rows = able[:LOOKED_AT] or order[:1]
    unlimited = job.cfg.model_copy(update={"max_length": 10**9})
    refuses = job.cfg.too_long == "refuse"
    cfg = job.cfg if len(chosen_rows) == len(sizes) and not refuses else unlimited
    samples, _ = build_samples(job.tokenizer, [job.rows[n] for n in chosen_rows], cfg)
    longest = max(len(sample.input_ids) for sample in samples)
    if refuses and longest > job.cfg.max_length:
        # The job ends here: count all samples that are too long, for the message.
        require_short_samples(job, able)
    return min(job.cfg.max_length, longest)


def train_supervised(job: SupervisedJob, resume: bool = False) -> tuple[Ended, SFTTrainer]:
    """Train to the end, or until the watch stops the job, which then has a checkpoint. `resume` continues from the last
    one.

    Raises InputError (see `build_samples`), Diverged, InfrastructureError: the disk is full.
    """
    cfg = job.cfg
    counts = count_samples(job.rows, cfg)
    longest = find_longest_sample(job, counts)
    require_window(job.model, longest, "max_length", "the longest sample has")
    order = order_samples(job.rows, counts, cfg)
    checkpoint = find_latest_checkpoint(job.folder) if resume else None
    report_resume(job.writer, checkpoint)
    if job.writer is not None:
        message = "The data is ready; samples are tokenised as they are learnt."
        job.writer.event(0, "info", message, samples=sum(counts), longest=longest)
    trainer = _build_trainer(job, order)
    ranks = get_ranks(trainer.accelerator)
    report_begin(job.writer, trainer)
    trainer.remove_callback(PrinterCallback)
    spread = is_sharded(cfg.hardware)

    def evaluate_at_begin() -> None:
        # A sharded model is on its devices only from the first step on.
        if spread and not trainer.state.global_step:
            _evaluate_model(job, trainer, ranks)

    after = partial(_require_none_refused, job, trainer, ranks)
    trainer.add_callback(RecordKeeper(job.writer, job.watch, lambda: ranks, after=after, begun=evaluate_at_begin))
    if checkpoint is None and not spread:
        _evaluate_model(job, trainer, ranks)
    with translate_disk_errors():
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    _report_left_out(job, trainer, ranks)
    if job.watch.ended == "done" and not _evaluate_model(job, trainer, ranks):
        job.watch.ended = "stopped"
    return job.watch.ended, trainer


def _require_none_refused(job: SupervisedJob, trainer: SampleTrainer, ranks: Ranks, step: int) -> None:
    """Raise InputError on all ranks if one of them found a sample that is too long and those are refused."""
    if job.cfg.too_long == "drop":
        return
    if rows := sorted(row for refused in ranks.every([trainer.refused]) for row in refused):
        name = job.rows[rows[0] - 1].id or f"number {rows[0]}"
        raise InputError(
            f"max_length: row {name!r} has a sample that is longer than {job.cfg.max_length} tokens (met at step "
            f"{step}); raise max_length, leave it out, or take too_long = drop"
        )


def _report_left_out(job: SupervisedJob, trainer: SampleTrainer, ranks: Ranks) -> None:
    count = sum(ranks.every([trainer.blank]))
    if job.writer is not None and count:
        message = f"{count} samples were longer than max_length and were left out."
        job.writer.event(trainer.state.global_step, "info", message, dropped=count)


def _evaluate_model(job: SupervisedJob, trainer: SFTTrainer, ranks: Ranks) -> bool:
    """Evaluate and return whether it ran to its end; a stop in between leaves no numbers of a part of the tasks."""
    if not job.held_out or job.table is None:
        return True
    model, step, cfg = trainer.accelerator.unwrap_model(trainer.model), trainer.state.global_step, job.cfg
    try:
        with gather_whole_weights(model):
            result = evaluate_model(
                job.table, model, job.held_out, cfg.evaluation, job.decoding, cfg.seed, ranks=ranks,
                name=f"step {step}",
            )  # fmt: skip
    except StepStopped:
        return False
    job.results.append((step, result))
    write_values(job.writer, step, result.values())
    return True


def _build_trainer(job: SupervisedJob, order: Sequence[tuple[int, int]]) -> SampleTrainer:
    cfg = job.cfg
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if cfg.batch % world:
        raise InputError(f"batch: {cfg.batch} sequences a step cannot be shared evenly by {world} processes")
    each = cfg.batch // world
    # With a budget of tokens a batch is a rank's whole share, of which the trainer makes micro batches.
    micro = each if cfg.hardware.micro_tokens else choose_micro_batch(each, cfg.optimiser.micro_batch)
    workers = PREPARING if torch.cuda.is_available() else 0
    args = SFTConfig(
        **build_trainer_arguments(job.folder, cfg.optimiser, cfg.limits, cfg.hardware, cfg.seed),
        per_device_train_batch_size=micro,
        gradient_accumulation_steps=each // micro,
        num_train_epochs=1,
        train_sampling_strategy="sequential",
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        dataloader_num_workers=workers,
        dataloader_persistent_workers=workers > 0,
        # Longer samples were refused or become blanks; none is truncated silently.
        max_length=None,
    )
    configure_cpu_sharding(args)
    pad = job.tokenizer.pad_token_id
    return SampleTrainer(
        cfg,
        model=job.model,
        args=args,
        train_dataset=LazySamples(partial(_tokenise_row, job), cfg.max_length, pad, IGNORED).dataset(order),
        data_collator=Collator(pad, IGNORED),
        processing_class=job.tokenizer,
        peft_config=build_lora_config(cfg.tuning),
    )


def _tokenise_row(job: SupervisedJob, number: int) -> list[Sample]:
    return build_row_samples(job.tokenizer, number, job.rows[number], job.cfg)
