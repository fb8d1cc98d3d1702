"""Keys of themes: readable, safe in a content path, and the same for the same content everywhere."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata

SLUG = 48
DIGITS = 10
APART = "@"
KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,119}")


def build_theme_key(name: str, *content: object) -> str:
    """Return `hotel-front-desk-` and 10 hex digits of the hashed content."""
    text = json.dumps([name, *content], sort_keys=True, ensure_ascii=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
    return f"{build_slug(name)}-{digest}"


def build_version_key(key: str, *content: object) -> str:
    """Return the key of an existing environment's version: its own key, and 10 hex digits of its content after `@`."""
    begin = key if KEY.fullmatch(key) else build_slug(key)
    return f"{begin}{APART}{build_theme_key('', key, *content)[-DIGITS:]}"


def get_theme_key(path: str) -> str:
    """Return the key of the theme that an item belongs to, by the item's content path."""
    return path.partition("/")[0].partition(APART)[0]


def build_slug(name: str) -> str:
    """Return lower-case ASCII words with hyphens; `theme` if nothing is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
    return words[:SLUG].rstrip("-") or "theme"
