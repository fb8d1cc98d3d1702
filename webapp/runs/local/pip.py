"""pip as a child process: its last line shown, ended when asked, its failures in words."""

from __future__ import annotations

import queue
import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution

from synthesis.errors import EnvariumError
from webapp.stack.install import explain_hash_mismatch
from webapp.stack.process import kill_group

MIB = 1024 * 1024
LINES = 60
"""Number of pip's last lines that are searched for the reason of a failure."""
LOOK_SECONDS = 0.5
LINE_CHARS = 200


class InstallError(EnvariumError):
    """Failure to install packages: the reason, and what to do."""


def normalize_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def is_whole(name: str) -> bool:
    """Return whether a package is completely installed: installers write their own name after a package's last file."""
    try:
        return bool(distribution(name).read_text("INSTALLER"))
    except PackageNotFoundError:
        return False


def run_pip(arguments: Sequence[str], seen: Callable[[str], None], python: str = sys.executable) -> str:
    """Run `pip install` with these arguments and return the last line it wrote.

    `seen` is called with the last line so far, again and again while pip is silent. An error that it raises ends pip
    and passes through. Raises InstallError: pip failed.
    """
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    process = subprocess.Popen(
        [python, "-m", "pip", "install", *options, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    last_lines: deque[str] = deque(maxlen=LINES)
    try:
        for line in _read_lines(process):
            if text := escape_unprintable(line.strip())[:LINE_CHARS]:
                last_lines.append(text)
            seen(last_lines[-1] if last_lines else "")
        if process.wait() != 0:
            raise InstallError(format_failure(last_lines, process.returncode))
    finally:
        kill_group(process)
    return last_lines[-1] if last_lines else ""


def escape_unprintable(line: str) -> str:
    """Replace unprintable characters by their numbers: a build may print anything."""
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in line)


def _read_lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """Yield pip's lines as they come, and "" whenever it was silent for a moment."""
    waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read_output() -> None:
        for line in process.stdout or ():
            waiting.put(line)
        waiting.put(None)

    threading.Thread(target=read_output, name="pip", daemon=True).start()
    while True:
        try:
            line = waiting.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            yield ""
            continue
        if line is None:
            return
        yield line


NETWORK = (
    "NewConnectionError", "ConnectTimeout", "ReadTimeout", "Max retries exceeded", "name resolution", "ProxyError",
    "Network is unreachable", "Connection refused", "Connection reset", "SSLError", "Could not fetch URL",
    "IncompleteRead", "connection broken", "ConnectionResetError",
)  # fmt: skip


def format_failure(lines: Sequence[str], status: int) -> str:
    """Describe the failure of pip, from its status and last lines, and what to do."""
    text = "\n".join(lines)
    last = next((line.strip() for line in reversed(lines) if "ERROR" in line or "error:" in line.lower()), "")
    quote = f" pip said: {last[:300]}" if last else ""
    if refused := explain_hash_mismatch(text):
        return refused
    if "No space left on device" in text or "Errno 28" in text:
        return f"The disk is full. Make room, then install again: what was fetched is kept.{quote}"
    if any(mark in text for mark in NETWORK):
        return (
            "The packages could not be fetched: no server of packages answers. Look at this machine's network "
            f"(HTTPS_PROXY names a proxy), then install again: what was fetched is kept.{quote}"
        )
    if "Permission denied" in text or "Errno 13" in text or "externally-managed-environment" in text:
        return f"This site's Python environment cannot be written to. Run the site as the account that owns it.{quote}"
    if "ResolutionImpossible" in text or "conflict" in text:
        return f"The packages for training conflict with the installed ones. Install Envarium in a fresh folder.{quote}"
    if "No matching distribution" in text:
        return f"A package is not to be had for this Python ({sys.version.split()[0]}) on this machine.{quote}"
    if status < 0:
        return f"pip was ended from outside (signal {-status}); was memory short? Install again.{quote}"
    return f"pip failed with status {status}.{quote}"
