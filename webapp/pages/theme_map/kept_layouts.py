"""Layouts of the theme map, stored by the texts that they place."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import astuple

from synthesis.themes.layout import MapPosition, compute_layout
from webapp.pages.models import ThemeLayout

VERSION = 1
"""Raised if `layout` places texts otherwise."""
MOST_KEPT = 50
QUICK_UP_TO = 300
"""So many texts are placed in a part of a second."""


def has_quick_layout(texts: Sequence[str]) -> bool:
    """Return whether the texts are placed at once: they are few, or were placed before."""
    return len(texts) <= QUICK_UP_TO or ThemeLayout.objects.filter(pk=_compute_layout_key(texts)).exists()


def load_layout(texts: Sequence[str]) -> list[MapPosition]:
    """Return the places of the texts; the first time this takes as long as `layout`."""
    key = _compute_layout_key(texts)
    row = ThemeLayout.objects.filter(pk=key).first()
    if row is not None:
        return [MapPosition(*place) for place in row.places]
    places = compute_layout(texts)
    if len(texts) > 1:
        _store_layout(key, places)
    return places


def _store_layout(key: str, places: list[MapPosition]) -> None:
    rows = [(round(x, 4), round(y, 4), near, round(likeness, 4)) for x, y, near, likeness in map(astuple, places)]
    ThemeLayout.objects.bulk_create([ThemeLayout(key=key, places=rows)], ignore_conflicts=True)
    newest = ThemeLayout.objects.order_by("-at").values("pk")[:MOST_KEPT]
    ThemeLayout.objects.exclude(pk__in=list(newest.values_list("pk", flat=True))).delete()


def _compute_layout_key(texts: Sequence[str]) -> str:
    digest = hashlib.sha256(str(VERSION).encode())
    for text in texts:
        digest.update(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest())
    return digest.hexdigest()
