"""pip as a child process: its lines read as progress, ended when asked, its failures in words."""

from __future__ import annotations

import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution

from packaging.version import InvalidVersion, Version

from synthesis.errors import EnvariumError
from webapp.stack.process import signal_group

MIB = 1024 * 1024
LINES = 60
"""So many of pip's last lines are looked at for why it failed."""
LOOK_SECONDS = 0.5
RAW_SINCE = Version("24.1")
"""The first pip that tells the bytes of a download on lines of their own."""
_UNITS = {"bytes": 1, "kB": 1000, "MB": 1000**2, "GB": 1000**3}
_COLLECTING = re.compile(r"Collecting ([A-Za-z0-9][\w.-]*)")
_DOWNLOADING = re.compile(r"(?:Downloading|Using cached) (\S+) \(([\d.]+) (bytes|kB|MB|GB)\)")
_PROCESSING = re.compile(r"Processing (\S+\.whl)")
_INSTALLING = re.compile(r"Installing collected packages: (.+)")
_BYTES = re.compile(r"Progress (\d+) of (\d+)")


class InstallError(EnvariumError):
    """Packages could not be installed: why, and what to do."""


@dataclass
class Progress:
    """What pip's lines told so far. Names are as pip writes them; `installing` is there once all are fetched."""

    collected: set[str] = field(default_factory=set)
    fetched: list[str] = field(default_factory=list)
    installing: tuple[str, ...] = ()
    bytes: float = 0
    begun: float = 0
    """Bytes of the file that is on its way."""
    of: float = 0

    def read(self, line: str) -> None:
        """Take a line of pip's in."""
        if found := _COLLECTING.match(line.strip()):
            self.collected.add(normal(found[1]))
        elif found := _BYTES.match(line.strip()):
            self.begun, self.of = float(found[1]), float(found[2])
        elif found := _DOWNLOADING.match(line.strip()):
            self._fetch(found[1], float(found[2]) * _UNITS[found[3]])
        elif found := _PROCESSING.match(line.strip()):
            self._fetch(found[1], 0)
            self.collected.add(normal(self.fetched[-1].partition("-")[0]))
        elif found := _INSTALLING.match(line.strip()):
            self.installing = tuple(normal(name) for name in found[1].split(", "))
            self.begun = self.of = 0

    def _fetch(self, file: str, size: float) -> None:
        if not file.endswith(".metadata"):
            self.fetched.append(file.rpartition("/")[2])
            self.bytes += size
            self.begun = self.of = 0

    @property
    def installed(self) -> int:
        """How many of those that are being installed are whole."""
        return sum(is_whole(name) for name in self.installing)

    @property
    def sentence(self) -> str:
        """For the person who waits."""
        if self.installing:
            return f"Installing package {min(self.installed + 1, len(self.installing))} of {len(self.installing)}"
        file = self.fetched[-1].partition("-")[0] if self.fetched else ""
        share = f", {self.begun / MIB:.0f} of {self.of / MIB:.0f} MiB" if self.of > 10 * MIB else ""
        told = f"Fetching {file}{share}" if file else "Looking for packages"
        return f"{told} ({len(self.fetched)} files, {self.bytes / MIB:.0f} MiB so far)" if self.fetched else told


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def is_whole(name: str) -> bool:
    """Whether a package is installed to the end: installers write their own name after a package's last file."""
    try:
        return bool(distribution(name).read_text("INSTALLER"))
    except PackageNotFoundError:
        return False


def run_pip(arguments: Sequence[str], seen: Callable[[Progress, str], None], python: str = sys.executable) -> Progress:
    """Run `pip install` with these arguments. `seen` is called with every line and while pip is silent ("").

    What `seen` raises ends pip and passes through. Raises InstallError: pip failed.
    """
    bar = "raw" if _tells_bytes(python) else "off"
    options = ["--disable-pip-version-check", "--no-input", "--progress-bar", bar]
    process = subprocess.Popen(
        [python, "-m", "pip", "install", *options, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    kept: list[str] = []
    done = Progress()
    try:
        for line in _lines(process):
            if line:
                done.read(line)
                kept = [*kept[1 - LINES :], line.rstrip()] if not _BYTES.match(line) else kept
            seen(done, line)
        if process.wait() != 0:
            raise InstallError(words(kept, process.returncode))
    finally:
        signal_group(process.pid, signal.SIGKILL)
        process.wait()
    return done


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    """pip's lines as they come, and "" whenever it was silent for a moment."""
    waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        for line in process.stdout or ():
            waiting.put(line)
        waiting.put(None)

    threading.Thread(target=read, name="pip", daemon=True).start()
    while True:
        try:
            line = waiting.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            yield ""
            continue
        if line is None:
            return
        yield line


@cache
def _tells_bytes(python: str) -> bool:
    asked = [python, "-c", "import pip; print(pip.__version__)"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    try:
        return Version(told) >= RAW_SINCE
    except InvalidVersion:
        return False


NETWORK = (
    "NewConnectionError", "ConnectTimeout", "ReadTimeout", "Max retries exceeded", "name resolution", "ProxyError",
    "Network is unreachable", "Connection refused", "Connection reset", "SSLError", "Could not fetch URL",
    "IncompleteRead", "connection broken", "ConnectionResetError",
)  # fmt: skip


def words(lines: Sequence[str], status: int) -> str:
    """The failure of pip in words, out of its status and last lines, and what to do."""
    text = "\n".join(lines)
    last = next((line.strip() for line in reversed(lines) if "ERROR" in line or "error:" in line.lower()), "")
    said = f" pip said: {last[:300]}" if last else ""
    if "No space left on device" in text or "Errno 28" in text:
        return f"The disk is full. Make room, then install again: what was fetched is kept.{said}"
    if any(mark in text for mark in NETWORK):
        return (
            "The packages could not be fetched: no server of packages answers. Look at this machine's network "
            f"(HTTPS_PROXY names a proxy), then install again: what was fetched is kept.{said}"
        )
    if "Permission denied" in text or "Errno 13" in text or "externally-managed-environment" in text:
        return f"This site's Python environment cannot be written to. Run the site as the account that owns it.{said}"
    if "ResolutionImpossible" in text or "conflict" in text:
        return f"What training needs does not go with what is installed here. Install Envarium in a fresh folder.{said}"
    if "No matching distribution" in text:
        return f"A package is not to be had for this Python ({sys.version.split()[0]}) on this machine.{said}"
    if status < 0:
        return f"pip was ended from outside (signal {-status}); was memory short? Install again.{said}"
    return f"pip failed with status {status}.{said}"
