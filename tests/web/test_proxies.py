"""Where a request comes from: headers of named proxies are read, and nobody else's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.test import RequestFactory

from webapp.accounts.origin import get_client_address
from webapp.asgi import trust_proxies

PROXIES = ["10.0.0.0/8", "127.0.0.1/32"]


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "known"),
    [
        ([], "127.0.0.1", "203.0.113.9", ("http", "127.0.0.1")),
        (PROXIES, "192.0.2.1", "203.0.113.9", ("http", "192.0.2.1")),
        (PROXIES, "127.0.0.1", "203.0.113.9", ("https", "203.0.113.9")),
        (PROXIES, "10.1.2.3", "198.51.100.1, 203.0.113.9, 10.7.7.7", ("https", "203.0.113.9")),
    ],
)
def test_a_forwarded_address_is_believed_of_a_named_proxy(
    proxies: list[str], peer: str, forwarded: str, known: tuple[str, str]
) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["scheme"], scope["client"][0]))

    async def nothing(*_: Any) -> Any:
        return {}

    headers = [(b"x-forwarded-for", forwarded.encode()), (b"x-forwarded-proto", b"https")]
    scope = {"type": "http", "scheme": "http", "client": (peer, 5), "headers": headers}
    asyncio.run(trust_proxies(proxies, app)(scope, nothing, nothing))
    assert seen == [known]


@pytest.mark.parametrize(
    ("peer", "known"), [("::ffff:10.0.0.1", "10.0.0.1"), ("2001:DB8::0:1", "2001:db8::1"), ("", "")]
)
def test_an_address_has_one_spelling(peer: str, known: str) -> None:
    assert get_client_address(RequestFactory().get("/", REMOTE_ADDR=peer)) == known
