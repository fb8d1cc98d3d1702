"""The tables of system calls against the kernel's headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from synthesis.runtime.child.syscalls import ALLOWED, CONTROL, FUTEX, MEMORY, ZERO, build_seccomp_filter

HEADERS = {
    0: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    1: Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("column", [0, 1], ids=["x86_64", "aarch64"])
def test_numbers(column: int) -> None:
    header = HEADERS[column]
    if not header.exists():
        pytest.skip(f"the kernel's headers are not installed ({header})")
    pairs = re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text(), re.MULTILINE)
    numbers = {name: int(number) for name, number in pairs}
    ours = {name: row[column] for name, row in (ALLOWED | ZERO | FUTEX | MEMORY | CONTROL).items()}
    assert {name: numbers.get(name) for name in ours} == ours


FORBIDDEN = (
    "open openat execve fork clone clone3 vfork socket connect kill tkill tgkill ptrace fcntl dup sendmsg recvmsg"
)

TELLING = (
    "clock_gettime clock_getres gettimeofday time times getrusage sysinfo uname getcpu sched_getaffinity poll ppoll "
    "nanosleep clock_nanosleep getitimer setitimer fstat getrandom rt_sigaction rseq set_tid_address"
)


def test_nothing_that_tells_time_or_use_of_the_host_is_allowed() -> None:
    assert not set(TELLING.split()) & set(ALLOWED)


def test_nothing_that_opens_starts_or_signals_is_allowed() -> None:
    assert not set(FORBIDDEN.split()) & set(ALLOWED)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filter_is_well_formed(machine: str) -> None:
    code = build_seccomp_filter(machine)
    assert len(code) % 8 == 0
    assert len(code) // 8 < 4096
    assert code[-8:] == build_seccomp_filter(machine)[-8:]
    assert code[-4:-2] == b"\x01\x00"
