"""Coverage lists gaps by what there is to fill them with."""

from __future__ import annotations

import pytest

from tests.taxonomy.samples import entries, environment, server
from webapp.taxonomy.coverage import list_covered_labels
from webapp.taxonomy.importer import import_servers

pytestmark = pytest.mark.django_db


def test_gaps_come_first_and_those_with_most_themes_in_front() -> None:
    import_servers(
        entries(
            server(1, primary_label="Education"),
            *(server(number, primary_label="Weather") for number in (2, 3, 4)),
            *(server(number, primary_label="Gaming") for number in (5, 6)),
        )
    )
    environment("one", category="Weather")
    rows, _ = list_covered_labels(None)
    assert [(row.node.name, row.gap) for row in rows] == [
        ("Gaming", "no environments"),
        ("Education", "no environments"),
        ("Weather", "few tasks"),
    ]
    assert [row.node.name for row in list_covered_labels(None, "name")[0]] == ["Education", "Gaming", "Weather"]
