"""A task, and people with different rights. Django is set up after this file is read: imports stand inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from django.test import Client

if TYPE_CHECKING:
    from webapp.accounts.models import User
    from webapp.scenarios.models import Task


@pytest.fixture
def task(db: None) -> Task:
    from tests.scenarios_pages.support import make_task

    return make_task()


@pytest.fixture(autouse=True)
def _fresh_cache() -> Iterator[None]:
    """Primary keys start again in each test's database: no episode of another test may be met."""
    from webapp.scenarios.playground import services
    from webapp.scenarios.playground.live_episodes import CACHE

    CACHE.clear()
    services.load_program.cache_clear()
    yield
    CACHE.clear()


def person(name: str, role: str) -> User:
    from webapp.accounts.models import User

    return User.objects.create_user(name, password="a long password", role=role)


@pytest.fixture
def client(db: None) -> Client:
    """An annotator's browser."""
    client = Client()
    client.force_login(person("ann", "annotator"))
    return client


@pytest.fixture
def viewer(db: None) -> Client:
    client = Client()
    client.force_login(person("vic", "viewer"))
    return client
