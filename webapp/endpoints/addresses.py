"""Which addresses requests may go to: public https, and what whoever starts the server has named."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from django.conf import settings

from synthesis.errors import InputError, LLMError


def check_address(url: str, *, vouched: bool = False) -> None:
    """Refuse an address that a request of ours must not go to. Raises InputError; LLMError if the name is unknown.

    Looked at when an endpoint is saved and again before each use, because a name may point elsewhere by then.
    `vouched`: it came with the server's own start.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise InputError(f"The address {url} has no usable port.") from None
    if vouched or {host, f"{host}:{port}"} & {entry.lower() for entry in settings.ENDPOINT_HOSTS}:
        return
    addresses = _resolve(host, port)
    if all(address.is_loopback for address in addresses) and not settings.PRODUCTION:
        return
    inside = next((address for address in addresses if not address.is_global or address.is_multicast), None)
    if inside is not None:
        raise InputError(
            f"{host} is inside a private network ({inside}). Requests go there only if whoever starts the server lists "
            f"it: ENVARIUM_ENDPOINT_HOSTS={host}:{port}"
        )
    if parts.scheme != "https":
        raise InputError(
            f"The address {url} is not https: a key would travel in the clear. Use https, or list the host at start: "
            f"ENVARIUM_ENDPOINT_HOSTS={host}:{port}"
        )


def _resolve(host: str, port: int) -> list[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    try:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise LLMError("unreachable", f"The name {host} is not known to this machine. Is it spelled right?") from None
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in known]
    # ::ffff:10.0.0.1 is 10.0.0.1.
    return [getattr(address, "ipv4_mapped", None) or address for address in addresses]
