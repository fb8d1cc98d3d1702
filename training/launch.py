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
from pathlib import Path
from typing import Any

from synthesis.collector import not_collected
from synthesis.errors import EnvariumError, InfrastructureError, InputError
from training.config import EvaluationJob, Reinforcement, Supervised
from training.dataset import TaskRow, read_manifest, read_rows
from training.job import (
    EXIT,
    LLM_KEY,
    MODEL,
    RECORD,
    RESULT,
    STOP,
    THREADS_WAIT,
    Exit,
    JobFile,
    WallTime,
    read_job,
    wall_time,
)
from training.lifeline import ALIVE, end_with
from training.metrics import Writer


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the job of a folder; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in (["-h"], ["--help"]):
        print(__doc__)
        return Exit.DONE
    if len(given) != 1:
        print("usage: python -m training.launch FOLDER", file=sys.stderr)
        return Exit.INPUT
    folder = Path(given[0]).resolve()
    if os.environ.get(ALIVE):
        end_with(os.environ[ALIVE])
    stopped = _stopping(folder)
    first = os.environ.get("RANK", "0") == "0"
    with contextlib.ExitStack() as held:
        try:
            writer = held.enter_context(Writer(folder / RECORD)) if first else None
        except EnvariumError as error:
            print(error, file=sys.stderr)
            return Exit.INFRASTRUCTURE
        with _said(writer) as how:
            job = read_job(folder)
            how.status = _carry_out(folder, job, writer, stopped, wall_time(folder, job.spent_s, first))
        if first:
            # What several processes are started by tells only that one of them failed.
            with contextlib.suppress(OSError):
                (folder / EXIT).write_text(how.status.name.lower(), encoding="utf-8")
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
    from training.step import TooManyLost, TooManyProgramErrors

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
    if isinstance(error, TooManyProgramErrors):
        return Exit.PROGRAM_ERRORS, text
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


def _carry_out(folder: Path, job: JobFile, writer: Writer | None, stopped: Callable[[], bool], wall: WallTime) -> Exit:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault(*THREADS_WAIT)
    with not_collected():
        import torch

    if job.threads:
        torch.set_num_threads(job.threads)
    dataset = _inside(folder, job.dataset)
    _require_kind(job, read_manifest(dataset).kind)
    if isinstance(job.config, EvaluationJob):
        return _evaluate(folder, job, job.config, writer, stopped, wall)
    rows = list(read_rows(dataset, "train"))
    held_out = _held_out(_inside(folder, job.evaluation) if job.evaluation else dataset)
    with not_collected():
        from training import job_setup
        from training.reports import open_report
        from training.trainer_callbacks import save_final

    config = job.config.model_dump(mode="json")
    report = open_report(job.config.report_to, folder, config) if writer is not None else None
    if report is not None and writer is not None:
        report.follow(writer)

    key = os.environ.get(LLM_KEY, "")
    user, judge = job_setup.asked_model("user", job.user, key), job_setup.asked_model("judge", job.judge, key)
    model = job_setup.merged(folder, _inside(folder, job.model), [_inside(folder, place) for place in job.adapters])
    parts = job_setup.Parts(
        folder, model, rows, held_out, writer, stopped, job.resume, job.engine, job.server, user, judge, wall
    )  # fmt: skip
    if isinstance(job.config, Supervised):
        ended, trainer, results = job_setup.supervised(parts, job.config)
    else:
        assert isinstance(job.config, Reinforcement)
        ended, trainer, results = job_setup.reinforcement(parts, job.config)
    if report is not None:
        report.close()
    if ended == "done":
        save_final(trainer, folder / MODEL)
    if writer is not None:
        told = [{"step": step, **result.model_dump()} for step, result in results]
        result = {"ended": ended, "step": trainer.state.global_step, "evaluations": told}
        (folder / RESULT).write_text(json.dumps(result, indent=1), encoding="utf-8")
        writer.event(trainer.state.global_step, "info", _ENDED[ended], ended=ended)
    return _EXITS[ended]


def _require_kind(job: JobFile, kind: str) -> None:
    wanted = "trajectories" if isinstance(job.config, Supervised) else "tasks"
    if kind != wanted:
        does = "an evaluation tries" if job.config.type == "evaluation" else f"{job.config.type} training learns from"
        raise InputError(f"dataset: {does} {wanted}, this dataset holds {kind}")


def _evaluate(
    folder: Path,
    job: JobFile,
    cfg: EvaluationJob,
    writer: Writer | None,
    stopped: Callable[[], bool],
    wall: WallTime,
) -> Exit:
    """An evaluation job. It is one process's work: others that were started beside it have nothing to do."""
    if writer is None:
        return Exit.DONE
    from training.evaluation.setup import evaluated

    ended, step = evaluated(folder, job, cfg, writer, stopped, wall)
    (folder / RESULT).write_text(json.dumps({"ended": ended, "step": step, "evaluations": []}), encoding="utf-8")
    writer.event(step, "info", _ENDED[ended], ended=ended)
    return _EXITS[ended]


_ENDED: dict[Any, str] = {
    "done": "The job is done.",
    "stopped": "The job was stopped; it can go on from its last checkpoint.",
    "out_of_time": "The job's hours are over; it can go on from its last checkpoint with more of them.",
}
_EXITS: dict[Any, Exit] = {"done": Exit.DONE, "stopped": Exit.STOPPED, "out_of_time": Exit.OUT_OF_TIME}


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
