"""What freezing a dataset holds in memory."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.datasets.dataset_support import carry_out, talk, uploaded_file
from webapp.datasets import services

pytestmark = pytest.mark.django_db


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows() -> None:
    """A file's rows come and go: of eight times as many, no more is held than their ids and lengths."""

    def most(rows: int) -> int:
        lines = [talk(number)[:-1] + b', "category": "' + b"c" * 150 + b'"}' for number in range(rows)]
        file = uploaded_file(lines, report={"rows": rows})
        del lines
        row = services.create_file_dataset(None, file)
        tracemalloc.start()
        assert carry_out(row).train_rows == rows
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    most(100)
    small, large = most(1_000), most(8_000)
    assert large - small < 7_000 * 300
