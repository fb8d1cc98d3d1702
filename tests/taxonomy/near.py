"""Servers that are alike, and what a person sees of their groups."""

from __future__ import annotations

from typing import Any

from tests.taxonomy.samples import entries, server
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.models import Theme

WORDS = (
    "Book rooms, check guests in and out, take payments and keep the waiting list of a hotel's front desk{}.",
    "Order samples, release results and keep the instruments of a clinic's laboratory{}.",
    "Rent bikes, dock them again and follow repairs at the stations of a city{}.",
)


def plant() -> None:
    """Three hotels (the third has a few more words), two clinics, one city."""
    rows: list[dict[str, Any]] = [
        server(1, name="Hotel desk", overview=WORDS[0].format(""), usage_count="10"),
        server(2, name="Hotel desk", overview=WORDS[0].format(""), usage_count="500"),
        server(3, name="Hotel desk", overview=WORDS[0].format(" in a town"), usage_count="20"),
        server(4, name="Clinic laboratory", overview=WORDS[1].format(""), usage_count="5"),
        server(5, name="Clinic laboratory", overview=WORDS[1].format(", daily"), usage_count="7"),
        server(6, name="Bikes of a city", overview=WORDS[2].format("")),
    ]
    import_servers(entries(*rows))


def theme(key: int) -> Theme:
    return Theme.objects.get(source="mcp", key=str(key))


def folds() -> dict[str, str]:
    """Every folded theme's key with that of the theme it is folded into; checks what the rows promise."""
    rows = {row.pk: row for row in Theme.objects.all()}
    found = {row.key: rows[row.folded_into_id].key for row in rows.values() if row.folded_into_id}
    for row in rows.values():
        assert row.duplicates == sum(one.folded_into_id == row.pk for one in rows.values()), row
        assert row.folded_into_id is None or rows[row.folded_into_id].folded_into_id is None, "a chain"
    return found
