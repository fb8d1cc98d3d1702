"""Where the tiles of the treemap are drawn: areas in proportion, none outside of its label, none too small to read."""

from __future__ import annotations

import pytest

from tests.taxonomy.samples import entries, server
from webapp.taxonomy.importer import import_servers
from webapp.taxonomy.treemap import load_tiles
from webapp.taxonomy.treemap_layout import WIDE, Box, draw_tiles, is_too_small, squarify_boxes


def test_areas_are_in_proportion_and_fill_the_box() -> None:
    values = [60, 30, 20, 10, 5, 3, 1, 1]
    boxes = squarify_boxes(values, Box(10, 20, 400, 300))
    for value, box in zip(values, boxes, strict=True):
        assert box.width * box.height == pytest.approx(400 * 300 * value / sum(values))
        assert box.left >= 10
        assert box.left + box.width <= 410.001
        assert box.top >= 20
        assert box.top + box.height <= 320.001
    assert max(max(box.width / box.height, box.height / box.width) for box in boxes) < 3
    assert squarify_boxes([], Box(0, 0, 1, 1)) == []


@pytest.mark.django_db
def test_small_labels_are_drawn_as_one_tile_that_leads_to_them() -> None:
    servers = [
        server(number, primary_label="Weather", secondary_labels=[f"Field {number}"], custom_label=None)
        for number in range(90)
    ]
    servers += [
        server(2000 + number, primary_label="Gaming", secondary_labels=[], custom_label=None) for number in range(600)
    ]
    import_servers(entries(*servers))
    drawn = draw_tiles(load_tiles(None, "themes"), None, WIDE)
    weather = next(tile for tile in drawn if tile.name == "Weather")
    assert weather.kind == "inner", "none of its ninety equal labels could be read"
    assert "map/?node=" in weather.url
    servers += [
        server(1000 + number, primary_label="Weather", secondary_labels=["Storms"], custom_label=None)
        for number in range(90)
    ]
    import_servers(entries(*servers))
    drawn = draw_tiles(load_tiles(None, "themes"), None, WIDE)
    weather = next(tile for tile in drawn if tile.name == "Weather")
    rest = next(tile for tile in drawn if tile.kind == "rest" and "smaller" in tile.name)
    assert weather.kind == "outer"
    assert rest.url == weather.url
    assert sum(tile.value for tile in drawn if tile.kind != "outer") == 780
    assert not any(is_too_small(tile.box) for tile in drawn if tile.kind == "inner")
