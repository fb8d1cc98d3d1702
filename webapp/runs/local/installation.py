"""Installation of what training needs: whether it is there, and the job that installs it while the site runs."""

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
from webapp.jobs.services import create
from webapp.runs.local.pip import MIB, InstallError, is_whole, normal, run_pip
from webapp.runs.wakeups import wake_workers
from webapp.stack.install import HASHED, TORCH, has_nvidia, pins, torch_options
from webapp.stack.install import LOCK as PINNED

KIND = "install_training"
EXTRA = "train"
LOCK = 6172006
STEPS = 2
"""What torch and training stand on, then torch."""
NEEDED_MIB = {False: 2_500, True: 14_000}
"""Free disk, without an NVIDIA GPU and with one: packed and unpacked lie side by side for a while."""
SIZES = {
    False: "about 300 MB to fetch, 1.3 GB on disk",
    True: "several GB to fetch (torch with CUDA), about 8 GB on disk",
}
Kind = Literal["ready", "elsewhere", "missing", "waiting", "installing", "failed", "cancelled"]
SENTENCES: dict[Kind, str] = {
    "ready": "What training needs is installed here.",
    "elsewhere": "This site does not train by itself: jobs wait for workers that are started elsewhere.",
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


def requirements(extra: str = EXTRA) -> list[Requirement]:
    """Requirements of an extra of pyproject.toml."""
    about = tomllib.loads((Path(settings.BASE_DIR) / "pyproject.toml").read_text(encoding="utf-8"))
    return [Requirement(text) for text in about["project"]["optional-dependencies"][extra]]


def missing() -> list[str]:
    """Requirements that are not installed whole, or in another version."""
    return [str(wanted) for wanted in requirements() if not _is_met(wanted)]


def _is_met(wanted: Requirement) -> bool:
    try:
        version = distribution(wanted.name).version
    except PackageNotFoundError:
        return False
    return is_whole(wanted.name) and wanted.specifier.contains(version, prereleases=True)


def importable() -> bool:
    """Whether a training worker can run in this Python."""
    return not missing()


def state() -> InstallationState:
    """The state of the installation, for pages and the API."""
    size = SIZES[has_nvidia()]
    if settings.TRAINING and importable():
        return InstallationState("ready", SENTENCES["ready"], size)
    if settings.PRODUCTION or not settings.TRAINING:
        return InstallationState("elsewhere", SENTENCES["elsewhere"], size)
    job = Job.objects.filter(kind=KIND).order_by("-pk").first()
    kind = _kind(job)
    return InstallationState(kind, SENTENCES[kind], size, job)


def _kind(job: Job | None) -> Kind:
    known: dict[str, Kind] = {
        JobState.QUEUED: "waiting",
        JobState.RUNNING: "installing",
        JobState.FAILED: "failed",
        JobState.CANCELLED: "cancelled",
    }
    return known.get(job.state, "missing") if job else "missing"


@transaction.atomic
def start(user: Any) -> Job:
    """Queue the installation, or hand back the one that is on its way. Raises InputError: there is nothing to install,
    or not by this site."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    current = state()
    if current.job is not None and current.job.is_open:
        return current.job
    if not current.may_start:
        raise InputError(current.sentence)
    return create(KIND, "Install what training needs", {}, user)


def start_once() -> Job | None:
    """At the start of the site: install unless that is done, on its way, or was stopped by a person."""
    return start(None) if state().kind in ("missing", "failed") else None


def install(context: JobContext) -> dict[str, Any]:
    """Install what is pinned, then torch, without touching the version of what is here. A second run goes on."""
    if importable():
        return {"installed": 0}
    _require_room()
    drop_halves()
    before = {name for name, _ in _installed()}
    with tempfile.TemporaryDirectory() as folder:
        pinned, kept = Path(folder) / "pinned.txt", Path(folder) / "kept.txt"
        pinned.write_text("".join(wanted_pins()))
        kept.write_text(constraints())
        context.log(f"Installing {TORCH} and what stands on it; {SIZES[has_nvidia()]}.")
        _step(context, 0, [*HASHED, "--requirement", str(pinned)])
        if not all(_is_met(requirement) for requirement in requirements() if normal(requirement.name) == "torch"):
            _step(context, 1, ["--constraint", str(kept), *torch_options(settings.TORCH_INDEX), TORCH])
    left = missing()
    if left:
        raise InstallError(f"pip ended well, but these are not here: {', '.join(left)}. Install again.")
    _prove(context)
    wake_workers()
    return {"installed": len({name for name, _ in _installed()} - before)}


def wanted_pins() -> list[str]:
    """What requirements.lock pins for training, but for the packages that the site runs on already."""
    here = {name for name, _ in _installed()} & _site()
    return [pin for pin in pins([EXTRA], PINNED.read_text()) if pin.partition("==")[0] not in here]


def constraints() -> str:
    """Constraints for torch that keep the versions the site runs on; installers may change."""
    installed = dict(_installed())
    return "".join(f"{name}=={installed[name]}\n" for name in sorted(_site()) if name in installed)


def _site() -> set[str]:
    """The packages that the site runs on, with all that those need."""
    packages: dict[str, set[str]] = {}
    waiting = requirements("web") + requirements("synthesis")
    while waiting:
        requirement = waiting.pop()
        name, extras = normal(requirement.name), {*requirement.extras, ""}
        if extras <= packages.get(name, set()):
            continue
        packages.setdefault(name, set()).update(extras)
        try:
            needs = [Requirement(text) for text in distribution(name).requires or ()]
        except PackageNotFoundError:
            continue
        waiting += [need for need in needs if _applies(need, packages[name])]
    return set(packages)


def _applies(need: Requirement, extras: Iterable[str]) -> bool:
    return need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in extras)


def _step(context: JobContext, step: int, arguments: list[str]) -> None:
    """One run of pip, with its last line as the job's note."""
    context.log(run_pip(arguments, lambda line: context.progress(step, STEPS, line)))


def _installed() -> list[tuple[str, str]]:
    """Names and versions of what is installed from an index: that is not to change."""
    versions = {
        normal(package.metadata["Name"]): package.version for package in distributions() if package.metadata["Name"]
    }
    return sorted((name, version) for name, version in versions.items() if name != "envarium" and is_whole(name))


def drop_halves() -> int:
    """Remove packages that an interrupted installation left half done: pip would take them for whole."""
    removed = 0
    for package in list(distributions(path=_places())):
        folder = getattr(package, "_path", None)
        if isinstance(folder, Path) and folder.name.endswith(".dist-info") and not package.read_text("INSTALLER"):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _places() -> list[str]:
    """Where pip installs to, and nowhere else."""
    return list({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})


def _require_room() -> None:
    needed = NEEDED_MIB[has_nvidia()]
    free = shutil.disk_usage(sys.prefix).free // MIB
    if free < needed:
        raise InstallError(
            f"The disk has {free:,} MiB free where this site is installed, and this needs about {needed:,} MiB. "
            "Make room, then install again."
        )


def _prove(context: JobContext) -> None:
    """Import it once, in a process of its own: what cannot be imported here is said now, not by the first job."""
    context.progress(STEPS, STEPS, "Trying it out")
    environment = {**os.environ, "TRL_EXPERIMENTAL_SILENCE": "1"}
    code = "import torch, trl, transformers, peft, accelerate, datasets"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        last = _last(done.stderr.splitlines())
        raise InstallError(f"It is installed, but cannot be used on this machine: {last}")


def _last(lines: Iterable[str]) -> str:
    return next((line.strip()[:500] for line in reversed(list(lines)) if line.strip()), "no reason was given")
