"""Installation of the packages for training: its state, and the job that installs them while the site runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.db import connection, transaction
from packaging.requirements import Requirement

from synthesis.errors import InputError
from webapp.jobs.context import JobContext
from webapp.jobs.models import Job, JobState
from webapp.jobs.services import enqueue_job
from webapp.runs.local.pip import MIB, InstallError, is_whole, normalize_name, run_pip
from webapp.runs.wakeups import wake_workers
from webapp.stack.install import HASHED, TORCH, build_torch_options, has_nvidia, list_pins
from webapp.stack.install import LOCK as PINNED

KIND = "install_training"
EXTRA = "train"
LOCK = 6172006
STEPS = 2
"""The packages that torch and training need, then torch."""
NEEDED_MIB = {False: 2_500, True: 14_000}
"""Free disk, without an NVIDIA GPU and with one: packed and unpacked lie side by side for a while."""
SIZES = {
    False: "about 300 MB to fetch, 1.3 GB on disk",
    True: "several GB to fetch (torch with CUDA), about 8 GB on disk",
}
Kind = Literal["ready", "elsewhere", "missing", "waiting", "installing", "failed", "cancelled"]
SENTENCES: dict[Kind, str] = {
    "ready": "What training needs is installed here.",
    "elsewhere": "This site does not train models itself: jobs wait for workers that are started elsewhere.",
    "missing": "What training needs is not installed here yet.",
    "waiting": "What training needs is installed as soon as the worker beside the site is free.",
    "installing": "What training needs is being installed; jobs wait for it.",
    "failed": "What training needs could not be installed.",
    "cancelled": "Installing what training needs was stopped.",
}


@dataclass(frozen=True)
class InstallationState:
    """State of the installation. `job` is the newest that installed, or tried to."""

    kind: Kind
    sentence: str
    size: str
    job: Job | None = None

    @property
    def may_start(self) -> bool:
        return self.kind in ("missing", "failed", "cancelled")


def read_requirements(extra: str = EXTRA) -> list[Requirement]:
    """Return requirements of an extra of pyproject.toml."""
    about = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text(encoding="utf-8"))
    return [Requirement(text) for text in about["project"]["optional-dependencies"][extra]]


def list_missing_requirements() -> list[str]:
    """Return requirements that are not completely installed, or in another version."""
    return [str(wanted) for wanted in read_requirements() if not _is_met(wanted)]


def _is_met(wanted: Requirement) -> bool:
    try:
        version = distribution(wanted.name).version
    except PackageNotFoundError:
        return False
    return is_whole(wanted.name) and wanted.specifier.contains(version, prereleases=True)


def can_import_training() -> bool:
    """Return whether a training worker can run in this Python."""
    return not list_missing_requirements()


def get_installation_state() -> InstallationState:
    """Return the state of the installation, for pages and the API."""
    size = SIZES[has_nvidia()]
    if settings.TRAINING and can_import_training():
        return InstallationState("ready", SENTENCES["ready"], size)
    if settings.PRODUCTION or not settings.TRAINING:
        return InstallationState("elsewhere", SENTENCES["elsewhere"], size)
    job = Job.objects.filter(kind=KIND).order_by("-pk").first()
    kind = _get_state_kind(job)
    return InstallationState(kind, SENTENCES[kind], size, job)


def _get_state_kind(job: Job | None) -> Kind:
    kinds: dict[str, Kind] = {
        JobState.QUEUED: "waiting",
        JobState.RUNNING: "installing",
        JobState.FAILED: "failed",
        JobState.CANCELLED: "cancelled",
    }
    return kinds.get(job.state, "missing") if job else "missing"


@transaction.atomic
def start_installation(user: Any) -> Job:
    """Queue the installation, or return the job that is open already. Raises InputError: there is nothing to install,
    or not by this site."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    current = get_installation_state()
    if current.job is not None and current.job.is_open:
        return current.job
    if not current.may_start:
        raise InputError(current.sentence)
    return enqueue_job(KIND, "Install what training needs", {}, user)


def start_installation_once() -> Job | None:
    """At the start of the site, install unless that is done, pending, or was stopped by a person."""
    return start_installation(None) if get_installation_state().kind in ("missing", "failed") else None


