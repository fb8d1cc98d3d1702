"""System call numbers and the seccomp filter of a sandboxed process.

This project runs on x86_64. The aarch64 numbers come from the kernel's generic table and are checked against its header
by a test; a child on aarch64 itself has not been run.
"""

from __future__ import annotations

import errno
import struct

AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64); None if the architecture has no such call
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "lseek": (8, 62),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "shutdown": (48, 210),
    "exit": (60, 93),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "exit_group": (231, 94),
}
"""Calls a child may make: its memory, its end, and the socket it already holds. Nothing that opens, connects,
duplicates, signals or starts anything; `fcntl` is out because it can aim SIGIO at a neighbour. Nothing that tells
the time, how long something took (`poll` writes down what is left of its wait, `setitimer` signals), how much the
host or a neighbour uses (`sysinfo`, `getcpu`), or when a descriptor was touched (`fstat`); nothing random."""

ZERO: dict[str, tuple[int, int]] = {
    "getpid": (39, 172),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "getppid": (110, 173),
    "gettid": (186, 178),
}
"""Answered with 0: the C library does not expect them to fail, and the numbers say how many children came before."""

FUTEX = {"futex": (202, 98)}
"""Allowed without a time limit. With one, the wait is over at once: nobody else could end it."""

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
_TIME_LIMIT = 3


def get_table_column(machine: str) -> int:
    """Return the column of this machine in the tables. Raise KeyError if it has none."""
    return {"x86_64": 0, "aarch64": 1}[machine]


def build_seccomp_filter(machine: str) -> bytes:
    """Build the filter as BPF instructions: a foreign architecture kills, an unlisted call fails with EPERM."""
    which = get_table_column(machine)
    program: list[bytes] = []

    def emit_instruction(code: int, operand: int, if_true: int = 0, if_false: int = 0) -> None:
        program.append(struct.pack("HBBI", code, if_true, if_false, operand))

    def forbid_bits(argument: int, bits: int) -> None:
        emit_instruction(_LOAD, _ARGUMENTS + 8 * argument)
        emit_instruction(_ANY_BIT, bits, 0, 1)
        emit_instruction(_RETURN, _ERROR | errno.EPERM)

    emit_instruction(_LOAD, _ARCH)
    emit_instruction(_EQUAL, AUDIT_ARCH[machine], 1, 0)
    emit_instruction(_RETURN, _KILL)
    emit_instruction(_LOAD, _NUMBER)
    for numbers in ALLOWED.values():
        number = numbers[which]
        if number is not None:
            emit_instruction(_EQUAL, number, 0, 1)
            emit_instruction(_RETURN, _ALLOW)
    for number in (row[which] for row in ZERO.values()):
        emit_instruction(_EQUAL, number, 0, 1)
        emit_instruction(_RETURN, _ERROR)
    emit_instruction(_EQUAL, FUTEX["futex"][which], 0, 6)
    emit_instruction(_LOAD, _ARGUMENTS + 8 * _TIME_LIMIT)
    emit_instruction(_EQUAL, 0, 0, 3)
    emit_instruction(_LOAD, _ARGUMENTS + 8 * _TIME_LIMIT + 4)
    emit_instruction(_EQUAL, 0, 0, 1)
    emit_instruction(_RETURN, _ALLOW)
    emit_instruction(_RETURN, _ERROR | errno.ETIMEDOUT)
    emit_instruction(_EQUAL, MEMORY["mmap"][which], 0, 7)
    forbid_bits(2, _PROT_EXEC)
    forbid_bits(3, _MAP_SHARED)
    emit_instruction(_RETURN, _ALLOW)
    emit_instruction(_EQUAL, MEMORY["mprotect"][which], 0, 4)
    forbid_bits(2, _PROT_EXEC)
    emit_instruction(_RETURN, _ALLOW)
    emit_instruction(_RETURN, _ERROR | errno.EPERM)
    return b"".join(program)
