"""Keys of themes: readable, safe in a content path, and the same for the same content wherever it is met."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata

SLUG = 48
DIGITS = 10
APART = "@"
KEY = re.compile(r"[a-z0-9][a-z0-9._-]{0,119}")


def theme_key(name: str, *content: object) -> str:
    """`hotel-front-desk-` and 10 hex digits of what it was made from."""
    text = json.dumps([name, *content], sort_keys=True, ensure_ascii=True, default=str)
    digest = hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
    return f"{slug(name)}-{digest}"


def version_key(key: str, *content: object) -> str:
    """For a version of an environment that is there: its own key, and 10 hex digits of what it is, apart from it."""
    begin = key if KEY.fullmatch(key) else slug(key)
    return f"{begin}{APART}{theme_key('', key, *content)[-DIGITS:]}"


def theme_of(path: str) -> str:
    """The theme that an item belongs to, by the item's content path."""
    return path.partition("/")[0].partition(APART)[0]


def slug(name: str) -> str:
    """Lower-case ASCII words with hyphens; `theme` where nothing of that is left."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
    return words[:SLUG].rstrip("-") or "theme"
