"""`python -m training.demo.start FOLDER SEED`: build the demo's untrained model out of the job's own lessons, then do
what `training.launch` does."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from synthesis.collector import exclude_from_collection
from synthesis.errors import EnvariumError, InputError
from training.dataset import TrajectoryRow, read_rows
from training.job import Exit, read_job
from training.launch import main as launch


def build_untrained_model(folder: Path, seed: int) -> None:
    """Write model and tokenizer to the path in the job's file; the same for the same lessons and seed.

    Raises InputError: the dataset holds no trajectories.
    """
    with exclude_from_collection():
        from training.demo.model import build_model, build_tokenizer

    job = read_job(folder)
    lessons = [row for row in read_rows(folder / job.dataset, "train") if isinstance(row, TrajectoryRow)]
    if not lessons:
        raise InputError("dataset: the demo's model is built from the words of trajectories, and here are none")
    tokenizer = build_tokenizer([row.trl() for row in lessons])
    build_model(tokenizer, seed).save_pretrained(folder / job.model)
    tokenizer.save_pretrained(folder / job.model)


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the model, run the job and return the exit status."""
    folder, seed = list(sys.argv[1:] if arguments is None else arguments)
    try:
        build_untrained_model(Path(folder), int(seed))
    except InputError as error:
        print(error, file=sys.stderr)
        return Exit.INPUT
    except EnvariumError as error:
        print(error, file=sys.stderr)
        return Exit.INFRASTRUCTURE
    return launch([folder])


if __name__ == "__main__":
    sys.exit(main())
