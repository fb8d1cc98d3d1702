"""Starts the process that reads one file, and hands on what it read; ends it where it takes too much of anything."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

from synthesis.errors import FormatError, InfrastructureError, InputError

ROOT = Path(__file__).resolve().parents[2]


class TooCostly(InputError):
    """A file that needs more memory or time to be read than is given to one."""


@dataclass(frozen=True)
class ReadLimits:
    """What reading one file may cost. Memory is the address space, of which the interpreter takes about 100 MiB."""

    memory_mib: int = 768
    cpu_s: int = 60
    wall_s: float = 180.0
    output_bytes: int = 64 << 20
    item_bytes: int = 4 << 20
    """Of what comes back: one item."""
    small_bytes: int = 64 << 10
    """A plain file of so few bytes costs no more than a few MiB, and is read here; of a packed one say 0."""


def read_apart(
    function: str, file: IO[bytes], arguments: dict[str, Any] | None = None, limits: ReadLimits | None = None
) -> Iterator[Any]:
    """What `function` ("package.module:name") yields of a file, called as `function(file, **arguments)` in a process of
    its own; all of it has to be JSON. The file is read from its beginning, through its descriptor where it has one.

    Raises TooCostly; FormatError, InputError: what the function raised; InfrastructureError: the process was lost.
    """
    limits = limits or ReadLimits()
    told = {"function": function, "arguments": arguments or {}, "parent": os.getpid()}
    told |= {"memory": limits.memory_mib << 20, "cpu": limits.cpu_s}
    with contextlib.ExitStack() as stack:
        if file.seek(0, os.SEEK_END) <= limits.small_bytes:
            file.seek(0)
            module, _, name = function.partition(":")
            yield from getattr(import_module(module), name)(file, **(arguments or {}))
            return
        source = stack.enter_context(_on_disk(file))
        # The kernel ends the child with the thread that started it: this one, which waits for it.
        child = subprocess.Popen(
            [sys.executable, "-m", "synthesis.parser.child", json.dumps(told)],
            stdin=source,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "1", "LANG": "C.UTF-8"},
        )
        stack.callback(_end, child)
        late = threading.Event()
        clock = threading.Timer(limits.wall_s, _stop, (child, late))
        clock.daemon = True
        clock.start()
        stack.callback(clock.cancel)
        yield from _items(child, limits, late)


def _items(child: subprocess.Popen[bytes], limits: ReadLimits, late: threading.Event) -> Iterator[Any]:
    size = 0
    out = cast(IO[bytes], child.stdout)
    while line := out.readline(limits.item_bytes + 1):
        size += len(line)
        if len(line) > limits.item_bytes:
            raise TooCostly(f"One record of this file takes more than {limits.item_bytes >> 20} MiB: leave it out.")
        if size > limits.output_bytes:
            raise TooCostly(f"What is in this file takes more than {limits.output_bytes >> 20} MiB: split it.")
        if not line.endswith(b"\n") or line == b"\n":
            continue
        kind, *rest = json.loads(line)
        if kind == "item":
            yield rest[0]
        elif kind == "refused":
            raise FormatError(*rest) if rest[0] else InputError(rest[1])
        elif kind == "memory":
            raise _too_much(f"{limits.memory_mib:,} MiB of memory")
        else:
            return
    code = child.wait()
    if late.is_set():
        raise _too_much(f"{limits.wall_s:,.0f} s")
    if code == -signal.SIGXCPU:
        raise _too_much(f"{limits.cpu_s:,} s of the processor")
    raise InfrastructureError(f"The process that read this file was lost (exit {code}). Try again.")


def _too_much(what: str) -> TooCostly:
    return TooCostly(f"This file needs more than {what} to be read: split it.")


@contextlib.contextmanager
def _on_disk(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The file with a descriptor; one that is held in memory is written to a nameless file first."""
    try:
        file.flush()
        file.fileno()
    except (OSError, AttributeError):
        with tempfile.TemporaryFile() as copy:
            file.seek(0)
            shutil.copyfileobj(file, copy)
            copy.flush()
            yield copy
    else:
        yield file


def _stop(child: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    child.kill()


def _end(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    cast(IO[bytes], child.stdout).close()
