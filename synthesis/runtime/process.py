"""The host's side of the zygote: starting it, asking for children, ending them."""

from __future__ import annotations

import collections
import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from synthesis.contracts import DEFAULT_NOW, DEFAULT_SEED, Limits
from synthesis.errors import InfrastructureError, SandboxUnavailable
from synthesis.runtime.child import wire

_START_SECONDS = 30.0
_ANSWER_SECONDS = 10.0
_SCRIPT = Path(__file__).with_name("child") / "zygote.py"
_ANSWER_CAP = 64
_NO_RANDOM_ADDRESSES = 0x0040000


class Child:
    """One sandboxed process on the host: a socket, and a handle to end it with."""

    __slots__ = ("generation", "handle", "pid", "sock")

    def __init__(self, sock: socket.socket, generation: int) -> None:
        self.sock = sock
        self.generation = generation
        self.pid = 0
        self.handle = -1

    def kill(self) -> None:
        """End the process at once, and release it. Can be called twice."""
        if self.handle >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self.handle, signal.SIGKILL)
        elif self.pid > 0 and not sys.platform.startswith("linux"):
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)
        self.release()

    def release(self) -> None:
        """Close the socket, on which a child that listens ends by itself."""
        self.sock.close()
        handle, self.handle = self.handle, -1
        self.pid = 0
        if handle >= 0:
            os.close(handle)

    def wait_for_end(self, seconds: float) -> bool:
        """Return whether the process ends within that time."""
        if self.handle < 0:
            return False
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return bool(poll.poll(seconds * 1_000))


def _build_bytecode_options() -> list[str]:
    """Return options of Python for the bytecode cache that this process uses.

    A zygote that compiles all that it imports takes twice the time to start. It forgets the folder before the first
    program runs.
    """
    options = ["-B"] if sys.dont_write_bytecode else []
    return [*options, "-X", f"pycache_prefix={sys.pycache_prefix}"] if sys.pycache_prefix else options


@contextlib.contextmanager
def _fix_addresses() -> Iterator[None]:
    """Start processes of this thread with the same memory addresses each time, if the kernel allows that.

    Texts and orders that follow from addresses are then the same everywhere.
    """
    if not sys.platform.startswith("linux"):
        yield
        return
    personality = ctypes.CDLL(None).personality
    before = personality(ctypes.c_ulong(0xFFFFFFFF))
    personality(ctypes.c_ulong(before | _NO_RANDOM_ADDRESSES))
    try:
        yield
    finally:
        personality(ctypes.c_ulong(before))


class Zygote:
    """A running zygote. Not thread-safe: its owner holds a lock."""

    def __init__(self, namespaces: str, limits: Limits, generation: int) -> None:
        self.generation = generation
        self.waiting: collections.deque[Child] = collections.deque()
        ours, theirs = wire.make_socket_pair()
        wire.set_timeout(ours, _START_SECONDS)
        options = limits.model_dump() | {"namespaces": namespaces, "seed": DEFAULT_SEED, "now": DEFAULT_NOW}
        python = [sys.executable, "-P", "-s", "-S", *_build_bytecode_options()]
        command = [*python, str(_SCRIPT), json.dumps(options)]
        environment = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
        # Else the kernel keeps the number of the processor in the C library's memory, where programs could read it.
        environment["GLIBC_TUNABLES"] = "glibc.pthread.rseq=0"
        try:
            with _fix_addresses():
                self.process = subprocess.Popen(
                    command,
                    env=environment,
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            ours.close()
            raise SandboxUnavailable(f"The sandbox's process could not be started: {error}") from None
        finally:
            theirs.close()
        self.control = ours
        self.report = self._read_start_report()

    def _read_start_report(self) -> dict[str, Any]:
        try:
            report: dict[str, Any] = json.loads(wire.receive_frame(self.control, 1 << 20))
        except (wire.FrameError, ValueError) as error:
            self.close()
            raise SandboxUnavailable(f"The sandbox's process did not start: {error}") from None
        if "failed" in report:
            self.close()
            raise SandboxUnavailable(f"The sandbox cannot start here: {report['failed']}")
        wire.set_timeout(self.control, _ANSWER_SECONDS)
        return report

    def request(self) -> Child:
        """Ask for a child without waiting for it. Raise InfrastructureError if the zygote is gone."""
        ours, theirs = wire.make_socket_pair()
        child = Child(ours, self.generation)
        try:
            socket.send_fds(self.control, [b"\x01S"], [theirs.fileno()])
        except OSError as error:
            ours.close()
            raise InfrastructureError(f"The sandbox's process is gone: {error}") from None
        finally:
            theirs.close()
        self.waiting.append(child)
        return child

    def settle(self, child: Child) -> None:
        """Wait until the zygote has made this child. Raise InfrastructureError."""
        while child in self.waiting:
            self._take()
        if child.pid == 0:
            raise InfrastructureError("The sandbox could not start another process.")

    def status(self, pid: int) -> int | None:
        """Return the wait status of a child that ended, or None. Raise InfrastructureError."""
        while self.waiting:
            self._take()
        try:
            socket.send_fds(self.control, [b"\x01?" + pid.to_bytes(8, "big")], [])
        except OSError as error:
            raise InfrastructureError(f"The sandbox's process is gone: {error}") from None
        _, status, _ = self._answer()
        return status if status >= 0 else None

    def _take(self) -> None:
        """Match the next answer with the oldest waiting request. Raise InfrastructureError."""
        number, _, handles = self._answer()
        child = self.waiting.popleft()
        child.pid = number
        child.handle = handles[0] if handles else -1
        if not number:
            child.release()

    def _answer(self) -> tuple[int, int, list[int]]:
        """Return (the child's number or 0, how it ended or -1, handles). Raise InfrastructureError."""
        try:
            data, handles, _, _ = socket.recv_fds(self.control, _ANSWER_CAP, 1)
        except OSError as error:
            raise InfrastructureError(f"The sandbox's process does not answer: {error}") from None
        if len(data) != 17:
            raise InfrastructureError("The sandbox's process is gone.")
        for handle in handles:
            os.set_inheritable(handle, False)
        return int.from_bytes(data[1:9], "big"), int.from_bytes(data[9:], "big", signed=True), handles

    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        """End the zygote and everything below it."""
        self.control_close()
        try:
            self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def control_close(self) -> None:
        """Close the control socket, on which the zygote ends."""
        with contextlib.suppress(AttributeError):
            self.control.close()
        for child in self.waiting:
            child.release()
        self.waiting.clear()
