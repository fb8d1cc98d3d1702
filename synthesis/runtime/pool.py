"""Children forked and locked in ahead of need, and the zygote behind them, started lazily and again if it dies."""

from __future__ import annotations

import collections
import contextlib
import os
import sys
import threading
import time
from typing import Any

from synthesis.contracts import Limits
from synthesis.errors import InfrastructureError, SandboxUnavailable
from synthesis.runtime import frames
from synthesis.runtime.child import wire
from synthesis.runtime.process import Child, Zygote
from synthesis.runtime.report import Layer, SandboxReport

MODES = ("auto", "root", "user", "no_namespaces", "reduced")
READY_SECONDS = 15.0
CLOCK = "read the real clock"
"""What the probe calls it."""
_ATTEMPTS = 3
_ADDRESSES = ("drawn anew by the kernel whenever a sandbox starts", "the same in every process")


def choose_namespaces(mode: str) -> str:
    """Return the request to the zygote for namespaces: `required`, `wanted` or `off`. Raise SandboxUnavailable."""
    linux = sys.platform.startswith("linux")
    if mode not in MODES:
        raise SandboxUnavailable(f"There is no sandbox mode {mode!r}; choose one of {', '.join(MODES)}.")
    if not linux and sys.platform != "darwin":
        raise SandboxUnavailable("The sandbox runs on Linux, and in a reduced form on macOS.")
    if mode == "reduced" and linux:
        raise SandboxUnavailable("The reduced mode is for macOS; on Linux the sandbox needs seccomp.")
    if not linux and mode not in ("auto", "reduced"):
        raise SandboxUnavailable(f"The mode {mode!r} needs Linux.")
    if mode == "root" and os.geteuid() != 0:
        raise SandboxUnavailable("The mode 'root' needs to be started as root; try 'auto'.")
    if mode == "user" and os.geteuid() == 0:
        raise SandboxUnavailable("The mode 'user' is for an ordinary user; as root use 'auto' or 'root'.")
    return {"auto": "wanted", "root": "required", "user": "required"}.get(mode, "off")


class Pool:
    """Children that wait for their first request. Thread-safe."""

    def __init__(self, mode: str, limits: Limits, size: int) -> None:
        self.mode = mode
        self.limits = limits
        self.size = size
        self.lock = threading.Lock()
        self.zygote: Zygote | None = None
        self.spare: collections.deque[Child] = collections.deque()
        self.generation = 0
        self.closed = False

    def acquire(self, *, ahead: bool = True) -> Child:
        """Return a locked-in, unused child; with `ahead`, fork others for the next callers.

        Raise SandboxUnavailable or InfrastructureError.
        """
        problem: Exception | None = None
        for _ in range(_ATTEMPTS):
            with self.lock:
                try:
                    child = self._next(ahead)
                except SandboxUnavailable:
                    raise
                except InfrastructureError as error:
                    # Under the same lock, so that the next thread neither finds this zygote nor gets its own dropped.
                    problem = error
                    self._drop()
                    continue
            try:
                self._greet(child)
                return child
            except wire.FrameError as error:
                # Made by a zygote that has died meanwhile, or killed from outside.
                child.kill()
                problem = error
        raise InfrastructureError(f"The sandbox could not provide a process: {problem}")

    def _next(self, ahead: bool) -> Child:
        zygote = self._get_zygote()
        if not self.spare:
            self.spare.append(zygote.request())
        child = self.spare.popleft()
        zygote.settle(child)
        while ahead and len(self.spare) < self.size:
            self.spare.append(zygote.request())
        return child

    def _get_zygote(self) -> Zygote:
        if self.closed:
            raise SandboxUnavailable("This sandbox is closed.")
        if self.zygote is not None and not self.zygote.alive():
            self._drop()
        if self.zygote is None:
            self.generation += 1
            self.zygote = Zygote(choose_namespaces(self.mode), self.limits, self.generation)
        return self.zygote

    def _greet(self, child: Child) -> None:
        wire.set_timeout(child.sock, READY_SECONDS)
        hello = wire.receive_frame(child.sock, 1 << 16)
        if hello != b"ready":
            child.kill()
            raise SandboxUnavailable(f"A process could not be locked in: {hello.decode(errors='replace')}")
        wire.set_timeout(child.sock, self.limits.call_seconds)

    def _drop(self) -> None:
        zygote, self.zygote = self.zygote, None
        for child in self.spare:
            child.kill()
        self.spare.clear()
        if zygote is not None:
            zygote.close()

    def ending(self, child: Child) -> tuple[str, str]:
        """Return (reason, detail) of a child whose socket closed.

        The reason is `time`, `died`, `killed` (SIGKILL, from outside or by the program itself: these cannot be
        distinguished), or `sandbox` if the zygote ended.
        """
        pid, generation = child.pid, child.generation
        child.wait_for_end(1.0)
        status = None
        for _ in range(20):
            try:
                with self.lock:
                    if self.zygote is None or generation != self.generation or not self.zygote.alive():
                        return "sandbox", "the sandbox's own process ended"
                    status = self.zygote.status(pid)
            except InfrastructureError:
                return "sandbox", "the sandbox's own process ended"
            if status is not None:
                break
            time.sleep(0.005)
        if status is None:
            return "died", "it closed its connection"
        number = os.waitstatus_to_exitcode(status)
        if number == -24:
            return "time", f"it used its {self.limits.cpu_seconds} seconds of processor time"
        if number == -9:
            return "killed", "it was ended by SIGKILL"
        return "died", f"signal {-number}" if number < 0 else f"it exited with {number}"

    def report(self) -> SandboxReport:
        """Return the layers that protect the host now, tried from inside one child. Raise SandboxUnavailable."""
        child = self.acquire(ahead=False)  # no call follows: most processes that only report never run a program
        try:
            wire.send_frame(child.sock, b'{"op":"probe","id":0}')
            reply = frames.parse_frame(wire.receive_frame(child.sock, 1 << 20), 0, self.limits)
        except (wire.FrameError, frames.BadFrame) as error:
            raise SandboxUnavailable(f"The sandbox could not be examined: {error}") from None
        finally:
            child.kill()
        with self.lock:
            about = self._get_zygote().report
        return _build_report(about, reply["probe"])

    def close(self) -> None:
        with self.lock:
            self.closed = True
            self._drop()

    def forget(self) -> None:
        """Release, in a forked copy of this process, what belongs to the original, and start afresh."""
        self.lock = threading.Lock()
        zygote, self.zygote = self.zygote, None
        children = list(self.spare)
        self.spare.clear()
        if zygote is not None:
            children += zygote.waiting
            zygote.waiting.clear()
            with contextlib.suppress(OSError):
                zygote.control.close()
        for child in children:
            child.release()


