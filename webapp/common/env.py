"""Typed readers of environment variables that fail loudly."""

from __future__ import annotations

import ipaddress
import os

from django.core.exceptions import ImproperlyConfigured

TRUE, FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


def read_text(name: str, default: str = "") -> str:
    return os.environ.get(name, "").strip() or default


def read_boolean(name: str, default: bool) -> bool:
    raw = os.environ.get(name, "").strip().lower()
    if not raw:
        return default
    if raw not in TRUE | FALSE:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a yes or no. Use one of: true, false.")
    return raw in TRUE


def read_integer(name: str, default: int, *, low: int, high: int) -> int:
    raw = os.environ.get(name, "").strip()
    if not raw:
        return default
    if not raw.lstrip("-").isdigit() or not low <= int(raw) <= high:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a whole number from {low} to {high}.")
    return int(raw)


def read_words(name: str, default: list[str]) -> list[str]:
    raw = os.environ.get(name, "")
    return [word.strip() for word in raw.split(",") if word.strip()] or default


def read_networks(name: str) -> list[str]:
    """Return addresses and networks, as `ipaddress` spells them. One that holds every address is refused."""
    spelled = []
    for word in read_words(name, []):
        try:
            network = ipaddress.ip_network(word)
        except ValueError:
            raise ImproperlyConfigured(
                f"{name}: {word!r} is no address and no network. Use such as 127.0.0.1 or 10.0.0.0/8, commas between."
            ) from None
        if not network.prefixlen:
            raise ImproperlyConfigured(f"{name}: {word} is every address there is. Name the proxies.")
        spelled.append(str(network))
    return spelled
