"""Addresses that requests may go to: public https, and the hosts that the server's settings list."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings

from synthesis.errors import InputError, LLMError
from synthesis.llm.reach import Reach, find_refused_address, get_address_kind, resolve_addresses


def check_address(url: str, *, vouched: bool = False) -> Reach | None:
    """Return the kinds of networks that connections to an address may reach; None if any, since the address is listed,
    or `vouched` for as part of the server's own start. Raises InputError for a forbidden address; LLMError if the name
    is unknown.

    It is checked when an endpoint is saved and before each use, so that a person sees the error; each connection checks
    again and goes to the very address that it checked, because a name may point elsewhere by then.
    """
    require_plain_address(url)
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise InputError(f"The address {url} has no usable port.") from None
    if vouched or {host, f"{host}:{port}"} & {entry.lower() for entry in settings.ENDPOINT_HOSTS}:
        return None
    reach = _get_allowed_reach(parts.scheme)
    try:
        address = find_refused_address(resolve_addresses(host, port), reach)
    except (OSError, UnicodeError):
        raise LLMError("unreachable", f"The name {host} is not known to this machine. Is it spelled right?") from None
    if address is None:
        return reach
    if get_address_kind(address) != "public":
        raise InputError(
            f"{host} is inside a private network, or may lead into one ({address}). Requests go there only if the "
            f"operator of the server lists it: ENVARIUM_ENDPOINT_HOSTS={host}:{port}"
        )
    raise InputError(
        f"The address {url} is not https: a key would travel in the clear. Use https, or list the host at start: "
        f"ENVARIUM_ENDPOINT_HOSTS={host}:{port}"
    )


def require_plain_address(url: str) -> None:
    """Raise InputError if the address has characters that no address has.

    Parsers drop some of them or take them for others (full-width digits for digits), each in its own way: the address
    that is checked and the one that is connected to could differ.
    """
    odd = next((letter for letter in url if not "!" <= letter <= "~" or letter in '"<>\\^`{|}'), None)
    if odd is not None:
        raise InputError(
            f"The address {url[:100]!a} has the character {odd!a}, which no address has. Spell a name of other letters "
            "as xn--…, and other characters in a path as %XX."
        )


def _get_allowed_reach(scheme: str) -> Reach:
    """Return public addresses over TLS; in development loopback as well."""
    public: Reach = frozenset({"public"} if scheme == "https" else ())
    return public if settings.PRODUCTION else public | {"loopback"}
