from __future__ import annotations

from collections.abc import Iterator

import pytest

from synthesis.contracts import Limits
from synthesis.runtime import Sandbox


@pytest.fixture(scope="session")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox(limits=Limits(memory_mib=128, call_seconds=1.0))
    yield made
    made.close()
