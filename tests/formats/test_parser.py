"""The process that reads one file: what it takes too much of ends it with a sentence, and its asker goes on."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from typing import Any

import psutil
import pytest

from synthesis.errors import FormatError, InfrastructureError
from synthesis.parser import ReadLimits, TooCostly, read_in_process
from tests.fixtures.processes import ROOT, wait_for

CLOSE = ReadLimits(memory_mib=256, cpu_s=1, wall_s=30, output_bytes=1 << 20, small_bytes=0)


def read(name: str, limits: ReadLimits = CLOSE, **arguments: Any) -> list[Any]:
    return list(read_in_process(f"tests.formats.greedy:{name}", io.BytesIO(b"12345"), arguments, limits))


def test_a_file_is_read_elsewhere_and_a_small_plain_one_here() -> None:
    (size, pid), (small, here) = read("size")[0], read("size", ReadLimits())[0]
    assert (size, small, here) == (5, 5, os.getpid())
    assert pid != here


@pytest.mark.parametrize(
    ("name", "limits", "said"),
    [
        ("memory", ReadLimits(memory_mib=256, small_bytes=0), "needs more than 256 MiB of memory to be read: split it"),
        ("processor", CLOSE, "needs more than 1 s of the processor"),
        ("wait", ReadLimits(wall_s=2, small_bytes=0), "needs more than 2 s to be read"),
        ("talk", CLOSE, "takes more than 1 MiB"),
    ],
)
def test_what_takes_too_much_is_ended_and_says_of_what(name: str, limits: ReadLimits, said: str) -> None:
    with pytest.raises(TooCostly, match=said):
        read(name, limits)
    assert not [child for child in psutil.Process().children() if "synthesis.parser.child" in child.cmdline()]


def test_the_process_tries_to_write_no_bytecode() -> None:
    """It may write no file, so each try left an empty folder: a sandbox that started after it lay otherwise in memory
    than the one before."""
    assert read("bytecode") == [False]


def test_a_refusal_keeps_its_place_and_a_lost_process_is_no_refusal() -> None:
    with pytest.raises(FormatError) as refused:
        read("refuse", place="line 7")
    assert (refused.value.place, refused.value.reason) == ("line 7", "is wrong")
    with pytest.raises(InfrastructureError, match="was lost"):
        read("die")


def test_it_ends_with_the_process_that_asked() -> None:
    asks = (
        "import io; from synthesis.parser import ReadLimits, read_in_process\n"
        "for item in read_in_process('tests.formats.greedy:wait', io.BytesIO(b'1'), {}, ReadLimits(small_bytes=0)):\n"
        "    print(item, flush=True)\n"
    )
    asker = subprocess.Popen([sys.executable, "-c", asks], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert asker.stdout is not None
    with asker, asker.stdout:
        pid = int(asker.stdout.readline())
        asker.send_signal(signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(pid), what="the reader's end")
