"""Packages that a job's settings need at its worker, and what to say where a worker told that it lacks one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webapp.runs.candidates import Candidate, in_words
from webapp.runs.launch.job_lookup import Remark, ResolvedJob

NONE = "none"


@dataclass(frozen=True)
class Package:
    """A package by its name in an installation, the setting that needs it, and the value that needs none."""

    name: str
    setting: str
    instead: str
    what: str


def packages_of(config: dict[str, Any]) -> tuple[Package, ...]:
    """What a job's configuration needs beyond what training always needs."""
    hardware = config.get("hardware") or {}
    tracker = str(config.get("report_to") or NONE)
    found = []
    if tracker != NONE:
        found.append(Package(tracker, "report_to", NONE, "which its numbers are reported to"))
    if hardware.get("optimiser_state") == "adamw_8bit":
        found.append(Package("torchao", "hardware.optimiser_state", "adamw", "which keeps the optimiser in 8 bit"))
    if hardware.get("attention") == "flash_attention_2":
        found.append(Package("flash-attn", "hardware.attention", "auto", "which flash_attention_2 is"))
    return tuple(found)


def lacks(candidate: Candidate, package: Package) -> bool:
    """Whether a candidate told of its packages, and this one is not among them."""
    return candidate.software is not None and package.name not in candidate.software


def missing(package: Package, names: Sequence[str], instead: str) -> Remark:
    """Why a job waits that these workers could take if they had a package. `instead`: what else helps."""
    message = (
        f"The package {package.name}, {package.what}, is not installed at {in_words(names)}: the job waits for a "
        f"worker that has it. Install it there (`pip install {package.name}`) and start that worker anew, or {instead}."
    )
    return Remark(param=f"changes.{package.setting}", code="package_missing", message=message)


def look_at_packages(asked: ResolvedJob, able: Sequence[Candidate], given: Sequence[Candidate]) -> None:
    """Warn of a job that is given to nobody while some of those `able` to do it lack a package that it needs."""
    if given or asked.config is None:
        return
    for package in packages_of(asked.config.model_dump(mode="json")):
        if names := [one.name for one in able if lacks(one, package)]:
            asked.warnings.append(missing(package, names, f"set changes.{package.setting} to {package.instead}"))
