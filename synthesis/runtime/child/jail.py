"""The layers around a sandboxed process: namespaces once in the zygote, everything else in each child."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from typing import Any

from . import syscalls

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = (
    0x20000,
    0x4000000,
    0x8000000,
    0x10000000,
    0x20000000,
    0x40000000,
)
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x4000, 0x40000, 2
_FIXED = 0x0040000
_CAP_SETGID, _CAP_SETUID = 6, 7
_LANDLOCK_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}

_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class JailError(Exception):
    """A required layer could not be built."""


def _build_os_error(what: str) -> JailError:
    number = ctypes.get_errno()
    return JailError(f"{what}: {os.strerror(number)}")


def _call_kernel(name: str, *arguments: Any) -> int:
    return int(_libc.syscall(ctypes.c_long(_get_syscall_number(name)), *arguments))


def _get_syscall_number(name: str) -> int:
    return syscalls.CONTROL[name][syscalls.get_table_column(os.uname().machine)]


class _Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


class _CapHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def read_capabilities() -> int:
    """Return the effective capabilities of this process as a bit set."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("CapEff:"):
                return int(line.split()[1], 16)
    return 0


def count_mapped_ids() -> int:
    """Return the number of user ids, counted from 0, that exist in this user namespace."""
    try:
        with open("/proc/self/uid_map") as table:
            first, _, count = (int(part) for part in table.readline().split())
    except (OSError, ValueError):
        return 0
    return count if first == 0 else 0


def has_fixed_addresses() -> bool:
    """Return whether the kernel gives every process of this program the same addresses (the host asks for it:
    `process`)."""
    return sys.platform.startswith("linux") and bool(_libc.personality(ctypes.c_ulong(0xFFFFFFFF)) & _FIXED)


def enter_namespaces() -> None:
    """Unshare user (unless root), mount, pid, net, ipc and uts. Raise JailError if that is not granted.

    The pid namespace begins with the next child: the caller forks and continues there.
    """
    flags = _NEWNS | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(flags if uid == 0 else flags | _NEWUSER) != 0:
        raise _build_os_error("unshare")
    if uid != 0:
        try:
            for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
                with open(f"/proc/self/{name}", "w") as table:
                    table.write(text)
        except OSError as error:
            raise JailError(f"the user namespace could not be mapped: {error}") from None
    _libc.sethostname(b"sandbox", ctypes.c_size_t(7))
    _libc.setdomainname(b"", ctypes.c_size_t(0))


def mount_empty_root() -> None:
    """Make an empty read-only tmpfs the root of this mount namespace. Raise JailError."""
    if _libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) != 0:
        raise _build_os_error("mount / private")
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    # Any directory serves as the mount point: nothing outside this namespace sees it.
    place = b"/tmp" if os.path.isdir("/tmp") else b"/proc"
    if _libc.mount(b"tmpfs", place, b"tmpfs", flags, b"size=4k,mode=555") != 0:
        raise _build_os_error("mount tmpfs")
    os.chdir(place)
    if _call_kernel("pivot_root", b".", b".") != 0 or _libc.umount2(b".", _MNT_DETACH) != 0:
        raise _build_os_error("pivot_root")
    os.chdir("/")
    if _libc.mount(None, b"/", None, _MS_REMOUNT | _MS_RDONLY | flags, None) != 0 or os.listdir("/"):
        raise _build_os_error("remount read-only")


