"""The zygote: a small trusted process that imports the modules for programs, and forks locked-in children.

Run by path, with an empty environment: `python -P -s -S zygote.py CONTROL_FD OPTIONS`. It never runs a program and
never reads from a child. Each request on the control socket is one frame with one descriptor, the child's end of a
socket; the answer carries the child's number and a descriptor of its process. End of file on the control socket ends
the zygote and all its children.

Its children are alike: the zygote's records of earlier children (how they ended) are in memory that no child gets, and
none of its frames is on a child's stack (`bare_stack`).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import contextlib
import ctypes
import gc
import json
import mmap
import os
import signal
import socket
import struct
import sys
import types
from collections.abc import Iterator
from typing import Any

if __name__ == "__main__":
    # A package made by hand: the host's packages, with what they import, stay outside.
    _package = types.ModuleType("envbox")
    _package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
    sys.modules["envbox"] = _package
    __package__ = "envbox"

from . import names  # noqa: F401  # isort: skip

from . import bare_stack, density, machine, preload, vdso, virtual, warm, wire, worker
from . import jail as jails

_REMEMBERED = 1_024
_ENDING = struct.Struct("qq")
_CONTROL = 3
"""The descriptor of the control socket, whichever it was given as."""
_REQUEST = 64
_REHEARSED = 12
_NOBODY, _CLOSED = -1, -2
_GARBAGE = 100_000
# Past `signal` itself, which makes enumeration members of everything: that writes to pages at each fork.
_CHILD = (int(signal.SIGCHLD),)
_BLOCK, _UNBLOCK = int(signal.SIG_BLOCK), int(signal.SIG_UNBLOCK)
_set_mask, _set_handler = _signal.pthread_sigmask, _signal.signal
_SOL_SOCKET, _SCM_RIGHTS, _ATTACHED = int(socket.SOL_SOCKET), int(socket.SCM_RIGHTS), socket.CMSG_SPACE(4 * 4)
_AF_UNIX, _KIND = int(socket.AF_UNIX), int(wire.SOCKET_TYPE)
_HANDLES = hasattr(os, "pidfd_open")


_fork_now: Any = ctypes.PyDLL(None, use_errno=True).fork


def _fork_child() -> int:
    """Fork by the C library, without Python's hooks for threads, of which there are none here.

    Those hooks (`threading`, `logging`, `random`) write to 200 shared pages in each child.
    """
    if not sys.platform.startswith("linux"):
        return os.fork()
    pid = int(_fork_now())
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return pid


def _parse_descriptors(data: bytes) -> list[int]:
    """Parse descriptors from ancillary data. `socket.recv_fds` makes an array of them, on pages that children would
    share."""
    return [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data) // 4 * 4, 4)]


def _raise_oom_score() -> None:
    # When memory runs out, the kernel should take a child before the database.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("900")


def _enter_namespaces(namespaces: str, control: socket.socket) -> tuple[bool, str]:
    """Continue in a new set of namespaces, as its first process. The current process remains as a waiting parent."""
    if namespaces == "off" or not sys.platform.startswith("linux"):
        return False, "not asked for"
    try:
        jails.enter_namespaces()
    except jails.JailError as error:
        return False, str(error)
    child = os.fork()
    if child:
        control.close()
        with contextlib.suppress(OSError):
            os.waitpid(child, 0)
        os._exit(0)
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)
    try:
        jails.mount_empty_root()
    except (jails.JailError, OSError) as error:
        return True, f"without an empty root: {error}"
    return True, "empty root"


class Endings:
    """Exit statuses of the last children, by their numbers: kept out of the memory that children get."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, _REMEMBERED * _ENDING.size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_DONTFORK"):
            self.memory.madvise(mmap.MADV_DONTFORK)

    def keep(self, pid: int, status: int) -> None:
        _ENDING.pack_into(self.memory, pid % _REMEMBERED * _ENDING.size, pid, status)

    def status(self, pid: int) -> int:
        kept, status = _ENDING.unpack_from(self.memory, pid % _REMEMBERED * _ENDING.size)
        return int(status) if kept == pid else -1


