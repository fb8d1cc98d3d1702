"""The trainer's child process: `python -m training.launch FOLDER` (or `accelerate launch -m`, on several GPUs).

Reads `job.json` in the folder and writes beside it: `record.jsonl` (`training.metrics`), `checkpoints/`, `rollouts/`,
and at the end `model/` (weights, tokenizer and template, ready to serve) and `result.json`. A file `stop` there, or
SIGTERM, stops it within a step, with a checkpoint. The exit status shows how it ended; the record has the reason.
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

from synthesis.collector import exclude_from_collection
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
    load_wall_time,
    read_job,
)
from training.lifeline import ALIVE, end_with_holder
from training.metrics import Writer


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job of a folder; return the exit status."""
    options = list(sys.argv[1:] if arguments is None else arguments)
    if options in (["-h"], ["--help"]):
        print(__doc__)
        return Exit.DONE
    if len(options) != 1:
        print("usage: python -m training.launch FOLDER", file=sys.stderr)
        return Exit.INPUT
    folder = Path(options[0]).resolve()
    if os.environ.get(ALIVE):
        end_with_holder(os.environ[ALIVE])
    stopped = _make_stop_check(folder)
    first = os.environ.get("RANK", "0") == "0"
    with contextlib.ExitStack() as resources:
        try:
            writer = resources.enter_context(Writer(folder / RECORD)) if first else None
        except EnvariumError as error:
            print(error, file=sys.stderr)
            return Exit.INFRASTRUCTURE
        with _record_outcome(writer) as outcome:
            job = read_job(folder)
            outcome.status = _run_job(folder, job, writer, stopped, load_wall_time(folder, job.spent_s, first))
        if first:
            # The launcher of several processes reports only that one of them failed.
            with contextlib.suppress(OSError):
                (folder / EXIT).write_text(outcome.status.name.lower(), encoding="utf-8")
    return outcome.status


class _How:
    status: Exit = Exit.FAULT


@contextlib.contextmanager
def _record_outcome(writer: Writer | None) -> Iterator[_How]:
    """Turn every error into an exit status and a message in the record: the boundary of the whole job."""
    outcome = _How()
    try:
        yield outcome
    except Exception as error:
        outcome.status, message = _classify_error(error)
        if outcome.status in (Exit.FAULT, Exit.MEMORY):
            traceback.print_exc()
        print(message, file=sys.stderr)
        if writer is not None:
            # On a full disk not even this fits; the exit status still shows it.
            with contextlib.suppress(EnvariumError, OSError):
                writer.event(0, "error", message[:4_000], exit=outcome.status.name.lower())


def _classify_error(error: Exception) -> tuple[Exit, str]:
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


def _make_stop_check(folder: Path) -> Callable[[], bool]:
    asked: list[int] = []
    with contextlib.suppress(ValueError):
        # Signal handlers can be set only in the main thread; in other threads (tests) the file `stop` is used.
        signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    return lambda: bool(asked) or (folder / STOP).exists()


def _run_job(folder: Path, job: JobFile, writer: Writer | None, stopped: Callable[[], bool], wall: WallTime) -> Exit:
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault(*THREADS_WAIT)
    with exclude_from_collection():
        import torch

    if job.threads:
        torch.set_num_threads(job.threads)
    dataset = _resolve_path(folder, job.dataset)
    _require_kind(job, read_manifest(dataset).kind)
    if isinstance(job.config, EvaluationJob):
        return _run_evaluation(folder, job, job.config, writer, stopped, wall)
    rows = list(read_rows(dataset, "train"))
    held_out = _read_held_out(_resolve_path(folder, job.evaluation) if job.evaluation else dataset)
    with exclude_from_collection():
        from training import job_setup
        from training.reports import open_report
        from training.trainer_callbacks import save_final

    config = job.config.model_dump(mode="json")
    report = open_report(job.config.report_to, folder, config) if writer is not None else None
    if report is not None and writer is not None:
        report.follow(writer)

    key = os.environ.get(LLM_KEY, "")
    user, judge = (
        job_setup.build_asked_model("user", job.user, key),
        job_setup.build_asked_model("judge", job.judge, key),
    )
    model = job_setup.merge_job_adapters(
        folder, _resolve_path(folder, job.model), [_resolve_path(folder, place) for place in job.adapters]
    )
    parts = job_setup.Parts(
        folder, model, rows, held_out, writer, stopped, job.resume, job.engine, job.server, user, judge, wall
    )  # fmt: skip
    if isinstance(job.config, Supervised):
        ended, trainer, results = job_setup.run_supervised_job(parts, job.config)
    else:
        assert isinstance(job.config, Reinforcement)
        ended, trainer, results = job_setup.run_reinforcement_job(parts, job.config)
    if report is not None:
        report.close()
    if ended == "done":
        save_final(trainer, folder / MODEL)
    if writer is not None:
        evaluations = [{"step": step, **result.model_dump()} for step, result in results]
        result = {"ended": ended, "step": trainer.state.global_step, "evaluations": evaluations}
        (folder / RESULT).write_text(json.dumps(result, indent=1), encoding="utf-8")
        writer.event(trainer.state.global_step, "info", _ENDED[ended], ended=ended)
    return _EXITS[ended]


def _require_kind(job: JobFile, kind: str) -> None:
    wanted = "trajectories" if isinstance(job.config, Supervised) else "tasks"
    if kind != wanted:
        does = "an evaluation tries" if job.config.type == "evaluation" else f"{job.config.type} training learns from"
        raise InputError(f"dataset: {does} {wanted}, this dataset holds {kind}")


def _run_evaluation(
    folder: Path,
    job: JobFile,
    cfg: EvaluationJob,
    writer: Writer | None,
    stopped: Callable[[], bool],
    wall: WallTime,
) -> Exit:
    """Run an evaluation job in the first process; other processes started with it have nothing to do."""
    if writer is None:
        return Exit.DONE
    from training.evaluation.setup import run_evaluation_job

    ended, step = run_evaluation_job(folder, job, cfg, writer, stopped, wall)
    (folder / RESULT).write_text(json.dumps({"ended": ended, "step": step, "evaluations": []}), encoding="utf-8")
    writer.event(step, "info", _ENDED[ended], ended=ended)
    return _EXITS[ended]


_ENDED: dict[Any, str] = {
    "done": "The job is done.",
    "stopped": "The job was stopped; it can go on from its last checkpoint.",
    "out_of_time": "The job's hours are over; it can go on from its last checkpoint with more of them.",
}
_EXITS: dict[Any, Exit] = {"done": Exit.DONE, "stopped": Exit.STOPPED, "out_of_time": Exit.OUT_OF_TIME}


def _resolve_path(folder: Path, path: str) -> Path:
    return folder / path


def _read_held_out(folder: Path) -> list[TaskRow]:
    """Return the tasks to evaluate: the held-out side of a dataset of tasks, or all of it if nothing is held out."""
    manifest = read_manifest(folder)
    if manifest.kind != "tasks":
        return []
    return [row for row in read_rows(folder, "test" if manifest.test.rows else "train") if isinstance(row, TaskRow)]


if __name__ == "__main__":
    sys.exit(main())
