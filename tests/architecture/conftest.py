"""These tests run in one process, which reads all sources once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture import source_files

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.xdist_group("architecture"))


@pytest.fixture(scope="session", autouse=True)
def groups_hold(request: pytest.FixtureRequest) -> None:
    """A pytest whose node ids pytest-xdist cannot extend spreads each group over all workers without a word."""
    if request.config.getoption("loadgroup", False):
        grouped = [item.nodeid for item in request.session.items if item.get_closest_marker("xdist_group")]
        assert all("@" in name for name in grouped), "this pytest and this pytest-xdist do not fit: see pyproject.toml"


@pytest.fixture(scope="package", autouse=True)
def parsed_sources() -> Iterator[None]:
    yield
    source_files.forget()