class Jail:
    """The values that each child needs to lock itself in, computed once in the zygote."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.reduced = not sys.platform.startswith("linux")
        self.memory = int(options["memory_mib"]) << 20
        self.cpu_seconds = int(options["cpu_seconds"])
        self.first_uid = 0
        self.landlock_abi = 0
        self.parent = 0
        if self.reduced:
            return
        machine = os.uname().machine
        if machine not in syscalls.AUDIT_ARCH:
            raise JailError(f"there is no system call table for {machine}")
        code = syscalls.build_seccomp_filter(machine)
        self._code = ctypes.create_string_buffer(code, len(code))
        self._filter = _Filter(len(code) // 8, ctypes.addressof(self._code))
        with open("/proc/self/statm") as statm:
            self.base = int(statm.read().split()[0]) * resource.getpagesize()
        needed_capabilities = 1 << _CAP_SETUID | 1 << _CAP_SETGID
        if os.geteuid() == 0 and read_capabilities() & needed_capabilities == needed_capabilities:
            ids = count_mapped_ids()
            self.first_uid = 1_879_048_192 if ids > 2_000_000_000 else (20_000 if ids >= 60_000 else 0)
        create = _call_kernel("landlock_create_ruleset", None, ctypes.c_size_t(0), ctypes.c_uint(1))
        self.landlock_abi = max(0, create)

    def begin(self) -> None:
        """Prepare every step of a child's locking in, in the process that will be the parent of all children.

        The steps are prepared as calls of the C library with their arguments, because each Python object that a child
        is the first to touch costs it a page of its own.
        """
        self.parent = int(_libc.getpid())
        self.ruleset = self._make_ruleset()
        self.before: list[tuple[Any, tuple[Any, ...]]] = list(self._limits())
        self.after: list[tuple[Any, tuple[Any, ...]]] = []
        if self.reduced:
            return
        prctl = _libc.prctl
        header = ctypes.pointer(_CapHeader(0x20080522, 0))
        self._keep = (header, (ctypes.c_uint32 * 6)())
        self.after = [
            # After the uid changed, which clears it. The zygote has one thread, so this fires when it ends.
            (prctl, (_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)),
            (_libc.capset, (header, self._keep[1])),
            (prctl, (_PR_SET_DUMPABLE, 0, 0, 0, 0)),
            (prctl, (_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)),
        ]
        self.last = [(prctl, (_PR_SET_SECCOMP, 2, ctypes.pointer(self._filter), 0, 0))]
        self._getpid, self._getppid, self._close = _libc.getpid, _libc.getppid, _libc.close
        self._setgroups, self._setresgid, self._setresuid = _libc.setgroups, _libc.setresgid, _libc.setresuid
        self._restrict = (_libc.syscall, ctypes.c_long(_get_syscall_number("landlock_restrict_self")), ctypes.c_uint(0))

    def layers(self) -> dict[str, bool]:
        """Return which layers every child gets; a child in which one of them fails ends."""
        linux = not self.reduced
        return {"limits": True, "seccomp": linux, "landlock": self.ruleset >= 0, "uid": bool(self.first_uid)}

    def lock(self, keep_fd: int) -> None:
        """Lock this process in for good, keeping one descriptor. Raise JailError."""
        ruleset = self.ruleset
        for first, last in sorted(((3, keep_fd), (keep_fd + 1, 256))):
            if first <= ruleset < last:
                os.closerange(first, ruleset)
                os.closerange(ruleset + 1, last)
            else:
                os.closerange(first, last)
        self._run(self.before)
        if self.reduced:
            return
        if self.first_uid:
            uid = self.first_uid + self._getpid() % 40_000
            if self._setgroups(0, None) or self._setresgid(uid, uid, uid) or self._setresuid(uid, uid, uid):
                raise _build_os_error("taking a user id of its own")
        self._run(self.after)
        if self._getppid() != self.parent:
            os._exit(0)
        self.parent = 0
        if ruleset >= 0:
            call, number, flags = self._restrict
            if call(number, ruleset, flags) != 0:
                raise _build_os_error("landlock")
            self._close(ruleset)
        self._run(self.last)

    def _run(self, steps: list[tuple[Any, tuple[Any, ...]]]) -> None:
        for call, arguments in steps:
            if call(*arguments) != 0:
                raise _build_os_error("locking in")

    def _limits(self) -> Iterator[tuple[Any, tuple[Any, ...]]]:
        cpu = self.cpu_seconds
        bounds = {"CPU": (cpu, cpu + 1), "FSIZE": (0, 0), "CORE": (0, 0), "NOFILE": (16, 16)}
        if not self.reduced:
            space = self.base + self.memory
            bounds |= {"AS": (space, space), "NPROC": (0, 0), "MEMLOCK": (0, 0), "MSGQUEUE": (0, 0)}
        for name, bound in bounds.items():
            which = getattr(resource, "RLIMIT_" + name)
            most = resource.getrlimit(which)[1]
            soft, hard = (min(value, most) if most >= 0 else value for value in bound)
            yield _libc.setrlimit, (which, ctypes.pointer((ctypes.c_ulong * 2)(soft, hard)))

    def _make_ruleset(self) -> int:
        abi = self.landlock_abi
        if abi < 1:
            return -1
        rights = (1 << (16 if abi >= 5 else _LANDLOCK_FILE_RIGHTS[abi])) - 1
        attributes = struct.pack("QQQ", rights, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
        attributes = attributes[: 8 if abi < 4 else 16 if abi < 6 else 24]
        size = ctypes.c_size_t(len(attributes))
        return max(-1, _call_kernel("landlock_create_ruleset", attributes, size, ctypes.c_uint(0)))


def _list_forbidden_actions() -> dict[str, Callable[[], Any]]:
    return {
        "read a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
        "list a folder": lambda: os.listdir("/"),
        "open a socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM),
        "signal a process": lambda: os.kill(os.getppid(), 0),
        "start a process": _fork_process,
        "read the real clock": _read_real_clock,
    }


def _fork_process() -> None:
    if os.fork() == 0:
        os._exit(0)


def _read_real_clock() -> None:
    moment = (ctypes.c_long * 2)()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.clock_gettime(1, moment) != 0:
        raise OSError(ctypes.get_errno(), "")


def probe_jail() -> dict[str, str]:
    """Return the error of each forbidden action that was tried; an empty text means that it worked."""
    outcome = {}
    for name, attempt in _list_forbidden_actions().items():
        try:
            attempt()
            outcome[name] = ""
        except OSError as error:
            outcome[name] = type(error).__name__
    return outcome
