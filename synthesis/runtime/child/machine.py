"""The machine as a program sees it: the same everywhere, whatever the host is and does.

The folder of the Python installation and the command that started it are removed (`remove_paths`): a state must not
depend on them. The kernel refuses the system calls themselves (`syscalls`). The standard library answers here, so that
a program that asks innocently continues.
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


def install_machine() -> None:
    """Replace functions about the machine in the modules that programs reach. Called last: the zygote itself needs the
    real ones."""
    real = os.uname()
    uname = type(real)((real.sysname, NAME, "0", "0", real.machine))
    answers: dict[str, Any] = {
        "uname": lambda: uname,
        "cpu_count": lambda: 1,
        "sched_getaffinity": lambda pid: {0},
        "getloadavg": lambda: (0.0, 0.0, 0.0),
        "times": _get_times,
        "sysconf": _get_sysconf,
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


def _get_times() -> os.times_result:
    elapsed = CLOCK.elapsed_ns() / 1e9
    return os.times_result((elapsed, 0.0, 0.0, 0.0, elapsed))


def _get_sysconf(name: Any) -> int:
    try:
        return _SYSCONF[name]
    except KeyError:
        raise OSError(1, "not told in a sandbox") from None


def remove_paths() -> None:
    """Remove the host's folders from this process: from `sys`, modules, and the code that tracebacks name.

    This is the last step of the zygote itself: afterwards no module can be imported.
    """
    for name, value in list(vars(sys).items()):
        if isinstance(value, str) and value.startswith("/"):
            setattr(sys, name, "")
    sys.argv[:] = [""]
    for name in [name for name in sys.modules if name in _ABOUT_THE_HOST or name.startswith("_sysconfigdata")]:
        # Other modules refer to them too.
        sys.modules.pop(name).__dict__.clear()
    for module in [module for module in sys.modules.values() if isinstance(module, types.ModuleType)]:
        _forget_module_path(module)
    rename: Any = vars(_imp)["_fix_co_filename"]
    for function in gc.get_objects():
        if type(function) is types.FunctionType and not function.__code__.co_filename.startswith("<"):
            rename(function.__code__, f"<{function.__globals__.get('__name__', 'sandbox')}>")
    linecache.clearcache()
    zoneinfo.reset_tzpath(to=())
    # `logging` skips its own frames by their file when it looks for the caller.
    logging._srcfile = logging.info.__code__.co_filename
    platform.architecture.__defaults__ = "", *(platform.architecture.__defaults__ or ())[1:]
    sys.modules["__main__"] = types.ModuleType("__main__")


def _forget_module_path(module: types.ModuleType) -> None:
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
