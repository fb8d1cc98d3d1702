from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest


@pytest.fixture(scope="session")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def page(db: None) -> Any:
    """A signed-in annotator's browser."""
    from django.test import Client

    from tests.fixtures import pages_seed

    client = Client()
    client.force_login(pages_seed.person("annotator"))
    return client
