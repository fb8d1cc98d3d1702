"""Jobs run where the test says, on the short pipeline."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    from tests.batches.support import use_table
    from webapp.jobs.registry import KINDS

    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
    # A server that is not there was given up after seven seconds; tests/llm_layer looks at the waits themselves.
    monkeypatch.setattr("synthesis.llm.client.FIRST_WAIT_S", 0.02)
    before = KINDS.get("run_batch")
    use_table()
    yield
    if before is not None:
        KINDS["run_batch"] = before
