"""Imports stand inside: pytest loads this file before Django is set up when it is named on the command line."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def annotator(db: None) -> Any:
    from tests.fixtures import pages_seed

    return pages_seed.person("annotator")


@pytest.fixture
def admin(db: None) -> Any:
    from tests.fixtures import pages_seed

    return pages_seed.person("admin")


@pytest.fixture
def reader(annotator: Any) -> Any:
    """A program with a token that may read."""
    from tests.fixtures.api import program

    return program(annotator, "read")


@pytest.fixture
def writer(annotator: Any) -> Any:
    from tests.fixtures.api import program

    return program(annotator, "read", "synthesise")
