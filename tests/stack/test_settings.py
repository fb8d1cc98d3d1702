"""Settings fail loudly: production refuses defaults, and no value is half understood."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import psycopg
import pytest
from psycopg_pool import ConnectionPool, PoolTimeout
from psycopg_pool.base import AttemptWithBackoff

from tests.fixtures.processes import ROOT
from webapp.settings import POOL

GOOD = {
    "ENVARIUM_ENV": "production",
    "ENVARIUM_SECRET_KEY": "k7" * 30,
    "DATABASE_URL": "postgresql://envarium:hT5w9QpLx2@db/envarium",
    "BROKER_URL": "redis://:vR8n3KqYz1@broker/0",
    "ENVARIUM_ALLOWED_HOSTS": "envarium.example.org",
}


SHOWN = "from webapp import settings as s; print(s.DATABASES['default']['HOST'], s.SESSION_COOKIE_SECURE, s.DEBUG)"


def load(changes: Mapping[str, str | None], code: str = SHOWN) -> subprocess.CompletedProcess[str]:
    """Import the settings in a fresh process with GOOD and `changes`; None unsets a variable."""
    wanted = {**GOOD, **changes}
    environment = {name: value for name, value in wanted.items() if value is not None}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
    )


def test_production_starts_with_real_secrets():
    result = load({})
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["db", "True", "False"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ENVARIUM_SECRET_KEY": None}, "Production needs ENVARIUM_SECRET_KEY"),
        ({"ENVARIUM_SECRET_KEY": "short"}, "40 random characters"),
        ({"DATABASE_URL": None}, "Production needs DATABASE_URL"),
        ({"BROKER_URL": None}, "Production needs BROKER_URL"),
        ({"ENVARIUM_ALLOWED_HOSTS": None}, "Production needs ENVARIUM_ALLOWED_HOSTS"),
        ({"DATABASE_URL": "postgresql://envarium:envarium@db/envarium"}, "default password"),
        ({"BROKER_URL": "redis://:changeme@broker/0"}, "default password"),
        ({"ENVARIUM_DEBUG": "true"}, "ENVARIUM_DEBUG must be off"),
        ({"ENVARIUM_DEBUG": "maybe"}, "is not a yes or no"),
        ({"ENVARIUM_ENV": "prod"}, "use development or production"),
        ({"ENVARIUM_TRUSTED_PROXIES": "*"}, "is no address and no network"),
        ({"ENVARIUM_TRUSTED_PROXIES": "10.0.0.1/8"}, "is no address and no network"),
        ({"ENVARIUM_TRUSTED_PROXIES": "10.0.0.1, ::/0"}, "is every address there is"),
        ({"ENVARIUM_JOB_LEASE_SECONDS": "soon"}, "is not a whole number"),
        ({"DATABASE_URL": "postgresql://db/x?nonsense=1"}, "DATABASE_URL is not a PostgreSQL URL"),
    ],
)
def test_a_value_that_cannot_be_meant_stops_the_start(changes, said):
    result = load(changes)
    assert result.returncode != 0
    assert said in result.stderr


def test_a_password_is_not_repeated_in_the_error():
    result = load({"DATABASE_URL": "postgresql://envarium:hT5w9QpLx2@db/x?nonsense=1"})
    assert "hT5w9QpLx2" not in result.stderr.splitlines()[-1]


def cookies(**changes: str) -> list[str]:
    shown = "SESSION_COOKIE_NAME, s.CSRF_COOKIE_NAME, s.KNOWN_BROWSER_COOKIE"
    return load(changes, f"from webapp import settings as s; print(s.{shown})").stdout.split()


def test_cookies_are_named_by_the_installation():
    """Two sites on one host, at whatever ports, would else take each other's."""
    here, old = cookies(), GOOD["ENVARIUM_SECRET_KEY"]
    there = cookies(ENVARIUM_SECRET_KEY="m3" * 30)
    assert len(here) == len(there) == 3
    assert not {*here, *there} & {"sessionid", "csrftoken", "messages"}
    assert not set(here) & set(there)
    assert cookies(ENVARIUM_SECRET_KEY="m3" * 30, ENVARIUM_OLD_SECRET_KEYS=old) == here, "a new secret signs nobody out"
    assert [name.startswith("__Host-") for name in here] == [True, True, False]
    assert not any("__Host-" in name for name in cookies(ENVARIUM_PLAIN_HTTP="true"))


@pytest.mark.slow
def test_a_database_that_was_away_is_looked_for_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool's own patience doubles: here it has come to a minute, in which nothing asks the database."""
    tries: list[str] = []

    class Away(psycopg.Connection[tuple[object, ...]]):
        @classmethod
        def connect(cls, *args: object, **kwargs: object) -> Away:
            tries.append("one")
            raise psycopg.OperationalError("away")

    monkeypatch.setattr(AttemptWithBackoff, "INITIAL_DELAY", 60.0)
    with ConnectionPool("", connection_class=Away, open=True, **POOL) as pool:
        with pytest.raises(PoolTimeout):
            pool.getconn(timeout=POOL["reconnect_timeout"] + 1)
        with pytest.raises(PoolTimeout):
            pool.getconn(timeout=0.5)
    assert len(tries) > 2
