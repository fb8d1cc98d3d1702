"""What a program is told of the machine it runs on: the same everywhere, whatever the host is and does.

Where Python is installed and how it was started is forgotten (`remove_paths`): a state must not depend on it. The
kernel refuses the questions themselves (`syscalls`). The standard library answers them here, so that a program that
asks innocently goes on.
"""

from __future__ import annotations

import _imp
import gc
import linecache
import logging
import os
import platform
import socket
import sys
import threading
import types
import zoneinfo
from typing import Any

from .virtual import CLOCK

NAME = "sandbox"
_SYSCONF = {"SC_PAGE_SIZE": 4096, "SC_PAGESIZE": 4096, "SC_CLK_TCK": 100, "SC_NPROCESSORS_ONLN": 1}
_SYSCONF["SC_NPROCESSORS_CONF"] = 1
_ABOUT_THE_HOST = frozenset(("site", "sitecustomize", "sysconfig", "usercustomize"))
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


def remove_paths() -> None:
    """Take the host's folders out of this process: out of `sys`, modules, and the code that tracebacks name. Last of
    all that the zygote does by itself: afterwards nothing can be imported."""
    for name, value in list(vars(sys).items()):
        if isinstance(value, str) and value.startswith("/"):
            setattr(sys, name, "")
    sys.argv[:] = [""]
    for name in [name for name in sys.modules if name in _ABOUT_THE_HOST or name.startswith("_sysconfigdata")]:
        # Others hold them by name too.
        sys.modules.pop(name).__dict__.clear()
    for module in [module for module in sys.modules.values() if isinstance(module, types.ModuleType)]:
        _forget_place(module)
    rename: Any = vars(_imp)["_fix_co_filename"]
    for found in gc.get_objects():
        if type(found) is types.FunctionType and not found.__code__.co_filename.startswith("<"):
            rename(found.__code__, f"<{found.__globals__.get('__name__', 'sandbox')}>")
    linecache.clearcache()
    zoneinfo.reset_tzpath(to=())
    # It leaves out its own frames by their file when it looks for who logs.
    logging._srcfile = logging.info.__code__.co_filename
    platform.architecture.__defaults__ = "", *(platform.architecture.__defaults__ or ())[1:]
    sys.modules["__main__"] = types.ModuleType("__main__")


def _forget_place(module: types.ModuleType) -> None:
    space = module.__dict__
    for name in ("__file__", "__cached__"):
        space.pop(name, None)
    if "__path__" in space:
        space["__path__"] = []
    spec = space.get("__spec__")
    if spec is None:
        space.pop("__loader__", None)
        return
    if isinstance(spec.loader_state, types.SimpleNamespace):
        spec.loader_state.filename = None
    if str(spec.origin).startswith("/"):
        space.pop("__loader__", None)
        spec.origin = spec.loader = spec.cached = None
    if spec.submodule_search_locations is not None:
        spec.submodule_search_locations = []
