"""Every case of the benchmark that needs no torch comes out right; those of tokens are tests of their own."""

from __future__ import annotations

from tests.benchmarks.data_truth.__main__ import measure


def test_data_says_what_was_recorded() -> None:
    found = measure(["json", "rows", "ids", "tags", "openai", "files"])
    assert found["failed"] == {}
    assert int(str(found["cases"])) >= 300
