"""Which addresses requests may go to: public https, and what whoever starts the server has named."""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings

from synthesis.errors import InputError, LLMError
from synthesis.llm.reach import Reach, kind_of, refused, resolve


def check_address(url: str, *, vouched: bool = False) -> Reach | None:
    """Where connections to an address may go; None: wherever its name leads, since it is listed, or `vouched` for as
    what came with the server's own start. Raises InputError for one that must not be used; LLMError if the name is
    unknown.

    Looked at when an endpoint is saved and before each use, so that a person is told; each connection looks again and
    goes to the very address that it looked at, because a name may point elsewhere by then.
    """
    require_plain(url)
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise InputError(f"The address {url} has no usable port.") from None
    if vouched or {host, f"{host}:{port}"} & {entry.lower() for entry in settings.ENDPOINT_HOSTS}:
        return None
    reach = _reach_of(parts.scheme)
    try:
        address = refused(resolve(host, port), reach)
    except (OSError, UnicodeError):
        raise LLMError("unreachable", f"The name {host} is not known to this machine. Is it spelled right?") from None
    if address is None:
        return reach
    if kind_of(address) != "public":
        raise InputError(
            f"{host} is inside a private network, or may lead into one ({address}). Requests go there only if whoever "
            f"starts the server lists it: ENVARIUM_ENDPOINT_HOSTS={host}:{port}"
        )
    raise InputError(
        f"The address {url} is not https: a key would travel in the clear. Use https, or list the host at start: "
        f"ENVARIUM_ENDPOINT_HOSTS={host}:{port}"
    )


def require_plain(url: str) -> None:
    """Raises InputError: the address has characters that no address has.

    Parsers drop some of them or take them for others (full-width digits for digits), each in its own way: what is
    looked at and what is connected to could be two addresses.
    """
    odd = next((letter for letter in url if not "!" <= letter <= "~" or letter in '"<>\\^`{|}'), None)
    if odd is not None:
        raise InputError(
            f"The address {url[:100]!a} has the character {odd!a}, which no address has. Spell a name of other letters "
            "as xn--…, and other characters in a path as %XX."
        )


def _reach_of(scheme: str) -> Reach:
    """Public addresses over TLS; in development this machine as well."""
    public: Reach = frozenset({"public"} if scheme == "https" else ())
    return public if settings.PRODUCTION else public | {"loopback"}
