"""Embedded servers for the length of one command or one test session, without a supervisor."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field

from webapp.stack.errors import StackError
from webapp.stack.home import Home
from webapp.stack.postgres import Postgres
from webapp.stack.process import Child, Service
from webapp.stack.valkey import Valkey

START_SECONDS = 60.0


@dataclass
class BriefServers:
    """Servers started by the main thread of a process, and stopped by it; the kernel stops them if it is killed."""

    home: Home
    children: list[Child] = field(default_factory=list)

    def postgres(self, *, tuning: dict[str, str] | None = None) -> str:
        """Start PostgreSQL on this home's cluster, created at the first start; return its URL. Raises StackError."""
        server = Postgres(self.home.postgres, self.home.sockets(), tuning=tuning)
        if server.is_new():
            self._run(server.initdb())
            server.adopt()
        self._start(server.service())
        server.create_database()
        return server.url()

    def valkey(self) -> str:
        """Start Valkey on this home's data; return its URL. Raises StackError."""
        broker = Valkey(self.home.valkey, self.home.sockets())
        self._start(broker.service())
        return broker.url()

    def _child(self, service: Service) -> Child:
        return Child(service, logs=self.home.logs, records=self.home.records)

    def _run(self, service: Service) -> None:
        child = self._child(service)
        while (code := child.find_exit_code()) is None:
            time.sleep(0.02)
        if code:
            raise StackError(f"{service.name} failed: {self._log(service)}")

    def _start(self, service: Service) -> None:
        until = time.monotonic() + START_SECONDS
        child = self._child(service)
        while not service.ready():
            if time.monotonic() > until:
                child.kill()
                raise StackError(f"{service.name} does not start: {self._log(service)}")
            if child.find_exit_code() is not None:  # a killed predecessor's processes hold its lock for a moment
                time.sleep(service.retry_seconds or 0.5)
                child = self._child(service)
            time.sleep(0.02)
        self.children.append(child)

    def _log(self, service: Service) -> str:
        path = self.home.logs / f"{service.name}.log"
        return f"see {path}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-5:])

    def stop(self, *, at_once: bool = False) -> None:
        """Stop the servers in order; `at_once` drops requests in flight, which a test session does not need."""
        for child in reversed(self.children):
            first, _seconds = child.service.stop_steps[0]
            quick = signal.SIGQUIT if child.service.name == "postgres" else signal.SIGKILL
            child.send(quick if at_once else first)
            while child.find_exit_code() is None:
                time.sleep(0.02)
        self.children.clear()


def drop_pg_variables() -> None:
    """Drop the PG* variables that would change a connection to a server of ours."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        del os.environ[name]