def _build_report(about: dict[str, Any], tried: dict[str, str]) -> SandboxReport:
    inside, detail = bool(about["namespaces"]), str(about["detail"])
    refused = [name for name, error in tried.items() if error]
    worked = [name for name, error in tried.items() if not error]
    clock = CLOCK in worked
    # A clock harms no data: if the kernel does not remove it, that is reported and is no reason to refuse.
    worked = [name for name in worked if name != CLOCK]
    layers: dict[str, bool] = about["layers"]
    seccomp, landlock = layers.get("seccomp", False), layers.get("landlock", False)
    if not about["reduced"] and (not seccomp or worked):
        raise SandboxUnavailable(f"The sandbox does not hold: a process in it could {', '.join(worked)}.")
    own = layers.get("uid", False)
    uid = "each process has its own user id" if own else "as root only; signals and tracing are refused instead"
    names = "user, mount, pid, net, ipc, uts" if os.geteuid() else "mount, pid, net, ipc, uts"
    abi = about["landlock_abi"]
    reported = (
        Layer(name="limits", active=layers.get("limits", False), detail="memory, processor, files, processes"),
        Layer(name="seccomp", active=seccomp, detail="allow-list of system calls" if seccomp else "not here"),
        Layer(name="landlock", active=landlock, detail=f"ABI {abi}, nothing allowed" if landlock else "not here"),
        Layer(name="namespaces", active=inside, detail=f"{names}; {detail}" if inside else detail),
        Layer(name="own uid", active=own, detail=uid),
        Layer(name="clock", active=not clock, detail=about["clocks"] or "the real time is out of reach"),
        Layer(name="addresses", active=bool(about["addresses"]), detail=_ADDRESSES[bool(about["addresses"])]),
        Layer(name="probe", active=not worked, detail="refused: " + ", ".join(refused)),
    )
    mode = "no_namespaces" if not inside else "user" if os.geteuid() else "root"
    return SandboxReport(
        mode="reduced" if about["reduced"] else mode,
        layers=reported,
        preloaded=tuple(about["modules"]),
    )
