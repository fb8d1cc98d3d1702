"""Bodies at the real server: what is not taken of whom is refused before it is sent, and told in words."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.fixtures import pages_seed
from tests.fixtures.api import token_of
from tests.live.test_site import cookie
from webapp.accounts.models import Role
from webapp.common.rest import bodies

pytestmark = pytest.mark.django_db(transaction=True)
MIB = 1 << 20


def sent(site: str, path: str, size: int, *headers: str) -> tuple[int, str]:
    """Status and body of the answer to a request that declares so many bytes, of which none is sent."""
    return raw(site, path, [*headers, f"Content-Length: {size}"])


def raw(site: str, path: str, headers: list[str], body: bytes = b"") -> tuple[int, str]:
    where = urlsplit(site)
    with socket.create_connection((str(where.hostname), int(where.port or 0)), timeout=20) as connection:
        head = "\r\n".join([f"POST {path} HTTP/1.1", f"Host: {where.netloc}", *headers, "", ""])
        connection.sendall(head.encode() + body)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        return answer.status, answer.read().decode()


def test_bodies_are_refused_by_who_sends_them_before_they_are_sent(site_process: str) -> None:
    train = f"Authorization: Bearer {token_of(pages_seed.person(Role.RESEARCHER), 'read', 'train')}"
    viewer = pages_seed.person(Role.VIEWER)
    reads = f"Authorization: Bearer {token_of(viewer, 'read')}"
    for header in ("X-Nothing: 1", reads, "Authorization: Bearer envr_no_token", "Cookie: sessionid=unknown"):
        status, body = sent(site_process, "/api/v1/files", 100 * MIB, header)
        assert (status, json.loads(body)["error"]["code"]) == (413, "too_large")
        assert "256 KiB are taken" in json.loads(body)["detail"]
    status, body = sent(site_process, "/api/v1/files", 600 * MIB, train)
    assert (status, "257 MiB are taken" in body) == (413, True)
    status, body = sent(site_process, "/training/files/upload/", 100 * MIB, f"Cookie: {cookie(viewer)}")
    assert (status, "<h1>This request is too large</h1>" in body) == (413, True)


def test_large_bodies_follow_each_other_on_one_connection(site_process: str) -> None:
    token = token_of(pages_seed.person(Role.RESEARCHER), "read", "train")
    with httpx.Client(base_url=site_process, headers={"Authorization": f"Bearer {token}"}, timeout=60) as client:
        answers = [client.post("/api/v1/files", content=b" " * (4 * MIB)).status_code for _ in range(4)]
        assert client.get("/api/v1/files").status_code == 200
    assert set(answers) == {422}, "each is answered, though the server paused reading amid the one before it"


def test_a_body_in_chunks_from_a_stranger_is_broken_off(site_process: str) -> None:
    chunk = b"40000\r\n" + b" " * 0x40000 + b"\r\n"
    status, body = raw(site_process, "/api/v1/files", ["Transfer-Encoding: chunked"], chunk * 2)
    assert (status, json.loads(body)["error"]["code"]) == (413, "too_large")


def test_values_of_unknown_keys_are_counted_and_not_built(site_process: str) -> None:
    body = b'{"unknown": [' + b"[]," * (2 * MIB) + b"[]]}"
    token = f"Authorization: Bearer {token_of(pages_seed.person(Role.OPERATOR), 'worker')}"
    headers = [token, "Content-Type: application/json", f"Content-Length: {len(body)}"]
    status, text = raw(site_process, "/api/v1/training/workers", headers, body)
    assert (status, "more than 32 MiB of memory" in json.loads(text)["detail"]) == (400, True)


def test_a_large_body_is_not_taken_where_the_disk_is_nearly_full(settings: Any) -> None:
    assert bodies.find_size_problem(5 * MIB, 9 * MIB) is None
    settings.DISK_RESERVE_MIB = 10**9
    assert bodies.find_size_problem(MIB, 9 * MIB) is None, "what stays in memory needs no disk"
    problem = bodies.find_size_problem(5 * MIB, 9 * MIB)
    assert problem is not None
    assert (problem.status, "ENVARIUM_DISK_RESERVE_MIB" in problem.detail) == (503, True)
