"""Jobs of these tests run where the test says: a worker that other tests started is not told of them."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _by_hand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "worker_process" not in request.fixturenames and request.node.get_closest_marker("kill") is None:
        monkeypatch.setattr("webapp.jobs.services.wake_job", lambda job_id, queue: None)
