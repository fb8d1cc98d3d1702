"""System call numbers and the seccomp filter of a sandboxed process.

x86_64 is what this project is run on. The aarch64 numbers come from the kernel's generic table and are checked
against its header by a test; a child on aarch64 itself has not been run.
"""

from __future__ import annotations

import errno
import struct

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64); None where the architecture has no such call
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "poll": (7, None),
    "lseek": (8, 62),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "getitimer": (36, 102),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "shutdown": (48, 210),
    "exit": (60, 93),
    "uname": (63, 160),
    "gettimeofday": (96, 169),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "getppid": (110, 173),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "time": (201, None),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "set_tid_address": (218, 96),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "ppoll": (271, 73),
    "set_robust_list": (273, 99),
    "getcpu": (309, 168),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "rseq": (334, 293),
}
"""Calls a child may make: its memory, its clock, its end, and the socket it already holds. Nothing that opens,
connects, duplicates, signals or starts anything; `fcntl` is out because it can aim SIGIO at a neighbour."""

MEMORY: dict[str, tuple[int, int]] = {"mmap": (9, 222), "mprotect": (10, 226)}
"""Allowed unless they ask for executable or shared memory."""

CONTROL: dict[str, tuple[int, int]] = {
    "pivot_root": (155, 41),
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}
"""Calls the zygote makes by number while it builds the jail."""

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16
_PROT_EXEC, _MAP_SHARED = 4, 1


def column(machine: str) -> int:
    """The column of this machine in the tables. Raises KeyError where there is none."""
    return {"x86_64": 0, "aarch64": 1}[machine]


def seccomp_filter(machine: str) -> bytes:
    """The filter as BPF instructions: a foreign architecture kills, an unlisted call fails with EPERM."""
    which = column(machine)
    program: list[bytes] = []

    def emit(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> None:
        program.append(struct.pack("HBBI", code, if_true, if_false, operand))

    def forbid_bits(argument: int, bits: int) -> None:
        emit(_LOAD, _ARGUMENTS + 8 * argument)
        emit(_ANY_BIT, bits, 0, 1)
        emit(_RETURN, _ERROR | errno.EPERM)

    emit(_LOAD, _ARCH)
    emit(_EQUAL, AUDIT_ARCH[machine], 1, 0)
    emit(_RETURN, _KILL)
    emit(_LOAD, _NUMBER)
    for numbers in ALLOWED.values():
        number = numbers[which]
        if number is not None:
            emit(_EQUAL, number, 0, 1)
            emit(_RETURN, _ALLOW)
    emit(_EQUAL, MEMORY["mmap"][which], 0, 7)
    forbid_bits(2, _PROT_EXEC)
    forbid_bits(3, _MAP_SHARED)
    emit(_RETURN, _ALLOW)
    emit(_EQUAL, MEMORY["mprotect"][which], 0, 4)
    forbid_bits(2, _PROT_EXEC)
    emit(_RETURN, _ALLOW)
    emit(_RETURN, _ERROR | errno.EPERM)
    return b"".join(program)
