"""Settings fail loudly: production refuses defaults, and no value is half understood."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.fixtures.processes import ROOT

GOOD = {
    "ENVARIUM_ENV": "production",
    "ENVARIUM_SECRET_KEY": "k7" * 30,
    "DATABASE_URL": "postgresql://envarium:hT5w9QpLx2@db/envarium",
    "BROKER_URL": "redis://:vR8n3KqYz1@broker/0",
    "ENVARIUM_ALLOWED_HOSTS": "envarium.example.org",
}


def load(changes: dict[str, str | None]) -> subprocess.CompletedProcess[str]:
    """Import the settings in a fresh process with GOOD and `changes`; None unsets a variable."""
    wanted = {**GOOD, **changes}
    environment = {name: value for name, value in wanted.items() if value is not None}
    code = "from webapp import settings as s; print(s.DATABASES['default']['HOST'], s.SESSION_COOKIE_SECURE, s.DEBUG)"
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
