"""The trainer's child process: `python -m training.launch FOLDER` (or `accelerate launch -m`, on several GPUs).

Reads `job.json` in the folder and writes beside it: `record.jsonl` (`training.metrics`), `checkpoints/`, `rollouts/`,
and in the end `model/` (weights, tokenizer and template, ready to serve) and `result.json`. A file `stop` there, or
SIGTERM, stops it within a step, with a checkpoint. How it ended is in the exit status and, with the reason, in the
record.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from synthesis.contracts import Frozen
from synthesis.errors import EnvariumError, InfrastructureError, InputError
from training.config import Reinforcement, Supervised, TrainingConfig
from training.dataset import TaskRow, read_manifest, read_rows
from training.metrics import Writer

JOB, RECORD, STOP, MODEL, RESULT = "job.json", "record.jsonl", "stop", "model", "result.json"
USER_KEY = "ENVARIUM_USER_KEY"
"""The environment variable with the key of the endpoint that plays the user; keys are not written to job files."""


class Exit(IntEnum):
    """Exit statuses. What is not among them is a crash of the process itself (a signal, say)."""

    DONE = 0
    FAULT = 1
    """A fault of ours: the traceback is on stderr."""
    STOPPED = 10
    OUT_OF_TIME = 11
    INPUT = 20
    """The configuration, model or dataset cannot be used; trying again will not help."""
    DIVERGED = 21
    MEMORY = 22
    INFRASTRUCTURE = 30
    """A full disk, no sandbox: the job may be resumed once that is mended."""
    TOO_MANY_LOST = 31
    """`limits.infra_error_share` was passed: the job pauses."""


class SpeakerFile(Frozen):
    """The model that plays the user in conversations."""

    base_url: str
    model: str
    temperature: float = Field(default=1.0, ge=0, le=5)


class JobFile(Frozen):
    """What a job is made of. Paths are absolute, or relative to the job's folder.

    `model` is a folder with a model of transformers, `dataset` a frozen dataset; `evaluation` one of tasks, whose held-
    out side is evaluated (RL: by default the dataset's own). With `resume` the last whole checkpoint is gone on from.
    `threads` bounds what the CPU computes with; 0 leaves that to torch. `engine` draws RL's tokens: the model itself,
    or vLLM on the same GPU.
    """

    config: TrainingConfig
    model: str
    dataset: str
    evaluation: str = ""
    resume: bool = False
    threads: int = Field(default=0, ge=0, le=4096)
    engine: Literal["transformers", "vllm"] = "transformers"
    user: SpeakerFile | None = None


def read_job(folder: Path) -> JobFile:
    """Raises InputError that names each field that does not fit."""
    try:
        return JobFile.model_validate_json((folder / JOB).read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{folder / JOB} is missing: there is no job here") from error
    except ValidationError as error:
        told = (f"{'.'.join(map(str, found['loc']))}: {found['msg']}" for found in error.errors(include_url=False)[:20])
        raise InputError("; ".join(told)) from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the job of a folder; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1:
        print("usage: python -m training.launch FOLDER", file=sys.stderr)
        return Exit.INPUT
    folder = Path(given[0]).resolve()
    stopped = _stopping(folder)
    first = os.environ.get("RANK", "0") == "0"
    with contextlib.ExitStack() as held:
        try:
            writer = held.enter_context(Writer(folder / RECORD)) if first else None
        except EnvariumError as error:
            print(error, file=sys.stderr)
            return Exit.INFRASTRUCTURE
        with _said(writer) as how:
            how.status = _carry_out(folder, read_job(folder), writer, stopped)
    return how.status


class _How:
    status: Exit = Exit.FAULT


@contextlib.contextmanager
def _said(writer: Writer | None) -> Iterator[_How]:
    """Boundary of the whole job: every error becomes an exit status and a sentence in the record."""
    how = _How()
    try:
        yield how
    except Exception as error:
        how.status, message = _told(error)
        if how.status in (Exit.FAULT, Exit.MEMORY):
            traceback.print_exc()
        print(message, file=sys.stderr)
        if writer is not None:
            # On a full disk not even this fits; the status still says it.
            with contextlib.suppress(EnvariumError, OSError):
                writer.event(0, "error", message[:4_000], exit=how.status.name.lower())


def _told(error: Exception) -> tuple[Exit, str]:
    import torch

    from training.policy import Diverged
    from training.step import TooManyLost

    text = str(error)
    if isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in text:
        return Exit.MEMORY, (
            "Out of memory: lower optimiser.micro_batch, the tokens of an attempt or a sample, or attempts.at_once; "
            "or train adapters (tuning.kind = lora)."
        )
    if isinstance(error, Diverged):
        return Exit.DIVERGED, text
    if isinstance(error, TooManyLost):
        return Exit.TOO_MANY_LOST, text
    if isinstance(error, InputError):
        return Exit.INPUT, text
    if isinstance(error, InfrastructureError):
        return Exit.INFRASTRUCTURE, text
    return Exit.FAULT, f"A fault of Envarium's own: {type(error).__name__}: {text}"


def _stopping(folder: Path) -> Callable[[], bool]:
    asked: list[int] = []
    with contextlib.suppress(ValueError):
        # Signals can be taken in a process's main thread alone; elsewhere (tests) the file does.
        signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    return lambda: bool(asked) or (folder / STOP).exists()


def _carry_out(folder: Path, job: JobFile, writer: Writer | None, stopped: Callable[[], bool]) -> Exit:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch

    if job.threads:
        torch.set_num_threads(job.threads)
    wanted = "tasks" if isinstance(job.config, Reinforcement) else "trajectories"
    dataset = _inside(folder, job.dataset)
    kind = read_manifest(dataset).kind
    if kind != wanted:
        raise InputError(f"dataset: {job.config.type} training learns from {wanted}, this dataset holds {kind}")
    rows = list(read_rows(dataset, "train"))
    held_out = _held_out(_inside(folder, job.evaluation) if job.evaluation else dataset)
    from training import jobs
    from training.keeping import save_final

    parts = jobs.Parts(folder, str(_inside(folder, job.model)), rows, held_out, writer, stopped, job.resume, job.engine)
    if isinstance(job.config, Supervised):
        ended, trainer, results = jobs.supervised(parts, job.config)
    else:
        speaker = (job.user.base_url, job.user.model, job.user.temperature) if job.user else None
        ended, trainer, results = jobs.reinforcement(parts, job.config, speaker, os.environ.get(USER_KEY, ""))
    if ended == "done":
        save_final(trainer, folder / MODEL)
    if writer is not None:
        told = [{"step": step, **result.model_dump()} for step, result in results]
        result = {"ended": ended, "step": trainer.state.global_step, "evaluations": told}
        (folder / RESULT).write_text(json.dumps(result, indent=1), encoding="utf-8")
        writer.event(trainer.state.global_step, "info", _ENDED[ended], ended=ended)
    return {"done": Exit.DONE, "stopped": Exit.STOPPED, "out_of_time": Exit.OUT_OF_TIME}[ended]


_ENDED: dict[Any, str] = {
    "done": "The job is done.",
    "stopped": "The job was stopped; it can go on from its last checkpoint.",
    "out_of_time": "The job's hours are over; it can go on from its last checkpoint with more of them.",
}


def _inside(folder: Path, path: str) -> Path:
    return folder / path


def _held_out(folder: Path) -> list[TaskRow]:
    """The tasks to evaluate: the held-out side of a dataset of tasks, all of it where nothing is held out."""
    manifest = read_manifest(folder)
    if manifest.kind != "tasks":
        return []
    return [row for row in read_rows(folder, "test" if manifest.test.rows else "train") if isinstance(row, TaskRow)]


if __name__ == "__main__":
    sys.exit(main())
