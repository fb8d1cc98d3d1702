"""Addresses behind the names of endpoints: hidden forms are refused, and a name that turns elsewhere leads nowhere."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from synthesis.contracts import Message
from synthesis.errors import InputError, LLMError
from synthesis.llm.client import connect_to_endpoint
from synthesis.llm.reach import get_address_kind
from synthesis.llm.transport import load_certificates
from tests.fixtures import llm
from webapp.endpoints import services
from webapp.endpoints.models import Endpoint

NAME = "models.example"
PUBLIC, HERE, INSIDE = "93.184.216.34", "127.0.0.1", "10.0.0.7"


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        (PUBLIC, "public"),
        ("2606:2800:220:1::1", "public"),
        (HERE, "loopback"),
        ("::1", "loopback"),
        *[
            (address, "inside")
            for address in (
                "0.0.0.0",
                "::",
                "100.64.0.1",
                "169.254.169.254",
                "192.0.0.192",
                "168.63.129.16",
                "3fff::7",
                "192.88.99.1",
                "224.0.0.1",
                "64:ff9b::a00:7",
                "64:ff9b::5db8:d822",
                "64:ff9b:1::a00:7",
                "2002:a00:7::1",
                "2002:7f00:1::",
                "2001:0:4136:e378:8000:63bf:3fff:fdd2",
                "fec0::7",
                "fe80::1",
                "fd00::1",
                "::10.0.0.7",
                "::127.0.0.1",
                "::ffff:0:a00:7",
                "2606:2800:220:1:0:5efe:a00:7",
            )
        ],
    ],
)
def test_what_is_not_plainly_public_is_inside(address: str, kind: str) -> None:
    assert get_address_kind(ipaddress.ip_address(address)) == kind


def answers(monkeypatch: pytest.MonkeyPatch, *turns: list[str]) -> list[str]:
    """What the resolver says of our name, one after the other, then the last again; the list is as long as asked."""
    asked: list[str] = []
    real = socket.getaddrinfo

    def resolver(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host not in (NAME, NAME.encode()):
            return real(host, port, *args, **options)
        asked.append(NAME)
        return [(2, 1, 6, "", (address, port)) for address in turns[min(len(asked), len(turns)) - 1]]

    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    return asked


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[llm.ScriptedServer]:
    """Our name's server on this machine, with TLS that clients of this test believe; `names` are those asked of it."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, NAME)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
    certificate, secret = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    secret.write_bytes(key.private_bytes(*form))
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    load_certificates.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, secret)
    with llm.llm_server([llm.say("Hello.")]) as running:
        running.names = []  # type: ignore[attr-defined]
        context.sni_callback = lambda _socket, name, _context: running.names.append(name)  # type: ignore[attr-defined]
        running.socket = context.wrap_socket(running.socket, server_side=True)
        yield running
    load_certificates.cache_clear()


def ask(endpoint: Any) -> str:
    async def said() -> str:
        async with connect_to_endpoint(endpoint.model_copy(update={"max_retries": 0})) as connection:
            reply = await connection.chat("scripted-1").complete([Message(role="user", content="Hello?")])
            return reply.message.content

    return asyncio.run(said())


def register(server: llm.ScriptedServer) -> Endpoint:
    url = f"https://{NAME}:{server.server_port}/v1"
    return services.save_endpoint(None, services.EndpointChanges("far", url, "sk-secret", ("scripted-1",)))


@pytest.mark.django_db
def test_a_connection_goes_to_the_address_that_was_looked_at(
    server: llm.ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing listens at the first of two.
    asked = answers(monkeypatch, [HERE], [HERE], ["127.0.0.2", HERE], [INSIDE])
    endpoint = services.open_endpoint(register(server))
    assert ask(endpoint) == "Hello."
    assert len(asked) == 3, "once to save, once to open, once to connect, and what was found then is connected to"
    assert server.names == [NAME]  # type: ignore[attr-defined]
    assert server.requests[0]["_headers"]["host"] == f"{NAME}:{server.server_port}"
    with pytest.raises(LLMError, match=rf"leads to {INSIDE} now"):
        ask(endpoint)


@pytest.mark.django_db
@pytest.mark.parametrize("production", [True, False])
def test_a_name_that_turns_inside_between_the_look_and_the_connection_leads_nowhere(
    server: llm.ScriptedServer, monkeypatch: pytest.MonkeyPatch, settings: Any, production: bool
) -> None:
    settings.PRODUCTION = production
    # In development this machine is in reach, but not beside other addresses.
    answers(monkeypatch, [PUBLIC], [PUBLIC], [HERE] if production else [PUBLIC, HERE])
    endpoint = services.open_endpoint(register(server))
    with pytest.raises(LLMError, match=rf"leads to {HERE} now") as error:
        ask(endpoint)
    assert error.value.reason == "refused"
    assert not server.requests


@pytest.mark.django_db
@pytest.mark.parametrize("found", ["64:ff9b::a00:7", "2002:a00:7::1", "fec0::7", "::10.0.0.7", "::ffff:10.0.0.7"])
def test_a_form_that_hides_an_address_inside_is_refused_at_once(
    found: str, server: llm.ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, [found])
    with pytest.raises(InputError, match="private network"):
        register(server)


@pytest.mark.django_db
def test_a_listed_host_is_connected_to_wherever_it_is(
    server: llm.ScriptedServer, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.PRODUCTION, settings.ENDPOINT_HOSTS = True, [NAME]
    answers(monkeypatch, [HERE])
    assert ask(services.open_endpoint(register(server))) == "Hello."
