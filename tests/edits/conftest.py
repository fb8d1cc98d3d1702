"""The seed library and a person. Django is set up after this file is read: imports stand inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from django.test import Client

    from synthesis.runtime import Sandbox
    from tests.edits.seed import SeedLibrary
    from webapp.accounts.models import User


@pytest.fixture
def person(db: None) -> User:
    from tests.review import seed

    return seed.people("annotator")[0]


@pytest.fixture
def browser(person: User) -> Client:
    from django.test import Client

    client = Client()
    client.force_login(person)
    return client


@pytest.fixture
def made(db: None, sandbox: Sandbox) -> SeedLibrary:
    from tests.edits.seed import remembered_library

    return remembered_library(sandbox)
