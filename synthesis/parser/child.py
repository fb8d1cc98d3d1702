"""Process that reads one file: `python -m synthesis.parser.child TASK`, the file at its standard input.

It answers with lines of JSON: `["item", value]` each, then `["end"]`; or `["refused", place, reason]`, `["memory"]`.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from typing import Any


def main(task: str) -> None:
    task_data = json.loads(task)
    if not _set_limits(task_data):
        return
    out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    sys.stdout = sys.stderr
    try:
        _read_items(task_data, out)
    except MemoryError:
        answer: list[Any] = ["memory"]
    else:
        answer = ["end"]
    # The newline first: a partial line from above must not merge with this answer.
    out.write(f"\n{json.dumps(answer)}\n")
    out.flush()


def _read_items(told: dict[str, Any], out: Any) -> None:
    from synthesis.errors import FormatError, InputError

    module, _, name = str(told["function"]).partition(":")
    function = getattr(importlib.import_module(module), name)
    try:
        with open(0, "rb", closefd=False) as file:
            file.seek(0)
            for item in function(file, **told["arguments"]):
                out.write(f"{json.dumps(['item', item])}\n")
                out.flush()
    except FormatError as error:
        out.write(f"{json.dumps(['refused', error.place, error.reason])}\n")
    except InputError as error:
        out.write(f"{json.dumps(['refused', '', str(error)])}\n")


def _set_limits(told: dict[str, Any]) -> bool:
    """Set the limits; return False if the parent process is already gone."""
    memory, cpu = int(told["memory"]), int(told["cpu"])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform.startswith("linux"):
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
    with contextlib.suppress(OSError):
        os.nice(5)  # pages come first
    return os.getppid() == int(told["parent"])


if __name__ == "__main__":
    main(sys.argv[1])
