"""Running a module of the tests as another kind of host: an ordinary user, or root without capabilities."""

from __future__ import annotations

import ctypes
import functools
import os
import subprocess
import sys
from pathlib import Path

import pydantic

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65_534
_PR_CAPBSET_DROP = 24


def _drop_capabilities() -> None:
    libc = ctypes.CDLL(None)
    for number in range(64):
        libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)


@functools.cache
def interpreter_for_others() -> str | None:
    """A Python of this version that an unprivileged user may run: this one, or the system's."""
    wanted = str(sys.version_info[:2])
    for path in (sys.executable, f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}", "/usr/bin/python3"):
        command = [path, "-c", "import sys; print(sys.version_info[:2])"]
        try:
            said = subprocess.run(command, user=NOBODY, group=NOBODY, capture_output=True, text=True, cwd="/")
        except OSError:
            continue
        if said.stdout.strip() == wanted:
            return path
    return None


def unavailable(host: str) -> str | None:
    """Why tests cannot run as this kind of host here, or None."""
    if not sys.platform.startswith("linux"):
        return "needs Linux"
    if host in ("root", "no_caps") and os.geteuid() != 0:
        return "needs to be started as root"
    if host == "user" and os.geteuid() == 0 and interpreter_for_others() is None:
        return "no Python of this version that an unprivileged user may run"
    return None


def run_module(host: str, module: str, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Run `python -m module` as `root`, `user`, `no_caps` or (as whoever this is) `same`."""
    python, extra = sys.executable, {}
    path = [str(ROOT)]
    if host == "user" and os.geteuid() == 0:
        python = interpreter_for_others() or sys.executable
        extra = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        path.append(str(Path(pydantic.__file__).parents[1]))
    return subprocess.run(
        [python, "-m", module, *arguments],
        cwd=ROOT,
        env={"PYTHONPATH": os.pathsep.join(path), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"},
        preexec_fn=_drop_capabilities if host == "no_caps" else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        **extra,
    )
