"""The addresses that connections of an endpoint may go to, by the kind of address."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Sequence
from typing import Any, Literal

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressKind = Literal["public", "loopback", "inside"]
Reach = frozenset[Literal["public", "loopback"]]
"""What kinds of addresses connections may go to. Empty: none."""

_UNICAST = ipaddress.ip_network("2000::/3")
"""All that IPv6 has given out. NAT64, site-local, translated and IPv4-compatible addresses are not among it."""
_AWAY = [ipaddress.ip_network(text) for text in ("2001::/32", "2002::/16", "192.88.99.0/24")]
"""Teredo and 6to4, which lead to whatever IPv4 address is written inside, and the relay to the latter."""
_AWAY += [ipaddress.ip_network(text) for text in ("192.0.0.0/24", "168.63.129.16/32", "3fff::/20")]
"""What older Pythons take for public: IETF protocols (Oracle's metadata among them), Azure's host, documentation."""
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""The third quarter of an address whose last quarter is an IPv4 address to be tunnelled to."""


def get_address_kind(address: Address) -> AddressKind:
    """Return the kind of an address: `inside` is any that is not plainly public, or hides an IPv4 address in IPv6."""
    if address.is_loopback:
        return "loopback"
    plain = address.is_global and not address.is_multicast and not any(address in network for network in _AWAY)
    if address.version == 6:
        plain = plain and address in _UNICAST and (int(address) >> 32) & 0xFFFF_FFFF not in _ISATAP
    return "public" if plain else "inside"


def find_refused_address(addresses: Sequence[Address], reach: Reach) -> Address | None:
    """Return the first address of a name that is out of reach.

    A name that is loopback and something else is refused too.
    """
    kinds = [get_address_kind(address) for address in addresses]
    if set(kinds) == {"loopback"}:
        return None if "loopback" in reach else addresses[0]
    first = next((address for address, kind in zip(addresses, kinds, strict=True) if kind != "public"), None)
    return first or (None if "public" in reach else addresses[0])


def list_addresses(found: Iterable[tuple[Any, ...]]) -> list[Address]:
    """Return the addresses that `getaddrinfo` found, each once. ::ffff:10.0.0.1 is 10.0.0.1."""
    addresses = [ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found]
    return list(dict.fromkeys(getattr(address, "ipv4_mapped", None) or address for address in addresses))


def resolve_addresses(host: str, port: int) -> list[Address]:
    """Resolve a host name. Raise OSError, and UnicodeError if it is not a valid name."""
    return list_addresses(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
