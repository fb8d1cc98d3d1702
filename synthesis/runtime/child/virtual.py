"""A virtual clock and seeded randomness, so that the same calls give the same bytes.

The clock starts at the episode's `now`. Every reading of it adds one microsecond, every tool call adds one second and
the latency that the host gives it, and sleeping adds the time slept without waiting, as does a wait with a time limit:
there is no other thread to end it. Local time is UTC. All randomness of the standard library comes from one generator
seeded at `reset`. Functions that number objects (`id`, and a `hash` made from it) count them in the order in which they
are asked for.

The real clock is not hidden here but removed (`vdso`, `syscalls`); this is its replacement for innocent programs.

`datetime.datetime` and `datetime.date` keep their identity: three class methods are replaced inside the C types
themselves, so `isinstance`, pickling, copying and arithmetic are those of the real types.
"""

from __future__ import annotations

import ctypes
import datetime
import gc
import logging
import os
import random
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable
from typing import Any

TICK_NS = 1_000
CALL_NS = 1_000_000_000

_real_gmtime, _real_strftime = time.gmtime, time.strftime
_real_asctime = time.asctime
_real_wait = threading.Condition.wait
_UTC = datetime.UTC


class Clock:
    """Nanoseconds since 1970, which pass only by explicit calls."""

    def __init__(self) -> None:
        self.start_ns = self.now_ns = 0

    def set(self, moment: str) -> None:
        """Start at an ISO moment (UTC if it names no offset)."""
        when = datetime.datetime.fromisoformat(moment)
        if when.tzinfo is None:
            when = when.replace(tzinfo=_UTC)
        delta = when - datetime.datetime(1970, 1, 1, tzinfo=_UTC)
        self.start_ns = (delta.days * 86_400 + delta.seconds) * 10**9 + delta.microseconds * 1_000
        self.now_ns = self.start_ns

    def read(self) -> int:
        self.now_ns += TICK_NS
        return self.now_ns

    def elapsed_ns(self) -> int:
        return self.read() - self.start_ns

    def sleep(self, seconds: Any) -> None:
        if seconds < 0:
            raise ValueError("sleep length must be non-negative")
        self.now_ns += int(seconds * 10**9)


CLOCK = Clock()
_entropy = random.Random(0)
_numbered: dict[int, tuple[Any, int]] = {}
_prepared: tuple[int, str] | None = None
"""What was begun, while nothing has been drawn or read since."""
_FIRST_ID, _ID_STEP = 0x7F00_0000_0000, 16


def get_stable_id(value: Any, /) -> int:
    """Return a number for an object that is the same in every run: `id` for programs. Keep the object alive."""
    entry = _numbered.get(id(value))
    if entry is None:
        entry = _numbered[id(value)] = value, _FIRST_ID + _ID_STEP * len(_numbered)
    return entry[1]


def get_stable_hash(value: Any, /) -> int:
    """Return the hash of a value: made from `get_stable_id` if Python would make it from the object's address."""
    return get_stable_id(value) if type(value).__hash__ is object.__hash__ else hash(value)


def _draw_bytes(size: int, *_: Any) -> bytes:
    return _entropy.randbytes(size) if size else b""


def seed_episode(number: int, moment: str) -> None:
    """Begin an episode: the clock at `moment`, every source of randomness at `number`."""
    global _prepared
    prepared, _prepared = _prepared, None
    if prepared != (number, moment):
        _reset_sources(number, moment)


def prepare_episode(number: int, moment: str) -> None:
    """Begin ahead, in the zygote, the episode that most children ask for first."""
    global _prepared
    _reset_sources(number, moment)
    _prepared = number, moment


def _reset_sources(number: int, moment: str) -> None:
    CLOCK.set(moment)
    logging._startTime = CLOCK.start_ns / 1e9  # type: ignore[attr-defined]
    _numbered.clear()
    _entropy.seed(number)
    random.seed(number)
    uuid._last_timestamp = None  # type: ignore[attr-defined]


def advance_clock(latency_s: float = 0.0) -> None:
    """Advance the clock by the second between two tool calls, and by the latency of a slow call."""
    CLOCK.now_ns += CALL_NS + int(latency_s * 10**9)


def install_virtual_sources() -> None:
    """Replace the clock and the randomness of this process. Raise RuntimeError if that has no effect."""
    before = dict(time.__dict__)
    _install_time()
    _rebind_time_functions(
        {id(before[name]): value for name, value in time.__dict__.items() if before[name] is not value}
    )
    _install_datetime()
    _install_random()
    seed_episode(0, "2025-01-01T00:00:00+00:00")
    year = {datetime.datetime.now().year, datetime.date.today().year, time.localtime().tm_year}
    if year != {2025} or random.Random().random() == 0 or os.urandom(0) != b"":
        raise RuntimeError("the virtual clock could not be installed in this Python")


