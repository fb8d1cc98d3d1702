"""Placement of a new job's model: whether the workers that would be given it have the GPUs to spread it over."""

from __future__ import annotations

from collections.abc import Sequence

from training.config import EvaluationJob, Reinforcement, Supervised
from webapp.runs.preflight.candidates import Candidate, format_worker_names
from webapp.runs.preflight.job_lookup import ResolvedJob
from webapp.runs.preflight.memory import get_room


def check_offload(asked: ResolvedJob) -> None:
    """Refuse to offload what is not to be spread."""
    hardware = asked.config.hardware if isinstance(asked.config, Supervised | Reinforcement) else None
    if hardware is not None and hardware.offload and hardware.sharding == "copies":
        message = (
            "Only what is spread over GPUs is offloaded, and with copies nothing is: take changes.hardware.sharding "
            "auto or fsdp2, or leave offload out."
        )
        asked.refuse("changes.hardware.offload", "nothing_spread", message)


def check_spreading(asked: ResolvedJob, given: Sequence[Candidate]) -> None:
    """Warn of a model that is to be spread by workers with fewer than two GPUs, and of what this leaves of
    offloading."""
    config = asked.config
    if config is None or isinstance(config, EvaluationJob) or config.hardware.sharding != "fsdp2":
        return
    alone = [one.name for one in given if get_room(one) is not None and len(one.devices) < 2]
    if not alone:
        return
    message = (
        f"fsdp2 spreads a model over several GPUs, and there are not two at {format_worker_names(alone)}: there the "
        "job trains as one process that holds the whole model"
    )
    if config.hardware.offload:
        message += ", and nothing is offloaded (only what is spread can be)"
    asked.warn("changes.hardware.sharding", "nothing_to_spread", f"{message}.")
