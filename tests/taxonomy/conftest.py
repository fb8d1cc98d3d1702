"""Imports stand inside: pytest loads this file before Django is set up when it is named on the command line."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def annotator(db: None) -> Any:
    from tests.fixtures import pages_seed

    return pages_seed.person("annotator")


@pytest.fixture
def page(annotator: Any) -> Any:
    """A signed-in annotator's browser."""
    from django.test import Client

    client = Client()
    client.force_login(annotator)
    return client


@pytest.fixture
def forest(db: None) -> dict[str, int]:
    """10,000 labels and 12,000 themes, with what PostgreSQL knows of them up to date."""
    from tests.fixtures.remembered import remembered
    from tests.taxonomy.forest import plant, settle

    found: dict[str, int] = remembered("forest", plant)
    settle()
    return found
