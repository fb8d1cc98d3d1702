"""Live updates over HTTP, at the real server."""

from __future__ import annotations

import contextlib
import http.client
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from django.conf import settings
from django.test import Client

from tests.fixtures import pages_seed
from tests.fixtures.processes import child_environment, launch, wait_for
from webapp.accounts.models import Role, User
from webapp.common.events.services import publish_topics
from webapp.stack.services import build_web_service

pytestmark = pytest.mark.django_db(transaction=True)


def cookie(user: User) -> str:
    client = Client()
    client.force_login(user)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


@contextlib.contextmanager
def stream(site: str, user: User, topic: str = "job:1", **headers: str) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(urlsplit(site).netloc, timeout=10)
    connection.request("GET", f"/events/?topic={topic}", headers={"Cookie": cookie(user), **headers})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    try:
        yield answer
    finally:
        connection.close()
        answer.close()


def read(answer: http.client.HTTPResponse, event: str) -> dict[str, str]:
    """The fields of the next event of this kind."""
    fields: dict[str, str] = {}
    while True:
        line = answer.readline().decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields.get("event") == event:
            return fields
        else:
            fields = {}


def test_two_browsers_hear_a_change_and_a_third_catches_up(site_process: str) -> None:
    user = pages_seed.person(Role.VIEWER)
    with stream(site_process, user) as one, stream(site_process, user) as two:
        start = read(one, "hello")["id"]
        read(two, "hello")
        publish_topics(["job:1"])
        assert read(one, "change") == read(two, "change")
    with stream(site_process, user, **{"Last-Event-ID": start}) as late:
        assert read(late, "change")["data"] == "job:1"


def test_open_streams_hold_no_connection_of_the_pool(site_process: str) -> None:
    """The pool has eight; twice as many streams are open, and pages are served."""
    people = [pages_seed.person(role) for role in (Role.VIEWER, Role.ANNOTATOR)]
    with contextlib.ExitStack() as stack:
        for user in people:
            for _ in range(8):
                read(stack.enter_context(stream(site_process, user)), "hello")
        connection = http.client.HTTPConnection(urlsplit(site_process).netloc, timeout=10)
        connection.request("GET", "/jobs/", headers={"Cookie": cookie(people[0])})
        assert connection.getresponse().status == 200
        connection.close()


def test_who_may_not_look_gets_no_stream(site_process: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(site_process).netloc, timeout=10)
    connection.request("GET", "/events/?topic=job:1")
    assert connection.getresponse().status == 302
    connection.close()


@pytest.mark.parametrize("query", ["", "?topic=", "?topic=secret:1", "?topic=job:1%0Adata:x", "?topic=job:x"])
def test_topics_are_those_there_are(client: Client, query: str) -> None:
    client.force_login(pages_seed.person(Role.VIEWER))
    assert client.get(f"/events/{query}").status_code == 400


@pytest.mark.slow
def test_a_stop_does_not_wait_for_open_streams(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = list(map(str, build_web_service({}, port).command))
    server = launch(command, tmp_path / "site.log", child_environment(ENVARIUM_WEB_PROCESSES="2"))
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: _listens(port), what="the site")
        with stream(url, pages_seed.person(Role.VIEWER)) as answer:
            read(answer, "hello")
            serving = psutil.Process(server.pid).children()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(timeout=10) == 0
            assert serving
            assert not any(one.is_running() for one in serving)
    finally:
        server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