class Zygote:
    """The server of requests for children, until the control socket closes."""

    def __init__(self, control: socket.socket, options: dict[str, Any]) -> None:
        self.control = control
        self.options = options
        self.modules = frozenset(preload.ALLOWED_MODULES)
        virtual.install_virtual_sources()
        warm.rehearse_episodes(options)
        preload.close_imports()
        machine.remove_paths()
        _raise_oom_score()
        gc.collect()
        density.fill_holes()
        self.jail = jails.Jail(options)
        # Must come before `_enter_namespaces`, after which there is no /proc to find them by.
        self.clocks = vdso.remove_clocks()
        self.inside, self.detail = _enter_namespaces(options["namespaces"], control)
        if options["namespaces"] == "required" and not self.inside:
            raise jails.JailError(f"no namespaces: {self.detail}")
        self.jail.begin()
        machine.install_machine()
        virtual.prepare_episode(options["seed"], options["now"])
        self.endings = Endings()
        self.reaping = self.again = False

    def report(self) -> dict[str, Any]:
        return {
            "namespaces": self.inside,
            "detail": self.detail,
            "layers": self.jail.layers(),
            "landlock_abi": self.jail.landlock_abi,
            "reduced": self.jail.reduced,
            "modules": sorted(self.modules),
            "clocks": self.clocks,
            "addresses": jails.has_fixed_addresses(),
        }

    def serve(self) -> int:
        """Fork children until the control socket closes, which ends this process.

        It returns in a child only, with the child's descriptor.
        """
        signal.signal(signal.SIGCHLD, lambda *_: self.reap())
        report = json.dumps(self.report()).encode()
        self._rehearse()
        gc.collect()
        # Once more: objects freed since then left holes again.
        density.fill_holes()
        gc.freeze()
        gc.disable()
        # The collector runs between calls (`worker`); within one only if it makes very many objects.
        gc.set_threshold(_GARBAGE)
        wire.send_frame(self.control, report)
        while True:
            try:
                child = self._serve_next()
            except OSError:
                break
            if child >= 0:
                return child
            if child == _CLOSED:
                break
        # Its children end with it: by a signal that each asked for, or because their sockets close.
        os._exit(0)

    def _rehearse(self) -> None:
        """Fork a few children that end at once.

        The first forks change memory, by which the first real children could be distinguished from later ones.
        """
        control, (host, self.control) = self.control, wire.make_socket_pair()
        for _ in range(_REHEARSED):
            socket.send_fds(host, [b"\x01S"], [host.fileno()])
            if self._serve_next() >= 0:
                os._exit(0)
            number = host.recv(_REQUEST)[1:9]
            while self.endings.status(int.from_bytes(number, "big")) < 0:
                signal.sigtimedwait((), 0.001)
            host.send(b"\x01?" + number)
            self._serve_next()
            host.recv(_REQUEST)
        host.close()
        self.control.close()
        self.control = control

    def _serve_next(self) -> int:
        """Serve the next request: return `_NOBODY` or `_CLOSED`, or in a child its descriptor."""
        data, attached, _, _ = self.control.recvmsg(_REQUEST, _ATTACHED)
        if not data:
            return _CLOSED
        return self._request(data, [number for _, _, numbers in attached for number in _parse_descriptors(numbers)])

    def _request(self, data: bytes, descriptors: list[int]) -> int:
        """Serve one request: `S` with a socket for a child, or `?` and a number for how that child ended.

        Return `_NOBODY`, or in the child its descriptor. The answer is two numbers of eight bytes. It is short because
        each page that the zygote writes to between two forks cannot be shared by children.
        """
        number, handle, status = 0, -1, -1
        # A child that ends at once must not be reaped before there is a handle on it.
        _set_mask(_BLOCK, _CHILD)
        try:
            if data[1:2] == b"S" and len(descriptors) == 1:
                number = _fork_child()
                if number == 0:
                    return descriptors[0]
                handle = os.pidfd_open(number) if _HANDLES else -1
            elif data[1:2] == b"?" and len(data) == 10:
                self.reap()
                number = int.from_bytes(data[2:], "big")
                status = self.endings.status(number)
        except OSError:
            number = 0
        _set_mask(_UNBLOCK, _CHILD)
        for descriptor in descriptors:
            os.close(descriptor)
        answer = b"\x01" + number.to_bytes(8, "big") + status.to_bytes(8, "big", signed=True)
        if handle < 0:
            self.control.send(answer)
            return _NOBODY
        attached = (_SOL_SOCKET, _SCM_RIGHTS, handle.to_bytes(4, sys.byteorder))
        self.control.sendmsg((answer,), (attached,))
        os.close(handle)
        return _NOBODY

    def reap(self) -> None:
        """Collect the children that ended, for whatever reason.

        Called from the handler of SIGCHLD too, which may interrupt this very method: then the outer call repeats, since
        the records must not change under it.
        """
        self.again = True
        if self.reaping:
            return
        self.reaping = True
        while self.again:
            self.again = False
            self._collect()
        self.reaping = False

    def _collect(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except OSError:
                return
            if pid == 0:
                return
            self.endings.keep(pid, status)


def _iterate_work(zygote: Zygote, outcomes: bare_stack.Outcomes) -> Iterator[bare_stack.Work]:
    """Yield all further work: in the zygote its service, and in each child the requests of the host."""
    descriptor = zygote.serve()
    control, options, jail = zygote.control, zygote.options, zygote.jail
    density.keep_alive(zygote)
    del zygote
    sock: Any = _socket.socket(_AF_UNIX, _KIND, 0, descriptor)
    try:
        _set_handler(_CHILD[0], _signal.SIG_DFL)
        _set_mask(_UNBLOCK, _CHILD)
        control.detach()
        jail.lock(descriptor)
        del control, jail, descriptor
        density.fill_touched_holes()
        gc.enable()
        sock.send(b"\x01ready") if not wire.STREAM else wire.send_frame(sock, b"ready")
        yield from worker.Worker(sock, options, outcomes).serve()
    except BaseException as error:
        with contextlib.suppress(BaseException):
            wire.send_frame(sock, f"{type(error).__name__}: {error}"[:500].encode())
    finally:
        os._exit(0)


def _open_control_socket(number: int) -> socket.socket:
    if number != _CONTROL:
        os.dup2(number, _CONTROL)
        os.close(number)
    return socket.socket(fileno=_CONTROL)


def _take_standard_input() -> int:
    """Return the control socket, which arrives as standard input.

    So it has the same number in every zygote: numbers of one digit and of several have different addresses in memory.
    Standard input is then replaced by the null device.
    """
    control = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return control


def _close_restart_mark() -> bool:
    """Return whether this process restarted itself: then it has left its control socket open twice."""
    try:
        os.close(_CONTROL)
    except OSError:
        return False
    return True


def main() -> None:
    """Start and report the active layers; the remaining work runs after this script has ended.

    A failure to start is reported on the control socket.
    """
    restarted = _close_restart_mark()
    control = _open_control_socket(_take_standard_input())
    try:
        preload.import_allowed_modules()
        # Called in each case, since the check itself changes memory.
        if preload.has_new_bytecode() and not restarted:
            os.dup2(_CONTROL, 0)
            os.set_inheritable(_CONTROL, True)
            os.execv(sys.orig_argv[0], sys.orig_argv)
        zygote = Zygote(control, json.loads(sys.argv[1]))
    except Exception as error:
        with contextlib.suppress(wire.FrameError):
            wire.send_frame(control, json.dumps({"failed": str(error)}).encode())
        os._exit(1)
    outcomes: bare_stack.Outcomes = []
    bare_stack.begin_at_exit(_iterate_work(zygote, outcomes), outcomes)


if __name__ == "__main__":
    main()
