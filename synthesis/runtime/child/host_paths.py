"""Removal of what tells where Python is installed and how it was started: a state must not depend on it."""

from __future__ import annotations

import _imp  # type: ignore[import-not-found]
import gc
import linecache
import logging
import platform
import sys
import types
import zoneinfo

_ABOUT_THE_HOST = frozenset(("site", "sitecustomize", "sysconfig", "usercustomize"))


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
    for found in gc.get_objects():
        if type(found) is types.FunctionType and not found.__code__.co_filename.startswith("<"):
            _imp._fix_co_filename(found.__code__, f"<{found.__globals__.get('__name__', 'sandbox')}>")
    linecache.clearcache()
    zoneinfo.reset_tzpath(to=())
    # It leaves out its own frames by their file when it looks for who logs.
    logging._srcfile = logging.info.__code__.co_filename  # type: ignore[attr-defined]
    platform.architecture.__defaults__ = ("", *platform.architecture.__defaults__[1:])
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
