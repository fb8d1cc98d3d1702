"""Configuration by the person, read from the environment before anything starts."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import redis

from webapp.common.broker import make_client
from webapp.stack.errors import StackError

ROOT = Path(__file__).resolve().parent.parent.parent
DEFAULT_PORT = 8000
HOST = "127.0.0.1"


@dataclass(frozen=True)
class Config:
    """Configuration of a run. `database_url` and `broker_url` are None if Envarium starts its own server."""

    home: Path
    port: int
    database_url: str | None
    broker_url: str | None
    production: bool
    training: bool = True
    """Whether a worker for training runs beside the site."""

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


def read_config() -> Config:
    """Return the configuration. Raises StackError for an invalid value."""
    raw = os.environ.get("PORT", "").strip() or str(DEFAULT_PORT)
    if not raw.isdigit() or not 1 <= int(raw) <= 65535:
        raise StackError(f"PORT={raw!r} is not a port. Use a number from 1 to 65535: PORT=8001 make run")
    kind = os.environ.get("ENVARIUM_ENV", "").strip() or "development"
    if kind not in {"development", "production"}:
        raise StackError(f"ENVARIUM_ENV={kind!r}: use development or production.")
    training = os.environ.get("ENVARIUM_TRAINING", "").strip().lower() or "on"
    if training not in {"on", "off"}:
        raise StackError(f"ENVARIUM_TRAINING={training!r}: use on or off.")
    home = os.environ.get("ENVARIUM_HOME", "").strip() or str(ROOT / ".envarium")
    return Config(
        home=Path(home).expanduser().absolute(),
        port=int(raw),
        database_url=os.environ.get("DATABASE_URL", "").strip() or None,
        broker_url=os.environ.get("BROKER_URL", "").strip() or None,
        production=kind == "production",
        training=training == "on",
    )


def build_child_environment(config: Config, database_url: str, broker_url: str, secret: str) -> dict[str, str]:
    """Return the environment of Envarium's own processes: the person's, without variables that would change a
    connection."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    return {
        **inherited,
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "DATABASE_URL": database_url,
        "BROKER_URL": broker_url,
        "ENVARIUM_HOME": str(config.home),
        "ENVARIUM_URL": config.url,
        "ENVARIUM_TRAINING": "on" if config.training else "off",
        "ENVARIUM_SECRET_KEY": os.environ.get("ENVARIUM_SECRET_KEY", "").strip() or secret,
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }


def check_port(port: int) -> None:
    """Raise StackError, naming its holder and a free port, if the port is taken."""
    try:
        _bind_port(port)
    except PermissionError:
        raise StackError(f"Port {port} needs rights that you lack. Choose one above 1023: PORT=8000 make run") from None
    except OSError:
        free = next((number for number in range(port + 1, min(port + 100, 65536)) if _is_free(number)), 0)
        advice = f"PORT={free} make run" if free else "PORT=<another number> make run"
        raise StackError(
            f"Port {port} is in use by {_describe_port_holder(port)}.\n"
            f"Stop that, or let Envarium use another port: {advice}"
        ) from None


def _bind_port(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))


def _is_free(port: int) -> bool:
    try:
        _bind_port(port)
    except OSError:
        return False
    return True


def _describe_port_holder(port: int) -> str:
    """Return the program that listens on `port`, as far as this user may see."""
    try:
        for connection in psutil.net_connections(kind="tcp"):
            is_listening = connection.status == psutil.CONN_LISTEN and getattr(connection.laddr, "port", 0) == port
            if is_listening and connection.pid:
                return f"process {connection.pid} ({psutil.Process(connection.pid).name()})"
    except psutil.Error:
        pass
    return "another program"


def check_given_servers(config: Config) -> None:
    """Raise StackError, naming the variable and never its password, if a given server does not answer."""
    if config.database_url:
        try:
            with psycopg.connect(config.database_url, connect_timeout=5) as connection:
                connection.execute("select 1")
        except psycopg.Error as error:
            raise StackError(_describe_unreachable("DATABASE_URL", "PostgreSQL", config.database_url, error)) from None
    if config.broker_url:
        try:
            probe = make_client(config.broker_url, seconds=5)
            probe.ping()
            probe.close()
        except (redis.RedisError, ValueError) as error:
            raise StackError(_describe_unreachable("BROKER_URL", "Redis or Valkey", config.broker_url, error)) from None


def _describe_unreachable(variable: str, server: str, url: str, error: Exception) -> str:
    secret = url.split("://", 1)[-1].rpartition("@")[0].partition(":")[2]
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if secret:
        reason = reason.replace(secret, "***")
    return (
        f"{variable} is set, but no {server} answers there: {reason}\n"
        f"Correct {variable}, or unset it and Envarium brings its own."
    )
