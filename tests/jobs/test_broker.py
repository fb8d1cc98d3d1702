"""The plain client of the broker: what it does while the broker is away."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread

import pytest
import redis

from webapp.common.broker import make_client


@pytest.mark.parametrize("scheme", ["redis", "redis+socket"])
def test_a_broker_that_hangs_up_is_tried_once(scheme: str, tmp_path: Path) -> None:
    """Each request of the API counts in the broker: tried again and again, it answered after twenty seconds."""
    path = tmp_path / "s"
    if scheme == "redis":
        listener = socket.create_server(("127.0.0.1", 0))
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
    else:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(path))
        listener.listen()
        url = f"redis+socket://{path}"
    tried: list[int] = []

    def hang_up() -> None:
        while True:
            try:
                listener.accept()[0].close()
            except OSError:
                return
            tried.append(1)

    thread = Thread(target=hang_up, daemon=True)
    thread.start()
    with pytest.raises(redis.RedisError):
        make_client(url).incr("n")
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)
    assert len(tried) == 1
