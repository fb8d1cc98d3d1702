"""Tests of what trains run in one process: model, tokenizer and lessons are made once."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE and not item.get_closest_marker("kill") and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.xdist_group("training"))
