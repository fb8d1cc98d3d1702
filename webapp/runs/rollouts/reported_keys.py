"""Names and steps of reported numbers: of parts that the job's datasets have, and of steps that the job has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synthesis.formats.values import clean
from training.config import Supervised, read_config
from training.dataset import SideName
from training.metrics import Record, Values
from webapp.datasets.evidence.row_index import IndexedRow, index_rows
from webapp.datasets.models import Dataset
from webapp.errors import Unusable
from webapp.runs.models import TrainingJob

SIDES: tuple[SideName, ...] = ("train", "test")
HELD_OUT = "evaluation/environment/"
VERIFIER_DIGITS = 16
"""So much of a verifier's hash names it in a key (`training.step_record.VERIFIER_DIGITS`)."""


def require_known(job: TrainingJob, records: Sequence[Record]) -> None:
    """Raises Unusable: a number is of a step that the job does not have, or of an environment, category or verifier
    that its datasets do not have, or a share that none can be."""
    most = _most_steps(job)
    wanted: dict[tuple[str, str], int] = {}
    for record in records:
        if isinstance(record, Values):
            if most and record.step > most:
                raise Unusable(f"records: number {record.seq} is of step {record.step}; the job has {most} steps.")
            for key, value in record.values.items():
                if value is not None and _is_share(key) and not 0 <= value <= 1:
                    raise Unusable(
                        f"records: number {record.seq} tells {key[:80]!a} = {value:g}; a share is 0 to 1. Nothing of "
                        "this batch was taken."
                    )
                if part := _part_of(clean(key)):
                    wanted.setdefault(part, record.seq)
    if not wanted:
        return
    known = _parts(job)
    for (what, name), seq in wanted.items():
        if name not in known[what]:
            raise Unusable(
                f"records: number {seq} has a number of the {what} {name[:80]!a}, which no row of the job's datasets "
                "has."
            )


def _is_share(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name == "success" or name.endswith("_share")


def _most_steps(job: TrainingJob) -> int:
    """The last step of a job, 0 if it is not known here: a row of SFT may give several samples, which the trainer
    counts."""
    return 0 if isinstance(read_config(job.config), Supervised) else job.total_steps


def _part_of(key: str) -> tuple[str, str] | None:
    """What a number is of, where that is no whole step: its kind and its name."""
    if key.startswith(HELD_OUT):
        return "environment", key.removeprefix(HELD_OUT).rpartition("/")[0]
    prefix, _, rest = key.partition("/")
    name = rest.rpartition("/")[0]
    if prefix == "check":
        return "verifier", name.rpartition(".")[0]
    return {"environment": ("environment", name), "node": ("category", name)}.get(prefix)


def _parts(job: TrainingJob) -> dict[str, set[str]]:
    """Environments, categories and beginnings of verifiers' hashes of the datasets of a job."""
    rows = [row for dataset in (job.dataset, job.evaluation) if dataset is not None for row in _rows(dataset)]
    return {
        "environment": {row.environment for row in rows},
        "category": {row.category for row in rows},
        "verifier": {row.verifier[:VERIFIER_DIGITS] for row in rows},
    }


def _rows(dataset: Dataset) -> Iterator[IndexedRow]:
    for side in SIDES:
        if side == "train" or dataset.test_rows:
            yield from index_rows(dataset, side).values()
