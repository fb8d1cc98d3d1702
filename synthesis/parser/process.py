"""Start of the process that reads one file, and its results; it is ended if it exceeds a limit."""

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
    """Error of a file that needs more memory or time to be read than allowed."""


@dataclass(frozen=True)
class ReadLimits:
    """Limits of reading one file. Memory is the address space, of which the interpreter takes about 100 MiB."""

    memory_mib: int = 768
    cpu_s: int = 60
    wall_s: float = 180.0
    output_bytes: int = 64 << 20
    item_bytes: int = 4 << 20
    """Of what comes back: one item."""
    small_bytes: int = 64 << 10
    """A plain file of so few bytes costs no more than a few MiB, and is read here; of a packed one say 0."""


def read_in_process(
    function: str, file: IO[bytes], arguments: dict[str, Any] | None = None, limits: ReadLimits | None = None
) -> Iterator[Any]:
    """Yield the items of `function` ("package.module:name") for a file.

    It is called as `function(file, **arguments)` in a process of its own; all items have to be JSON. The file is read
    from its beginning, through its descriptor if it has one.

    Raise TooCostly; FormatError and InputError of the function; InfrastructureError if the process was lost.
    """
    limits = limits or ReadLimits()
    task_data = {"function": function, "arguments": arguments or {}, "parent": os.getpid()}
    task_data |= {"memory": limits.memory_mib << 20, "cpu": limits.cpu_s}
    with contextlib.ExitStack() as stack:
        if file.seek(0, os.SEEK_END) <= limits.small_bytes:
            file.seek(0)
            module, _, name = function.partition(":")
            yield from getattr(import_module(module), name)(file, **(arguments or {}))
            return
        source = stack.enter_context(_ensure_on_disk(file))
        # The kernel ends the child with the thread that started it: this one, which waits for it.
        child = subprocess.Popen(
            # It may write no file, so no bytecode either: a try would leave empty folders.
            [sys.executable, "-B", "-m", "synthesis.parser.child", json.dumps(task_data)],
            stdin=source,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", "MALLOC_ARENA_MAX": "1", "LANG": "C.UTF-8"},
        )
        stack.callback(_end_child, child)
        late = threading.Event()
        clock = threading.Timer(limits.wall_s, _stop_child, (child, late))
        clock.daemon = True
        clock.start()
        stack.callback(clock.cancel)
        yield from _read_items(child, limits, late)


def _read_items(child: subprocess.Popen[bytes], limits: ReadLimits, late: threading.Event) -> Iterator[Any]:
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
            raise _build_cost_error(f"{limits.memory_mib:,} MiB of memory")
        else:
            return
    code = child.wait()
    if late.is_set():
        raise _build_cost_error(f"{limits.wall_s:,.0f} s")
    if code == -signal.SIGXCPU:
        raise _build_cost_error(f"{limits.cpu_s:,} s of the processor")
    raise InfrastructureError(f"The process that read this file was lost (exit {code}). Try again.")


def _build_cost_error(what: str) -> TooCostly:
    return TooCostly(f"This file needs more than {what} to be read: split it.")


@contextlib.contextmanager
def _ensure_on_disk(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yield the file with a descriptor; one that is held in memory is written to a nameless file first."""
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


def _stop_child(child: subprocess.Popen[bytes], late: threading.Event) -> None:
    late.set()
    child.kill()


def _end_child(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    cast(IO[bytes], child.stdout).close()
