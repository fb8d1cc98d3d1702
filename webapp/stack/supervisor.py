"""Supervisor of services: starts them in order, watches them, restarts a crashed one, stops them in reverse."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from webapp.common.disk import count_free_bytes
from webapp.stack.errors import Interrupted, StackError
from webapp.stack.home import Home
from webapp.stack.process import Child, Service, truncate_log

TICK_SECONDS = 0.1
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.5, 30.0
STEADY_SECONDS = 60.0
"""A process that ran so long has recovered: its next crash starts the back-off anew."""
LONGEST_READY_DELAY_SECONDS = 2.0
"""One that was ready, or that SIGKILL ended, can start: it was ended from outside, and everything waits for it."""
START_TRIES = 3
LOG_CHECK_SECONDS = 30.0
FULL_BYTES = 64 << 20
"""With less room than this a service that ends has probably ended for it."""


@dataclass
class ManagedService:
    service: Service
    tier: int
    child: Child | None = None
    is_ready: bool = False
    crashes: int = 0
    start_at: float = 0.0
    down_since: float = 0.0


def print_line(line: str) -> None:
    """Print a line; a terminal that is gone must not take the services with it."""
    try:
        print(line, flush=True)
    except OSError:
        return


class Supervisor:
    """Owner of every child of a run. One thread: the kernel ends children with the thread that started them."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.managed: list[ManagedService] = []
        self.requests = 0
        """How often a person asked to stop; the second time forces it."""
        self._stopping = False
        self._logs_checked = 0.0

    def listen(self) -> None:
        """Take INT, TERM and HUP as requests to stop."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)

    def _on_signal(self, _number: int, _frame: object) -> None:
        self.requests += 1

    def pause(self, seconds: float = TICK_SECONDS) -> None:
        """Wait a moment. Raises Interrupted if a stop was requested meanwhile."""
        time.sleep(seconds)
        if self.requests and not self._stopping:
            raise Interrupted

    def spawn(self, service: Service) -> Child:
        return Child(service, logs=self.home.logs, records=self.home.records)

    def run(self, service: Service, label: str) -> None:
        """Run a process to its end. Raises StackError with the end of its log if it fails."""
        began = time.monotonic()
        child = self.spawn(service)
        try:
            while (code := child.find_exit_code()) is None:
                self.pause(0.02)
        except Interrupted:
            child.kill()
            child.process.wait()
            raise
        if code != 0:
            raise StackError(f"{label} failed ({describe_exit(code)}).{self._tail(service)}")
        if not service.in_view:
            print_line(f"  {label:<26} {time.monotonic() - began:5.1f} s")

    def start(self, services: Sequence[Service], label: str, *, seconds: float = 90.0) -> None:
        """Start services side by side and wait until each is ready. Raises StackError if one does not become ready."""
        began = time.monotonic()
        tier = 1 + max((entry.tier for entry in self.managed), default=0)
        fresh = [ManagedService(service, tier) for service in services]
        self.managed.extend(fresh)
        for entry in fresh:
            entry.child = self.spawn(entry.service)
        while not all(entry.is_ready for entry in fresh):
            self.pause(0.03)
            for entry in fresh:
                self._tend_service(entry, starting=True)
            if time.monotonic() - began > seconds:
                late = [entry for entry in fresh if not entry.is_ready]
                tails = "".join(self._tail(entry.service) for entry in late)
                names = ", ".join(entry.service.name for entry in late)
                raise StackError(f"Not ready after {seconds:.0f} s: {names}.{tails}")
        print_line(f"  {label:<26} {time.monotonic() - began:5.1f} s")

    def later(self, services: Sequence[Service]) -> None:
        """Add services that the start does not wait for: `tend` starts and watches them. They are stopped first."""
        tier = 1 + max((entry.tier for entry in self.managed), default=0)
        self.managed.extend(ManagedService(service, tier) for service in services)

    def watch(self) -> None:
        """Keep everything running until a stop is requested. Raises Interrupted then."""
        while True:
            self.pause()
            self.tend()
            if time.monotonic() - self._logs_checked > LOG_CHECK_SECONDS:
                self._logs_checked = time.monotonic()
                for path in self.home.logs.glob("*.log"):
                    truncate_log(path)

    def tend(self) -> None:
        """Check every started service once."""
        for entry in self.managed:
            self._tend_service(entry, starting=False)

    def _tend_service(self, entry: ManagedService, *, starting: bool) -> None:
        """Check one service: notice its end, restart it when its delay is over, notice that it is ready."""
        now = time.monotonic()
        if entry.child is not None and (code := entry.child.find_exit_code()) is not None:
            self._handle_exit(entry, code, starting=starting)
        if entry.child is None and now >= entry.start_at:
            self._start_again(entry, now, starting=starting)
        if entry.child is not None and not entry.is_ready and entry.service.ready():
            entry.is_ready = True
            if entry.down_since:
                print_line(f"{entry.service.name} is back after {time.monotonic() - entry.down_since:.1f} s")
                entry.down_since = 0.0

    def _start_again(self, entry: ManagedService, now: float, *, starting: bool) -> None:
        try:
            entry.child = self.spawn(entry.service)
        except OSError as error:  # a full disk, or no memory for a process: neither must end what still runs
            if starting:
                raise StackError(f"{entry.service.name} could not be started: {error}") from error
            entry.start_at = now + LONGEST_DELAY_SECONDS / 6
            print_line(f"{entry.service.name} could not be started ({error.strerror}); it is tried again")

    def _handle_exit(self, entry: ManagedService, code: int, *, starting: bool) -> None:
        service, now = entry.service, time.monotonic()
        uptime = now - entry.child.started if entry.child else 0.0
        entry.crashes = 1 if uptime > STEADY_SECONDS else entry.crashes + 1
        can_start = entry.is_ready or code == -signal.SIGKILL
        longest = LONGEST_READY_DELAY_SECONDS if can_start else LONGEST_DELAY_SECONDS
        delay = min(FIRST_DELAY_SECONDS * 2 ** (entry.crashes - 1), longest)
        waits_for_lock = service.retry_seconds is not None and not entry.is_ready
        if waits_for_lock and service.retry_seconds is not None:
            delay = service.retry_seconds
        elif starting and entry.crashes >= START_TRIES:
            raise StackError(f"{service.name} does not start ({describe_exit(code)}).{self._tail(service)}")
        if not waits_for_lock:
            print_line(f"{service.name} ended ({describe_exit(code)}); it is started again in {delay:.1f} s")
            if (room := count_free_bytes(self.home.path)) < FULL_BYTES:
                print_line(f"  {room >> 20} MiB are free in {self.home.path}: make room there, and work continues")
            entry.down_since = entry.down_since or now
        entry.child, entry.is_ready, entry.start_at = None, False, now + delay

    def _tail(self, service: Service, lines: int = 12) -> str:
        path = self.home.logs / f"{service.name}.log"
        if service.in_view or not path.exists():
            return ""
        last = path.read_text(errors="replace").splitlines()[-lines:]
        return f"\nThe end of {path}:\n" + "\n".join(f"  {line}" for line in last)

    def stop(self) -> None:
        """Stop everything that this run started, last tier first. A further request to stop kills the rest."""
        self._stopping = True
        earlier_requests = self.requests
        for tier in sorted({entry.tier for entry in self.managed}, reverse=True):
            children = [entry.child for entry in self.managed if entry.tier == tier and entry.child]
            self._stop_tier(children, lambda: self.requests > earlier_requests)
        self.managed.clear()

    def _stop_tier(self, children: Iterable[Child], forced: Callable[[], bool]) -> None:
        pending = {child: ServiceStop(child) for child in children}
        for stopping in pending.values():
            stopping.step(time.monotonic())
        while pending:
            if forced():
                for child in pending:
                    child.kill()
            for child in [child for child in pending if child.find_exit_code() is not None]:
                print_line(f"  {child.service.name} stopped")
                del pending[child]
            for stopping in pending.values():
                if time.monotonic() >= stopping.next_at:
                    stopping.step(time.monotonic())
            if pending:
                time.sleep(0.03)


class ServiceStop:
    """The progress of stopping one child, from the first, polite signal to SIGKILL."""

    def __init__(self, child: Child) -> None:
        self.child = child
        self.steps = list(child.service.stop_steps)
        self.next_at = 0.0

    def step(self, now: float) -> None:
        if not self.steps:
            self.child.kill()
            self.next_at = now + 1.0
            return
        number, seconds = self.steps.pop(0)
        self.child.send(number)
        self.next_at = now + seconds


def describe_exit(code: int) -> str:
    """Return an exit code in words: the signal's name if a signal ended the process."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
