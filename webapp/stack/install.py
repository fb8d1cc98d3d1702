"""Make `.venv` and install the pins of requirements.lock. Runs on the system's Python: standard library only.

Usage: python3 webapp/stack/install.py EXTRA... A stamp with the hash of the pins shows whether anything is left to do.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "envarium-setup.json"
LOCK = ROOT / "requirements.lock"
ENTRY = re.compile(r"^# for: (?P<extras>.+)\n(?P<pin>(?:.*\\\n)*.*\n)", re.MULTILINE)
"""A pin in requirements.lock: a line with the extras that need it, then a requirement with the hashes of its files."""
HASHED = ("--require-hashes", "--no-deps", "--only-binary", ":all:")
"""How pip installs pins: nothing else, no file with another hash, nothing that would have to be built here."""
SHOWN = ("Collecting ", "Downloading ", "Building ", "Installing ", "ERROR", "error:")
TORCH = "torch==2.13.0"
"""Installed last and without hashes: which file is right depends on the machine. What it needs is there by then."""
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own builds without CUDA: a tenth of what the usual index sends to a Linux machine."""
PROBE_SECONDS = 8
AT_ONCE = 2
"""Number of pip processes: each unpacks one package after the other."""
NO_VENV = """This Python cannot make virtual environments: {reason}
Install what is missing (Debian, Ubuntu: apt install python3-venv), or name another Python:
make run PYTHON=/path/to/python3.12"""
OTHER_FILE = """{package}: the file that came is not one of those that were pinned, and was not installed.
Either the server of packages that this machine asks rebuilds files, or this one was changed on its way.
Nothing of it ran. Fetch from another server (pip config list shows which is asked) or another network, then try again.
If the problem persists, report it to the operators of that server; do not install the file by hand."""


def list_pins(extras: Iterable[str], text: str) -> list[str]:
    """Return the requirements, with hashes, that a text like requirements.lock pins for these extras."""
    chosen = set(extras)
    return [found["pin"] for found in ENTRY.finditer(text) if chosen & set(found["extras"].split(", "))]


def explain_hash_mismatch(said: str) -> str:
    """Return advice if pip refused a file for its hash; empty if it did not."""
    if "DO NOT MATCH THE HASHES" not in said:
        return ""
    refused = re.search(r"^\s*(\S+==\S+) from ", said, re.MULTILINE)
    return OTHER_FILE.format(package=refused[1] if refused else "A package")


def compute_install_hash() -> str:
    """Return the hash that decides whether an installation is up to date."""
    text = LOCK.read_bytes() + TORCH.encode() + sys.version.encode()
    return hashlib.sha256(text).hexdigest()


def read_installed_extras() -> set[str]:
    """Return the extras whose pins are already installed."""
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return set()
    if stamp.get("hash") != compute_install_hash() or not PYTHON.exists():
        return set()
    return set(stamp["extras"])


def make_venv() -> None:
    print(f"Making a virtual environment in {VENV.name} with Python {sys.version.split()[0]}", flush=True)
    try:
        import ensurepip  # noqa: F401 - Debian splits it off
        import venv
    except ImportError as error:
        sys.exit(NO_VENV.format(reason=error))
    try:
        venv.EnvBuilder(with_pip=True, clear=True, symlinks=True).create(VENV)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(NO_VENV.format(reason=error))


def is_venv_usable() -> bool:
    """Return whether `.venv` has a Python that runs, new enough, with pip."""
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return PYTHON.exists() and subprocess.run([PYTHON, "-c", check], stderr=subprocess.DEVNULL).returncode == 0


def has_nvidia() -> bool:
    """Return whether an NVIDIA driver runs here: then the usual torch, which brings CUDA, is the right one."""
    return Path("/proc/driver/nvidia/version").exists() or Path("/dev/nvidiactl").exists()


def build_torch_options(index: str) -> list[str]:
    """Return pip's options for finding torch: the index `index`, if no CUDA is needed and it answers soon."""
    if index in ("", "none") or sys.platform != "linux" or has_nvidia():
        return []
    code = f"import sys, urllib.request as u; u.urlopen(sys.argv[1], timeout={PROBE_SECONDS - 2}).close()"
    try:
        command = [sys.executable, "-c", code, f"{index.rstrip('/')}/torch/"]
        answered = (
            subprocess.run(command, stderr=subprocess.DEVNULL, timeout=PROBE_SECONDS, check=False).returncode == 0
        )
    except subprocess.TimeoutExpired:
        answered = False
    return ["--extra-index-url", index] if answered else []


def install_extras(extras: set[str]) -> None:
    """Install all pins of the extras; for training torch too."""
    requirements = list_pins(extras, LOCK.read_text())
    print(f"Installing Envarium's packages ({', '.join(sorted(extras))}); half a minute or more", flush=True)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for done in [threads.submit(install_pins, requirements[number::AT_ONCE]) for number in range(AT_ONCE)]:
            done.result()
    if "train" in extras:
        index = os.environ.get("ENVARIUM_TORCH_INDEX", "").strip() or CPU_INDEX
        print(f"Installing {TORCH}; 200 MB without an NVIDIA GPU, several GB with one", flush=True)
        run_pip_install([*build_torch_options(index), TORCH])


def install_pins(wanted: Sequence[str]) -> None:
    """Install some of the pins, which need nothing that is not pinned too."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.writelines(wanted)
        file.flush()
        run_pip_install([*HASHED, "--requirement", file.name])


def run_pip_install(wanted: list[str]) -> None:
    """Run pip and print its main lines only. Modules are compiled when they are imported: most never are."""
    options = ("--disable-pip-version-check", "--progress-bar", "off", "--no-compile")
    command = [str(PYTHON), "-m", "pip", "install", *options, *wanted]
    output_lines: list[str] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as pip:
        for line in pip.stdout or ():
            output_lines.append(line)
            if line.strip().startswith(SHOWN):
                print("  " + line.strip()[:110], flush=True)
    if pip.returncode != 0:
        print("".join(output_lines[-15:]), file=sys.stderr)
        again = "The installation failed; the lines above are pip's. Run the same command again to go on."
        sys.exit(explain_hash_mismatch("".join(output_lines)) or again)


def main(extras: set[str]) -> None:
    have = read_installed_extras()
    if extras <= have:
        return
    began = time.monotonic()
    if not is_venv_usable():
        make_venv()
    install_extras(extras)
    fresh = STAMP.with_suffix(".new")
    fresh.write_text(json.dumps({"hash": compute_install_hash(), "extras": sorted(extras | have)}))
    os.replace(fresh, STAMP)
    print(f"Installed in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main(set(sys.argv[1:]))
