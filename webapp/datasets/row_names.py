"""Names of a dataset's rows: those by which another installation knows the same environment, scenario and task."""

from __future__ import annotations

import hashlib
import re

from training.dataset import Names

IDENTITY = 200
UNPRINTABLE = re.compile("[\x00-\x1f\ud800-\udfff]")
NAMED_BY = ("source", "key", "environment__source", "environment__key")
"""Columns of a task that its rows are named by."""


def build_row_names(initial: str, source: str, key: str, owner: str, environment: str) -> Names:
    """Build names from the hash of the initial state and the columns of `NAMED_BY`."""
    return Names(environment_name(owner, environment), initial[:16], to_row_name(f"{source}:{key}"))


def environment_name(source: str, key: str) -> str:
    return to_row_name(f"{source}:{key}")


def to_row_name(text: str) -> str:
    """Return a name as a row may hold it: one too long or not printable keeps its hash, so that names stay distinct."""
    plain = UNPRINTABLE.sub(" ", text)
    if plain == text and len(text) <= IDENTITY:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{plain[: IDENTITY - 17]}-{digest}"
