from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from synthesis.contracts import Limits
from synthesis.runtime import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    """One whose calls may take a second: tests wait for those that hang."""
    made = Sandbox(limits=Limits(call_seconds=1.0))
    yield made
    made.close()


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
