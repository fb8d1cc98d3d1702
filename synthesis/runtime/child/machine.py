"""What a program is told of the machine it runs on: the same everywhere, whatever the host is and does.

The kernel refuses the questions themselves (`syscalls`). The standard library answers them here, so that a program
that asks innocently goes on.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from typing import Any

from .virtual import CLOCK

NAME = "sandbox"
_SYSCONF = {"SC_PAGE_SIZE": 4096, "SC_PAGESIZE": 4096, "SC_CLK_TCK": 100, "SC_NPROCESSORS_ONLN": 1}
_SYSCONF["SC_NPROCESSORS_CONF"] = 1
_NUMBERS = ("getuid", "geteuid", "getgid", "getegid", "getpgrp")


def install() -> None:
    """Replace the questions in the modules that programs reach. Called last: the zygote asks them itself."""
    real = os.uname()
    uname = type(real)((real.sysname, NAME, "0", "0", real.machine))
    answers: dict[str, Any] = {
        "uname": lambda: uname,
        "cpu_count": lambda: 1,
        "sched_getaffinity": lambda pid: {0},
        "getloadavg": lambda: (0.0, 0.0, 0.0),
        "times": _times,
        "sysconf": _sysconf,
        "getresuid": lambda: (0, 0, 0),
        "getresgid": lambda: (0, 0, 0),
        "getgroups": list,
        "urandom": os.urandom,
        "getrandom": getattr(os, "getrandom", None),
        "getpid": os.getpid,
        "getppid": os.getppid,
    } | dict.fromkeys(_NUMBERS, lambda: 0)
    for module in (os, sys.modules[os.name]):
        for name, answer in answers.items():
            if hasattr(module, name):
                setattr(module, name, answer)
    for module in (socket, sys.modules["_socket"]):
        module.gethostname = lambda: NAME  # type: ignore[attr-defined]
    threading.main_thread()._native_id = 1  # type: ignore[attr-defined]


def _times() -> os.times_result:
    elapsed = CLOCK.elapsed() / 1e9
    return os.times_result((elapsed, 0.0, 0.0, 0.0, elapsed))


def _sysconf(name: Any) -> int:
    try:
        return _SYSCONF[name]
    except KeyError:
        raise OSError(1, "not told in a sandbox") from None
