"""Names and steps of reported numbers: of parts that the job's datasets have, and of steps that the job has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synthesis.formats.values import clean_text
from training.config import JobConfig, Reinforcement, Supervised, read_config
from training.dataset import SideName
from training.metrics import Record, Values
from training.schedule import get_horizon, get_longest_horizon
from webapp.common.errors import Unusable
from webapp.datasets.evidence.row_index import IndexedRow, index_rows
from webapp.datasets.models import Dataset
from webapp.runs.models import TrainingJob

SIDES: tuple[SideName, ...] = ("train", "test")
HELD_OUT = "evaluation/environment/"
SHARES = ("success", "masked", "user_fault", "user_unknown", "tool_errors", "program_errors", "flat_groups")
"""Shares of attempts, calls or groups whose names do not say so."""
AMOUNTS = ("length", "turns", "draws", "samples", "policy_age", "grad_norm")
"""Numbers that count or measure something."""
VERIFIER_DIGITS = 16
"""Digits of a verifier's hash that name it in a key (`training.step_record.VERIFIER_DIGITS`)."""


def require_known_keys(job: TrainingJob, records: Sequence[Record]) -> None:
    """Raise Unusable for a number of a step that the job does not have, or of an environment, category or verifier that
    its datasets do not have, or for an impossible share."""
    most, config = get_step_limit(job), read_config(job.config)
    seq_by_part: dict[tuple[str, str], int] = {}
    for record in records:
        if isinstance(record, Values):
            if most and record.step > most:
                raise Unusable(f"records: number {record.seq} is of step {record.step}; the job has {most} steps.")
            for key, value in record.values.items():
                if value is not None and _is_share(key) and not 0 <= value <= 1:
                    raise Unusable(
                        f"records: number {record.seq} reports {key[:80]!a} = {value:g}; a share is 0 to 1. Nothing of "
                        "this batch was taken."
                    )
                _require_possible_amount(config, record, key, value)
                if part := _parse_part(clean_text(key)):
                    seq_by_part.setdefault(part, record.seq)
    if not seq_by_part:
        return
    known_parts = _list_known_parts(job)
    for (what, name), seq in seq_by_part.items():
        if name not in known_parts[what]:
            raise Unusable(
                f"records: number {seq} has a number of the {what} {name[:80]!a}, which no row of the job's datasets "
                "has."
            )


def _require_possible_amount(config: JobConfig, record: Values, key: str, value: float | None) -> None:
    """Raise Unusable for a negative amount, or for turns and horizons that the job's settings do not give."""
    if value is None:
        return
    name = key.rpartition("/")[2]
    if value < 0 and (name in AMOUNTS or name.endswith("_s")):
        raise Unusable(f"records: number {record.seq} reports {key[:80]!a} = {value:g}; it cannot be negative.")
    if not isinstance(config, Reinforcement):
        return
    if key == "horizon" and 0 < record.step <= config.steps:
        due = get_horizon(config.horizon, record.step - 1, config.steps)
        if value != due:
            raise Unusable(
                f"records: number {record.seq} reports a horizon of {value:g} turns at step {record.step}; the job's "
                f"settings give {due}."
            )
    most = get_longest_horizon(config.horizon, config.steps)
    if name == "turns" and not key.startswith("evaluation/") and value > most:
        raise Unusable(
            f"records: number {record.seq} reports {key[:80]!a} = {value:g}; an agent of the job has {most} turns."
        )


def _is_share(key: str) -> bool:
    name = key.rpartition("/")[2]
    return name in SHARES or name.endswith("_share") or key.startswith("outcome/")


def get_step_limit(job: TrainingJob) -> int:
    """Return the last step of a job, 0 if it is not known here: a row of SFT may give several samples, which the
    trainer counts."""
    return 0 if isinstance(read_config(job.config), Supervised) else job.total_steps


def _parse_part(key: str) -> tuple[str, str] | None:
    """Return kind and name of the part that a number is of; None for a number of a whole step."""
    if key.startswith(HELD_OUT):
        return "environment", key.removeprefix(HELD_OUT).rpartition("/")[0]
    prefix, _, rest = key.partition("/")
    name = rest.rpartition("/")[0]
    if prefix == "check":
        return "verifier", name.rpartition(".")[0]
    return {"environment": ("environment", name), "node": ("category", name)}.get(prefix)


def _list_known_parts(job: TrainingJob) -> dict[str, set[str]]:
    """Return environments, categories and beginnings of verifiers' hashes of the datasets of a job."""
    rows = [row for dataset in (job.dataset, job.evaluation) if dataset is not None for row in _iterate_rows(dataset)]
    return {
        "environment": {row.environment for row in rows},
        "category": {row.category for row in rows},
        "verifier": {row.verifier[:VERIFIER_DIGITS] for row in rows},
    }


def _iterate_rows(dataset: Dataset) -> Iterator[IndexedRow]:
    for side in SIDES:
        if side == "train" or dataset.test_rows:
            yield from index_rows(dataset, side).values()
