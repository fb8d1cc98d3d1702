"""Jobs of these tests run where the test says: a worker that other tests started is not told of them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