def _install_time() -> None:
    def read_seconds() -> float:
        return CLOCK.read() / 1e9

    def read_elapsed() -> float:
        return CLOCK.elapsed_ns() / 1e9

    time.time, time.time_ns = read_seconds, CLOCK.read
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        setattr(time, name, read_elapsed)
        setattr(time, name + "_ns", CLOCK.elapsed_ns)
    time.sleep = CLOCK.sleep
    time.gmtime = time.localtime = _to_struct_time
    time.ctime = lambda secs=None: _real_asctime(_to_struct_time(secs))
    time.asctime = lambda t=None: _real_asctime(_to_struct_time() if t is None else t)
    time.strftime = _format_time
    time.clock_gettime = lambda clock: read_seconds() if clock == 0 else read_elapsed()
    time.clock_gettime_ns = lambda clock: CLOCK.read() if clock == 0 else CLOCK.elapsed_ns()
    time.clock_getres = lambda clock: TICK_NS / 1e9
    time.get_clock_info = _get_clock_info
    threading.Condition.wait = _wait_virtually  # type: ignore[method-assign]


def _rebind_time_functions(replaced: dict[int, Any]) -> None:
    """Replace the functions that modules of the library took out of `time` when they were imported."""
    for module in list(sys.modules.values()):
        space = getattr(module, "__dict__", {})
        for name, value in list(space.items()):
            if isinstance(value, types.BuiltinFunctionType) and id(value) in replaced and space is not globals():
                space[name] = replaced[id(value)]


def _get_clock_info(name: str) -> types.SimpleNamespace:
    wall = name == "time"
    return types.SimpleNamespace(
        implementation="virtual", monotonic=not wall, adjustable=wall, resolution=TICK_NS / 1e9
    )


def _wait_virtually(self: threading.Condition, timeout: float | None = None) -> bool:
    if timeout is None:
        return _real_wait(self)
    CLOCK.sleep(max(0, timeout))
    return _real_wait(self, 0)


def _to_struct_time(secs: Any = None) -> time.struct_time:
    return _real_gmtime(CLOCK.read() / 1e9 if secs is None else secs)


def _format_time(format: str, t: Any = None) -> str:
    return _real_strftime(format, _to_struct_time() if t is None else t)


def _datetime_now(cls: type[datetime.datetime], tz: datetime.tzinfo | None = None) -> datetime.datetime:
    stamp = CLOCK.read() // 1_000
    base = datetime.datetime(1970, 1, 1, tzinfo=_UTC if tz is not None else None)
    moment = base + datetime.timedelta(microseconds=stamp)
    moment = moment.astimezone(tz) if tz is not None else moment
    return moment if cls is datetime.datetime else cls.combine(moment.date(), moment.timetz())


def _datetime_utcnow(cls: type[datetime.datetime]) -> datetime.datetime:
    return _datetime_now(cls)


def _datetime_today(cls: type[datetime.datetime]) -> datetime.datetime:
    return _datetime_now(cls)


def _date_today(cls: type[datetime.date]) -> datetime.date:
    moment = _datetime_now(datetime.datetime)
    return cls(moment.year, moment.month, moment.day)


def _replace_class_method(owner: type, name: str, function: Callable[..., Any]) -> None:
    # The dictionary of a C type is reachable only through the collector; there is no public way in.
    (namespace,) = gc.get_referents(owner.__dict__)
    namespace[name] = classmethod(function)


def _install_datetime() -> None:
    _replace_class_method(datetime.datetime, "now", _datetime_now)
    _replace_class_method(datetime.datetime, "utcnow", _datetime_utcnow)
    _replace_class_method(datetime.datetime, "today", _datetime_today)
    _replace_class_method(datetime.date, "today", _date_today)
    for owner in (datetime.date, datetime.datetime):
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(owner))


def _install_random() -> None:
    plain_seed = random.Random.seed

    def seed_generator(self: random.Random, a: Any = None, version: int = 2) -> None:
        plain_seed(self, _entropy.getrandbits(256) if a is None else a, version)

    random.Random.seed = seed_generator  # type: ignore[method-assign]
    random._urandom = _draw_bytes  # type: ignore[attr-defined]
    os.urandom = _draw_bytes
    if hasattr(os, "getrandom"):
        os.getrandom = _draw_bytes  # type: ignore[assignment]
    os.getpid = os.getppid = lambda: 1
    # `uuid1` would ask the C library, which knows the real time and the real network card.
    uuid._generate_time_safe = None  # type: ignore[attr-defined]
    uuid._UuidCreate = None  # type: ignore[attr-defined]
    uuid._node = 0x02_00_00_00_00_01  # type: ignore[attr-defined]
