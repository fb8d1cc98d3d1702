"""Web processes on one socket: one that is killed is replaced while the others answer, and each hears of changes."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from tests.fixtures import pages_seed
from tests.fixtures.processes import child_environment, site, wait_for
from tests.live.test_site import cookie, read
from webapp.accounts.models import Role, User
from webapp.common.events.services import publish_topics

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.xdist_group("web processes")]


class Tier:
    """The site with two web processes."""

    def __init__(self, url: str) -> None:
        self.url, self.port = url, int(urlsplit(url).port or 0)
        listening = [one for one in psutil.Process().children(recursive=True) if self._listens(one)]
        self.parent = next(one for one in listening if one.ppid() == os.getpid())

    def _listens(self, process: psutil.Process) -> bool:
        try:
            return any(one.laddr.port == self.port for one in process.net_connections())
        except psutil.Error:
            return False

    def serving(self) -> list[psutil.Process]:
        return [one for one in self.parent.children() if self._listens(one)]

    def process_of(self, connection: http.client.HTTPConnection) -> int:
        """Which process has this connection."""
        mine = connection.sock.getsockname()[1]
        for process in self.serving():
            if any(one.raddr and one.raddr.port == mine for one in process.net_connections()):
                return process.pid
        return 0


@pytest.fixture(scope="module")
def tier(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    with site(tmp_path_factory.mktemp("tier"), ENVARIUM_WEB_PROCESSES="2") as url:
        found = Tier(url)
        wait_for(lambda: len(found.serving()) == 2, what="two web processes")
        yield found


def test_the_parent_holds_nothing_that_must_not_be_forked(tier: Tier) -> None:
    assert tier.parent.num_threads() == 1
    assert [one.laddr.port for one in tier.parent.net_connections("all") if one.laddr] == [tier.port]
    assert {one.pid for one in tier.parent.children()} == {one.pid for one in tier.serving()}


class Stream(http.client.HTTPConnection):
    """A browser's stream of live updates."""

    def begin(self, user: User) -> http.client.HTTPResponse:
        self.request("GET", "/events/?topic=job:1", headers={"Cookie": cookie(user)})
        answer = self.getresponse()
        read(answer, "hello")
        return answer


def test_a_change_reaches_browsers_at_either_process(tier: Tier) -> None:
    user, streams = pages_seed.person(Role.VIEWER), dict[int, list[Any]]()
    opened = []
    try:
        for _ in range(8):
            connection = Stream(urlsplit(tier.url).netloc, timeout=20)
            opened.append(connection)
            answer = connection.begin(user)
            streams.setdefault(tier.process_of(connection), []).append(answer)
            if len(streams) < 2:  # the other process takes the next one while this one does not answer
                os.kill(next(iter(streams)), signal.SIGSTOP)
        for pid in streams:
            os.kill(pid, signal.SIGCONT)
        assert len(streams) == 2
        publish_topics(["job:1"])
        for answer in (one for held in streams.values() for one in held):
            assert read(answer, "change")["data"] == "job:1"
    finally:
        for process in tier.serving():
            process.send_signal(signal.SIGCONT)
        for connection in opened:
            connection.close()


def test_connections_that_are_kept_are_spread_evenly(tier: Tier) -> None:
    kept = [http.client.HTTPConnection(urlsplit(tier.url).netloc, timeout=20) for _ in range(8)]
    try:
        for connection in kept:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        held = Counter(tier.process_of(connection) for connection in kept)
        assert sorted(held.values()) == [4, 4], held
        for connection in kept:  # those of one process go, and the next ones come to it
            if tier.process_of(connection) == min(held):
                connection.close()
        wait_for(lambda: sum(tier.process_of(one) == min(held) for one in kept if one.sock) == 0, what="closed ones")
        again = [http.client.HTTPConnection(urlsplit(tier.url).netloc, timeout=20) for _ in range(4)]
        kept += again
        for connection in again:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        assert {tier.process_of(connection) for connection in again} == {min(held)}
    finally:
        for connection in kept:
            connection.close()


def test_the_site_answers_while_one_process_is_killed_and_replaced(tier: Tier) -> None:
    headers = {"Cookie": cookie(pages_seed.person(Role.VIEWER))}
    over, answers, broken = threading.Event(), list[tuple[float, int]](), list[float]()

    def ask() -> None:
        while not over.is_set():
            try:  # a connection of its own each time: one that the killed process held can but break
                answers.append((time.monotonic(), httpx.get(f"{tier.url}/jobs/", headers=headers).status_code))
            except httpx.TransportError:
                broken.append(time.monotonic())

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for thread in asking:
        thread.start()
    try:
        wait_for(lambda: len(answers) > 20, seconds=60, what="answers")
        for _ in range(3):
            gone, kept = tier.serving()
            killed = time.monotonic()
            gone.kill()
            # The killed process is listed, and listens, for a moment longer: it is not the one that replaces it.
            wait_for(lambda: {kept.pid} < {one.pid for one in tier.serving()} - {gone.pid}, what="another")  # noqa: B023
            wait_for(lambda: sum(at > killed for at, _ in answers) > 10, seconds=60, what="answers")  # noqa: B023
    finally:
        over.set()
        for thread in asking:
            thread.join()
    assert {status for _, status in answers} == {200}
    assert len(broken) <= 9, "only what the killed processes were about to answer"
    assert tier.parent.is_running()


def test_a_port_that_is_taken_is_said_before_anything_is_loaded(tier: Tier) -> None:
    again = subprocess.run(tier.parent.cmdline(), env=child_environment(), capture_output=True, text=True, timeout=60)
    assert again.returncode != 0
    assert "address already in use" in again.stderr.lower()


def test_none_outlives_a_killed_parent(tier: Tier) -> None:
    """The last of this file: the site is gone then."""
    family = tier.parent.children()
    tier.parent.kill()
    wait_for(lambda: not any(one.is_running() for one in family), what="the processes' end")
