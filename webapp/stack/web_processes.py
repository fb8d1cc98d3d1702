"""The web tier: processes that answer requests on one socket, forked from one that has loaded the site.

    python -m webapp.stack.web_processes --port 8000 [--host 127.0.0.1] [--grace 3]

One process runs one request's Python at a time, so a second core needs a second process. The parent loads the site,
forks, starts again what ended, passes a stop on, and answers nothing itself: what it has loaded all share. It must come
to the fork without a thread, an event loop, a connection or a sandbox; each process makes its own when it needs one.
With one process (`ENVARIUM_WEB_PROCESSES`) there is no parent.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import time
import traceback

import uvicorn

from webapp.stack.account import die_with_parent
from webapp.stack.shared_listener import OpenConnections, SharedListener
from webapp.stack.supervisor import describe_exit

logger = logging.getLogger("webapp.stack.web_processes")

WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
STEADY_SECONDS = 5.0
"""A process that ends sooner is restarted with a longer delay each time."""
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.25, 2.0
SPARE_SECONDS = 2.0
"""Beyond what a server gives its requests at a stop: then it is killed."""


class WebProcesses:
    """The parent of the serving processes. One thread: the kernel ends children with the thread that forked them."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, number: int) -> None:
        self.config, self.listener, self.number = config, listener, number
        self.connections = OpenConnections(number)
        self.began: dict[int, float] = {}
        """By process, when it was forked."""
        self.places: dict[int, int] = {}
        """By process, its place among `connections`."""
        self._quick_ends = 0
        self._start_at = 0.0

    def run(self) -> None:
        """Serve until asked to stop."""
        signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)
        while True:
            now = time.monotonic()
            while len(self.began) < self.number and now >= self._start_at:
                self._fork()
            wait = max(0.0, self._start_at - now) if len(self.began) < self.number else 3600.0
            received = signal.sigtimedwait(WATCHED, wait)
            if received is not None and received.si_signo != signal.SIGCHLD:
                break
            self._reap()
        self._stop()

    def _fork(self) -> None:
        parent = os.getpid()
        place = min(set(range(self.number)) - set(self.places.values()))
        try:
            pid = os.fork()
        except OSError as error:  # no memory, or no more processes: those that run go on
            logger.warning("no web process could be started (%s); it is tried again", error.strerror)
            self._start_at = time.monotonic() + LONGEST_DELAY_SECONDS
            return
        if pid:
            self.began[pid], self.places[pid] = time.monotonic(), place
            return
        try:
            die_with_parent(parent, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)
            listener = SharedListener(self.listener, self.connections, place)
            self.config.http_protocol_class = listener.protocol()
            uvicorn.Server(self.config).run([listener])
        except BaseException:
            # Boundary of the process: nothing may return into the parent's loop.
            traceback.print_exc()
        os._exit(1)

    def _reap(self) -> None:
        """Reap every process that has ended."""
        for pid, began in list(self.began.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del self.began[pid], self.places[pid]
            now = time.monotonic()
            self._quick_ends = 0 if now - began > STEADY_SECONDS else self._quick_ends + 1
            delay = FIRST_DELAY_SECONDS * 2 ** (self._quick_ends - 1) if self._quick_ends > 1 else 0.0
            self._start_at = now + min(delay, LONGEST_DELAY_SECONDS)
            code = os.waitstatus_to_exitcode(status)
            logger.warning("web process %d ended (%s); another one takes its place", pid, describe_exit(code))

    def _stop(self) -> None:
        """Stop all processes: each finishes its requests within the server's grace period, then it is killed."""
        self.listener.close()
        for pid in self.began:
            os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + (self.config.timeout_graceful_shutdown or 0) + SPARE_SECONDS
        while self.began:
            for pid in list(self.began):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del self.began[pid]
                elif time.monotonic() > until:
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)


def build_server_config(host: str, port: int, grace: int) -> uvicorn.Config:
    """Return the server's configuration. `webapp/asgi.py` decides which proxies are trusted."""
    return uvicorn.Config(
        "webapp.asgi:application",
        host=host,
        port=port,
        lifespan="off",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=grace,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--grace", type=int, default=3, help="seconds that open requests have at a stop")
    arguments = parser.parse_args()
    config = build_server_config(arguments.host, arguments.port, arguments.grace)
    listener = config.bind_socket()  # a taken port is reported before anything is loaded
    config.load()
    from django.conf import settings  # set up by what was loaded just now

    if settings.WEB_PROCESSES == 1 or sys.platform != "linux":
        uvicorn.Server(config).run([listener])
    else:
        WebProcesses(config, listener, settings.WEB_PROCESSES).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
