"""Callbacks of TRL's trainers, for SFT and RL alike: the record, checkpoints and stopping; and their arguments."""

from __future__ import annotations

import contextlib
import errno
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import TrainerCallback

from synthesis.errors import InfrastructureError
from training.config import Hardware, Limits, Optimiser
from training.job import CHECKPOINTS
from training.metrics import Writer
from training.model_loader import bf16
from training.placement.model_placement import placement_arguments, save_whole
from training.policy import Diverged
from training.step import Ranks

Ended = Literal["done", "stopped", "out_of_time"]
KEYS = 1_000
"""So many numbers stand in one record."""


@dataclass
class Watch:
    """Decides whether a job goes on: told to stop (`asked`), or its hours are over. All ranks decide alike."""

    asked: Callable[[], bool]
    limits: Limits
    started: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)
    ended: Ended = "done"
    keep: Callable[[], None] = lambda: None
    """Keeps the account of the job's hours (`training.job.WallTime`)."""

    def decided(self, ranks: Ranks) -> tuple[bool, bool]:
        """(whether the job ends behind this step, whether a checkpoint is due by the clock). Collective."""
        self.keep()
        mine: Ended = "done"
        if self.asked():
            mine = "stopped"
        elif time.monotonic() - self.started > self.limits.hours * 3600:
            mine = "out_of_time"
        minutes = self.limits.checkpoint_minutes
        due = 0 < minutes * 60 < time.monotonic() - self.saved
        told = ranks.every([(mine, due)])
        endings = [ending for ending, _ in told if ending != "done"]
        self.ended = endings[0] if endings else self.ended
        # The first rank's clock counts: ranks do not write at the same moment.
        return bool(endings), told[0][1]


_OF_SFT = {"mean_token_accuracy": "token_accuracy", "entropy": "entropy"}


