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
from training.model_loader import uses_bf16
from training.placement.model_placement import build_placement_arguments, save_whole_model
from training.policy import Diverged
from training.step import Ranks

Ended = Literal["done", "stopped", "out_of_time"]
KEYS = 1_000
"""Most numbers in one record."""


@dataclass
class Watch:
    """Decision whether a job continues: a stop was requested (`asked`), or its hours are over. All ranks decide
    alike.
    """

    asked: Callable[[], bool]
    limits: Limits
    started: float = field(default_factory=time.monotonic)
    saved: float = field(default_factory=time.monotonic)
    ended: Ended = "done"
    keep: Callable[[], None] = lambda: None
    """Keeps the account of the job's hours (`training.job.WallTime`)."""

    def decide(self, ranks: Ranks) -> tuple[bool, bool]:
        """Return (whether the job ends after this step, whether a checkpoint is due by the clock). Collective."""
        self.keep()
        own_ending: Ended = "done"
        if self.asked():
            own_ending = "stopped"
        elif time.monotonic() - self.started > self.limits.hours * 3600:
            own_ending = "out_of_time"
        minutes = self.limits.checkpoint_minutes
        due = 0 < minutes * 60 < time.monotonic() - self.saved
        decisions = ranks.every([(own_ending, due)])
        endings = [ending for ending, _ in decisions if ending != "done"]
        self.ended = endings[0] if endings else self.ended
        # The first rank's clock counts: ranks do not write at the same moment.
        return bool(endings), decisions[0][1]


_OF_SFT = {"mean_token_accuracy": "token_accuracy", "entropy": "entropy"}


class RecordKeeper(TrainerCallback):
    """Callback that writes the record and the checkpoints' own part, and stops the job after a complete step.

    `writer` is None on all ranks but the first. `values(step)` are numbers beside TRL's; `saved(folder)` adds to a
    checkpoint; `begun()` runs when the model is on its training devices, `after(step)` after each update, on all ranks.
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
        # TRL's token count of a resumed job is unknown until its first log.
        self._tokens = 0.0 if state.global_step == 0 else math.inf

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        before = time.perf_counter()
        self.after(state.global_step)
        # The time of an evaluation does not count for the step.
        self._last += time.perf_counter() - before
        over, due = self.watch.decide(self.ranks())
        control.should_save = control.should_save or over or due
        control.should_training_stop = control.should_training_stop or over

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if not logs or "loss" not in logs:
            return
        step_values = {key: _to_number(logs[key]) for key in ("loss", "grad_norm", "learning_rate") if key in logs}
        step_values |= {ours: _to_number(logs[theirs]) for theirs, ours in _OF_SFT.items() if theirs in logs}
        now, tokens = time.perf_counter(), _to_number(logs.get("num_tokens"))
        step_values["step_s"], self._last = now - self._last, now
        if tokens > self._tokens:
            step_values["tokens_per_s"] = (tokens - self._tokens) / max(step_values["step_s"], 1e-9)
        self._tokens = tokens
        if torch.cuda.is_available():
            step_values["gpu_memory"] = torch.cuda.max_memory_allocated() / 2**30
        step_values |= self.values(state.global_step)
        write_values(self.writer, state.global_step, step_values)
        if not all(math.isfinite(step_values[key]) for key in ("loss", "grad_norm") if key in step_values):
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
        # Shards of the ranks are in folders, which stay near the worker.
        shards = [path.name for path in parts if path.is_dir()]
        artefact_data = {"files": files, "shards": shards} if shards else {"files": files}
        self.writer.artefact(state.global_step, "checkpoint", f"{CHECKPOINTS}/{name}", **artefact_data)


def write_values(writer: Writer | None, step: int, values: Mapping[str, float | None]) -> None:
    """Record a step's numbers, split into several records if there are very many."""
    items = list(values.items())
    for start in range(0, len(items) if writer is not None else 0, KEYS):
        assert writer is not None
        writer.values(step, dict(items[start : start + KEYS]))


def drop_pickle(folder: Path) -> None:
    """Delete TRL's pickled settings, which are never loaded; published files must not contain our pickles."""
    (folder / "training_args.bin").unlink(missing_ok=True)


def save_final(trainer: Any, folder: Path) -> None:
    """Save the trained model with its tokenizer and template, ready to serve; adapters are merged into it."""
    with translate_disk_errors():
        model = trainer.accelerator.unwrap_model(trainer.model)
        if trainer.is_fsdp_enabled:
            save_whole_model(trainer, folder)
        elif not hasattr(model, "merge_and_unload"):
            trainer.save_model(str(folder))
        elif trainer.accelerator.is_main_process:
            model.merge_and_unload().save_pretrained(folder)
            trainer.processing_class.save_pretrained(folder)
    drop_pickle(folder)


def _to_number(value: Any) -> float:
    return math.nan if value is None else float(value)


def build_trainer_arguments(
    folder: Path, optimiser: Optimiser, limits: Limits, hardware: Hardware, seed: int
) -> dict[str, Any]:
    """Return the arguments that TRL's configurations share: learning rate schedule, placement, checkpoints, no
    reporting.

    Raises InputError as `build_placement_arguments`.
    """
    return {
        **build_placement_arguments(hardware),
        "output_dir": str(folder / CHECKPOINTS),
        "learning_rate": optimiser.learning_rate,
        "lr_scheduler_type": _SCHEDULES[optimiser.schedule],
        "warmup_steps": optimiser.warmup_steps,
        "weight_decay": optimiser.weight_decay,
        "max_grad_norm": optimiser.max_grad_norm,
        "bf16": uses_bf16(optimiser),
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


def find_latest_checkpoint(folder: Path, last: str = "trainer_state.json") -> Path | None:
    """Return the checkpoint from which a job continues: the newest complete one. `last` is the file that is written
    last.
    """
    checkpoints = sorted(
        (folder / CHECKPOINTS).glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2])
    )
    whole = [path for path in checkpoints if (path / last).is_file()]
    return whole[-1] if whole else None


def report_begin(writer: Writer | None, trainer: Any) -> None:
    """Record an event with the device and size of the training."""
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


def report_resume(writer: Writer | None, checkpoint: Path | None) -> None:
    """Record an event with the resumed step: later records are superseded."""
    if writer is not None and checkpoint is not None:
        step = int(checkpoint.name.rpartition("-")[2])
        writer.event(step, "info", f"Resumed from the checkpoint of step {step}.", resumed=step)


def choose_micro_batch(rows: int, most: int) -> int:
    """Return the largest number of sequences that divides a rank's rows and is at most `most`."""
    return max(size for size in range(1, min(rows, most) + 1) if rows % size == 0)


@contextlib.contextmanager
def translate_disk_errors() -> Iterator[None]:
    """Translate a full disk into InfrastructureError with a message; safetensors and torch wrap it in errors of their
    own.
    """
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
