"""Writes requirements.lock anew and says what changed: `make lock`, or `make lock PACKAGE=name` for one package alone.

One file for all platforms and Pythons, with markers: what a change brings is read once, and no two files can disagree.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from webapp.stack.install import LOCK, ROOT, TORCH

ABOUT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = tuple(ABOUT["project"]["optional-dependencies"])
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "x86_64-manylinux_2_28": {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"},
    "aarch64-manylinux_2_28": {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "aarch64"},
    "aarch64-apple-darwin": {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
}
CPYTHON = {"implementation_name": "cpython", "platform_python_implementation": "CPython", "os_name": "posix"}
OLDEST_MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}
APART = re.compile(r"torch|triton|cuda-.+|nvidia-.+")
"""Not pinned here: torch, whose build depends on the machine, and what its build with CUDA names versions of."""
PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>\S+)(?P<rest>(?:.*\\\n)*.*\n)", re.MULTILINE)
MARKER = re.compile(r" ; (.+?)(?= \\\n)")
VIA = re.compile(r"(?:    #.*\n)*")
HEAD = """\
# Every package of every extra, with the hashes of its files. Written by `make lock`, read by webapp/stack/install.py:
# change pyproject.toml and run that. Torch stands there.

"""


def compiled(*options: str) -> str:
    """What uv resolves pyproject.toml to. Ends the program where there is nothing to resolve it to."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as torch:
        torch.write(TORCH)
        torch.flush()
        command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--quiet", "--no-header"]
        command += ["--all-extras", "--constraint", torch.name, *options]
        environment = {**os.environ, **OLDEST_MACOS}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"Nothing was written. uv said:\n{done.stderr}")
    return done.stdout


def resolved(renewed: Iterable[str]) -> str:
    """All extras for all platforms, with hashes; `renewed` are uv's options for what may leave its old version."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.txt"
        if LOCK.exists():
            path.write_text(LOCK.read_text())
        compiled(
            "--universal", "--python-version", PYTHONS[0], "--generate-hashes", "--output-file", str(path), *renewed
        )
        each = [
            ("--python-version", python, "--python-platform", platform, "--only-binary", ":all:", "--no-annotate")
            for python in PYTHONS
            for platform in PLATFORMS
        ]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda one: compiled(*one, "--constraint", str(path)), each))
        return written(path.read_text())


def written(text: str) -> str:
    """uv's pins as requirements.lock has them: with the extras that need each, without what goes in apart."""
    needs = {extra: needed(extra, parents(text)) for extra in EXTRAS}
    entries = []
    for found in PIN.finditer(text):
        where = applies(found["rest"])
        if where and not APART.fullmatch(found["name"]):
            extras = [extra for extra in EXTRAS if found["name"] in needs[extra]]
            pin = MARKER.sub("", found[0], count=1) if where == set(machines()) else found[0]
            entries.append(f"# for: {', '.join(extras)}\n{pin}")
    return HEAD + "".join(entries)


def parents(text: str) -> dict[str, set[str]]:
    """Each package with those that need it, as uv's comments name them."""
    found: dict[str, set[str]] = {}
    for pin in PIN.finditer(text):
        comments = VIA.match(text, pin.end())
        named = comments[0].replace("# via", "#").replace("#", " ").split() if comments else []
        found.setdefault(pin["name"], set()).update(named)
    return found


def needed(extra: str, known: Mapping[str, set[str]]) -> set[str]:
    """What an extra needs, with all that that needs."""
    listed = [*ABOUT["project"]["dependencies"], *ABOUT["project"]["optional-dependencies"][extra]]
    names = {canonicalize_name(Requirement(text).name) for text in listed}
    while more := {name for name, needing in known.items() if needing & names} - names:
        names |= more
    return names


def machines() -> dict[tuple[str, str], dict[str, str]]:
    """What markers are asked with on each platform and Python that is supported, the oldest and newest patch of it."""
    return {
        (full, name): {**CPYTHON, **platform, "python_version": python, "python_full_version": full}
        for python in PYTHONS
        for full in (f"{python}.0", f"{python}.99")
        for name, platform in PLATFORMS.items()
    }


def applies(rest: str) -> set[tuple[str, str]]:
    """The supported machines that a pin is for, by its marker."""
    marker = MARKER.search(rest)
    return {one for one, known in machines().items() if marker is None or Marker(marker[1]).evaluate(known)}


def versions(text: str) -> dict[str, str]:
    """Name and pinned versions of each package."""
    found: dict[str, list[str]] = {}
    for pin in PIN.finditer(text):
        found.setdefault(pin["name"], []).append(pin["version"])
    return {name: " / ".join(several) for name, several in found.items()}


def changes(before: str, after: str) -> list[str]:
    """A line for each package that another version, or none, is pinned of."""
    old, new = versions(before), versions(after)
    lines = [
        f"{name} {old.get(name, '(new)')} -> {new.get(name, '(gone)')}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]
    if not lines and before != after:
        return ["The same versions, with other hashes, markers or extras."]
    return lines or ["Nothing changed."]


def main(packages: list[str]) -> None:
    before = LOCK.read_text() if LOCK.exists() else ""
    after = resolved([f"--upgrade-package={name}" for name in packages] or ["--upgrade"])
    LOCK.write_text(after)
    print("\n".join(changes(before, after)))


if __name__ == "__main__":
    main(sys.argv[1:])