class RecordKeeper(TrainerCallback):
    """Writes the record and the checkpoints' own part, and stops the job behind a whole step.

    `writer` is None on all ranks but the first. `values(step)` are numbers beside TRL's; `saved(folder)` adds to a
    checkpoint; `begun()` runs when the model lies where it is trained, `after(step)` behind each update, on all ranks.
    """

    def __init__(
        self,
        writer: Writer | None,
        watch: Watch,
        ranks: Callable[[], Ranks],
        *,
        values: Callable[[int], Mapping[str, float]] = lambda step: {},
        saved: Callable[[Path], None] = lambda folder: None,
        after: Callable[[int], None] = lambda step: None,
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        self.writer, self.watch, self.ranks = writer, watch, ranks
        self.values, self.saved, self.after, self.begun = values, saved, after, begun
        self._last = time.perf_counter()
        self._tokens = math.inf

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.begun()
        self._last = time.perf_counter()
        # A job that goes on counts from where it was.
        self._tokens = 0.0 if state.global_step == 0 else math.inf

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        before = time.perf_counter()
        self.after(state.global_step)
        # An evaluation is no part of a step's time.
        self._last += time.perf_counter() - before
        over, due = self.watch.decided(self.ranks())
        control.should_save = control.should_save or over or due
        control.should_training_stop = control.should_training_stop or over

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if not logs or "loss" not in logs:
            return
        told = {key: _number(logs[key]) for key in ("loss", "grad_norm", "learning_rate") if key in logs}
        told |= {ours: _number(logs[theirs]) for theirs, ours in _OF_SFT.items() if theirs in logs}
        now, tokens = time.perf_counter(), _number(logs.get("num_tokens"))
        told["step_s"], self._last = now - self._last, now
        if tokens > self._tokens:
            told["tokens_per_s"] = (tokens - self._tokens) / max(told["step_s"], 1e-9)
        self._tokens = tokens
        if torch.cuda.is_available():
            told["gpu_memory"] = torch.cuda.max_memory_allocated() / 2**30
        told |= self.values(state.global_step)
        write_values(self.writer, state.global_step, told)
        if not all(math.isfinite(told[key]) for key in ("loss", "grad_norm") if key in told):
            raise Diverged(
                f"The loss or its gradient is no number at step {state.global_step}: lower optimiser.learning_rate, "
                "or continue from the last checkpoint."
            )

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.watch.saved = time.monotonic()
        if self.writer is None:
            return
        name = f"checkpoint-{state.global_step}"
        drop_pickle(Path(args.output_dir) / name)
        self.saved(Path(args.output_dir) / name)
        parts = sorted((Path(args.output_dir) / name).iterdir())
        files = [path.name for path in parts if path.is_file()]
        # Shards of the ranks lie in folders; they stay near the worker.
        shards = [path.name for path in parts if path.is_dir()]
        told = {"files": files, "shards": shards} if shards else {"files": files}
        self.writer.artefact(state.global_step, "checkpoint", f"{CHECKPOINTS}/{name}", **told)


def write_values(writer: Writer | None, step: int, values: Mapping[str, float | None]) -> None:
    """Record a step's numbers, in several records where there are very many parts."""
    items = list(values.items())
    for start in range(0, len(items) if writer is not None else 0, KEYS):
        assert writer is not None
        writer.values(step, dict(items[start : start + KEYS]))


def drop_pickle(folder: Path) -> None:
    """TRL's settings are saved as a pickle, which nobody loads; what is handed on holds none of ours."""
    (folder / "training_args.bin").unlink(missing_ok=True)


def save_final(trainer: Any, folder: Path) -> None:
    """The trained model with its tokenizer and template, ready to serve; adapters are merged into it."""
    with disk_errors():
        model = trainer.accelerator.unwrap_model(trainer.model)
        if trainer.is_fsdp_enabled:
            save_whole(trainer, folder)
        elif not hasattr(model, "merge_and_unload"):
            trainer.save_model(str(folder))
        elif trainer.accelerator.is_main_process:
            model.merge_and_unload().save_pretrained(folder)
            trainer.processing_class.save_pretrained(folder)
    drop_pickle(folder)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def trainer_arguments(
    folder: Path, optimiser: Optimiser, limits: Limits, hardware: Hardware, seed: int
) -> dict[str, Any]:
    """What TRL's configurations share: course of the learning rate, placement, checkpoints, nothing sent anywhere.

    Raises InputError as `placement_arguments`.
    """
    return {
        **placement_arguments(hardware),
        "output_dir": str(folder / CHECKPOINTS),
        "learning_rate": optimiser.learning_rate,
        "lr_scheduler_type": _SCHEDULES[optimiser.schedule],
        "warmup_steps": optimiser.warmup_steps,
        "weight_decay": optimiser.weight_decay,
        "max_grad_norm": optimiser.max_grad_norm,
        "bf16": bf16(optimiser),
        "fp16": False,
        "use_cpu": not torch.cuda.is_available(),
        "logging_steps": 1,
        # A NaN must be seen, not averaged away.
        "logging_nan_inf_filter": False,
        "save_strategy": "steps",
        "save_steps": limits.checkpoint_every,
        "save_total_limit": limits.checkpoints_kept,
        "report_to": "none",
        "disable_tqdm": True,
        "seed": seed,
        "dataloader_pin_memory": torch.cuda.is_available(),
        "push_to_hub": False,
    }


_SCHEDULES = {"constant": "constant_with_warmup", "linear": "linear", "cosine": "cosine"}


def latest_checkpoint(folder: Path, last: str = "trainer_state.json") -> Path | None:
    """The checkpoint that a job goes on from: the newest that is whole. `last` is the file that is written last."""
    checkpoints = sorted(
        (folder / CHECKPOINTS).glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2])
    )
    whole = [path for path in checkpoints if (path / last).is_file()]
    return whole[-1] if whole else None


def say_begun(writer: Writer | None, trainer: Any) -> None:
    """An event with what the job runs on."""
    if writer is None:
        return
    parameters = list(trainer.model.parameters())
    writer.event(
        trainer.state.global_step,
        "info",
        "Training begins.",
        device=str(trainer.accelerator.device),
        processes=trainer.accelerator.num_processes,
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        parameters=sum(parameter.numel() for parameter in parameters),
        trained=sum(parameter.numel() for parameter in parameters if parameter.requires_grad),
    )


def say_resumed(writer: Writer | None, checkpoint: Path | None) -> None:
    """An event that says from which step: what was recorded behind it is superseded."""
    if writer is not None and checkpoint is not None:
        step = int(checkpoint.name.rpartition("-")[2])
        writer.event(step, "info", f"Resumed from the checkpoint of step {step}.", resumed=step)


def micro_batch(rows: int, most: int) -> int:
    """The largest number of sequences that divides a rank's rows and is at most `most`."""
    return max(size for size in range(1, min(rows, most) + 1) if rows % size == 0)


@contextlib.contextmanager
def disk_errors() -> Iterator[None]:
    """A full disk as InfrastructureError with a sentence; safetensors and torch wrap it in errors of their own."""
    try:
        yield
    except Exception as error:
        if isinstance(error, OSError):
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        else:
            full = any(mark in str(error) for mark in _FULL)
        if not full:
            raise
        raise InfrastructureError("The disk is full: free some space, then resume from the last checkpoint.") from error


_FULL = ("No space left on device", "os error 28", "iostream error", "PytorchStreamWriter failed writing")
"""The last two are torch's, whose writer does not hand the reason on."""
