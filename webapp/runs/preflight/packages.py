"""Packages that a job's settings need at its worker, and the remark for workers that lack one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webapp.runs.preflight.candidates import Candidate, format_worker_names
from webapp.runs.preflight.job_lookup import ResolvedJob
from webapp.runs.preflight.remarks import Remark

NONE = "none"


@dataclass(frozen=True)
class Package:
    """Package by its name in an installation, the setting that needs it, and the value that needs none."""

    name: str
    setting: str
    instead: str
    what: str


def list_packages(config: dict[str, Any]) -> tuple[Package, ...]:
    """Return the packages that a job's configuration needs beyond those that training always needs."""
    hardware = config.get("hardware") or {}
    tracker = str(config.get("report_to") or NONE)
    packages = []
    if tracker != NONE:
        packages.append(Package(tracker, "report_to", NONE, "which its numbers are reported to"))
    if hardware.get("optimiser_state") == "adamw_8bit":
        packages.append(Package("torchao", "hardware.optimiser_state", "adamw", "which keeps the optimiser in 8 bit"))
    if hardware.get("attention") == "flash_attention_2":
        packages.append(Package("flash-attn", "hardware.attention", "auto", "which flash_attention_2 is"))
    return tuple(packages)


def lacks_package(candidate: Candidate, package: Package) -> bool:
    """Return whether a candidate reported its packages, and this one is not among them."""
    return candidate.software is not None and package.name not in candidate.software


def build_missing_remark(package: Package, names: Sequence[str], instead: str) -> Remark:
    """Return why a job waits that these workers could take if they had a package. `instead`: what else helps."""
    message = (
        f"The package {package.name}, {package.what}, is not installed at {format_worker_names(names)}: the job waits "
        f"for a worker that has it. Install it there (`pip install {package.name}`) and start that worker anew, "
        f"or {instead}."
    )
    return Remark(param=f"changes.{package.setting}", code="package_missing", message=message)


def check_packages(asked: ResolvedJob, able: Sequence[Candidate], given: Sequence[Candidate]) -> None:
    """Warn of a job that no worker is given while some of those `able` to do it lack a package that it needs."""
    if given or asked.config is None:
        return
    for package in list_packages(asked.config.model_dump(mode="json")):
        if names := [one.name for one in able if lacks_package(one, package)]:
            asked.warnings.append(
                build_missing_remark(package, names, f"set changes.{package.setting} to {package.instead}")
            )
