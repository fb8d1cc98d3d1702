"""Readers that take too much, for the process that reads one file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import IO, Any

from synthesis.errors import FormatError


def bytecode(file: IO[bytes]) -> Iterator[bool]:
    """Whether this process writes bytecode."""
    yield not sys.dont_write_bytecode


def size(file: IO[bytes]) -> Iterator[Any]:
    yield [len(file.read()), os.getpid()]


def task_lines(file: IO[bytes], name: str, most_bytes: int) -> Iterator[Any]:
    yield [str(os.getpid()), name, ""]


def memory(file: IO[bytes]) -> Iterator[Any]:
    yield "before"
    yield len([[] for _ in range(10**8)])


def processor(file: IO[bytes]) -> Iterator[Any]:
    while True:
        pass
    yield


def wait(file: IO[bytes]) -> Iterator[Any]:
    yield os.getpid()
    time.sleep(600)


def talk(file: IO[bytes]) -> Iterator[Any]:
    while True:
        yield "x" * 100_000


def refuse(file: IO[bytes], place: str) -> Iterator[Any]:
    raise FormatError(place, "is wrong")
    yield


def die(file: IO[bytes]) -> Iterator[Any]:
    os.kill(os.getpid(), 9)
    yield