def install_training(context: JobContext) -> dict[str, Any]:
    """Install what is pinned, then torch, without changing versions of installed packages. A second run resumes."""
    if can_import_training():
        return {"installed": 0}
    _require_room()
    remove_incomplete_packages()
    before = {name for name, _ in _list_installed()}
    with tempfile.TemporaryDirectory() as folder:
        pins_file, constraints_file = Path(folder) / "pinned.txt", Path(folder) / "kept.txt"
        pins_file.write_text("".join(list_wanted_pins()))
        constraints_file.write_text(build_constraints())
        context.log(f"Installing {TORCH} and the packages that need it; {SIZES[has_nvidia()]}.")
        _run_pip_step(context, 0, [*HASHED, "--requirement", str(pins_file)])
        if not all(
            _is_met(requirement) for requirement in read_requirements() if normalize_name(requirement.name) == "torch"
        ):
            _run_pip_step(
                context, 1, ["--constraint", str(constraints_file), *build_torch_options(settings.TORCH_INDEX), TORCH]
            )
    left = list_missing_requirements()
    if left:
        raise InstallError(f"pip ended well, but these are not here: {', '.join(left)}. Install again.")
    _require_importable(context)
    wake_workers()
    return {"installed": len({name for name, _ in _list_installed()} - before)}


def list_wanted_pins() -> list[str]:
    """Return the pins of requirements.lock for training, except those of packages that the site runs on already."""
    here = {name for name, _ in _list_installed()} & _list_site_packages()
    return [pin for pin in list_pins([EXTRA], PINNED.read_text()) if pin.partition("==")[0] not in here]


def build_constraints() -> str:
    """Return constraints for torch that keep the versions the site runs on; installers may change."""
    installed = dict(_list_installed())
    return "".join(f"{name}=={installed[name]}\n" for name in sorted(_list_site_packages()) if name in installed)


def _list_site_packages() -> set[str]:
    """Return the packages that the site runs on, with all that those need."""
    packages: dict[str, set[str]] = {}
    waiting = read_requirements("web") + read_requirements("synthesis")
    while waiting:
        requirement = waiting.pop()
        name, extras = normalize_name(requirement.name), {*requirement.extras, ""}
        if extras <= packages.get(name, set()):
            continue
        packages.setdefault(name, set()).update(extras)
        try:
            needs = [Requirement(text) for text in distribution(name).requires or ()]
        except PackageNotFoundError:
            continue
        waiting += [need for need in needs if _is_applicable(need, packages[name])]
    return set(packages)


def _is_applicable(need: Requirement, extras: Iterable[str]) -> bool:
    return need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras)


def _run_pip_step(context: JobContext, step: int, arguments: list[str]) -> None:
    """Run pip once, with its last line as the job's note."""
    context.log(run_pip(arguments, lambda line: context.progress(step, STEPS, line)))


def _list_installed() -> list[tuple[str, str]]:
    """Return names and versions of packages installed from an index, which are not to change."""
    versions = {
        normalize_name(package.metadata["Name"]): package.version
        for package in distributions()
        if package.metadata["Name"]
    }
    return sorted((name, version) for name, version in versions.items() if name != "envarium" and is_whole(name))


def remove_incomplete_packages() -> int:
    """Remove packages that an interrupted installation left incomplete: pip would take them for complete."""
    removed = 0
    for package in list(distributions(path=_list_install_folders())):
        folder = getattr(package, "_path", None)
        if isinstance(folder, Path) and folder.name.endswith(".dist-info") and not package.read_text("INSTALLER"):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _list_install_folders() -> list[str]:
    """Return the folders that pip installs to."""
    return list({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def _require_room() -> None:
    needed = NEEDED_MIB[has_nvidia()]
    free = shutil.disk_usage(sys.prefix).free // MIB
    if free < needed:
        raise InstallError(
            f"The disk has {free:,} MiB free where this site is installed, and this needs about {needed:,} MiB. "
            "Make room, then install again."
        )


def _require_importable(context: JobContext) -> None:
    """Import the packages once, in a process of its own, so that an error is reported now, not by the first job."""
    context.progress(STEPS, STEPS, "Trying it out")
    environment = {**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1"}
    code = "import torch, trl, transformers, peft, accelerate, datasets"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        last = _get_last_line(done.stderr.splitlines())
        raise InstallError(f"It is installed, but cannot be used on this machine: {last}")


def _get_last_line(lines: Iterable[str]) -> str:
    return next((line.strip()[:500] for line in reversed(list(lines)) if line.strip()), "no reason was given")
