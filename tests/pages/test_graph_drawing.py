"""Drawn graphs: nodes on levels that do not overlap, links that point the right way, bounds, hostile labels."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import pytest
from django.template.loader import render_to_string

from tests.fixtures.pages_seed import EVIL
from webapp.environments.graph_drawing.graph_shapes import (
    MOST_LINKS,
    MOST_NODES,
    GraphLink,
    GraphNode,
    draw_graph,
)
from webapp.environments.graph_drawing.layered_layout import lay_out_nodes


def crossings(levels: tuple[int, ...], places: tuple[float, ...], links: list[tuple[int, int]]) -> int:
    """Of links between neighbouring levels."""
    found = 0
    for (a, b), (c, d) in combinations(links, 2):
        if levels[a] == levels[c] and levels[b] == levels[d]:
            found += (places[a] - places[c]) * (places[b] - places[d]) < 0
    return found


@pytest.mark.parametrize("seed", range(12))
def test_nodes_of_a_level_stand_apart_and_links_lead_down_but_for_those_that_close_cycles(seed: int) -> None:
    random = Random(seed)
    count = random.randint(2, 40)
    drawn = {(random.randrange(count), random.randrange(count)) for _ in range(random.randint(1, 120))}
    links = [(source, target) for source, target in sorted(drawn) if source != target]
    layout = lay_out_nodes(count, links, widest=6)
    assert layout == lay_out_nodes(count, links, widest=6)
    for source, target in links:
        down = layout.levels[target] - layout.levels[source]
        assert (down < 0) == ((source, target) in layout.upward)
        assert len(layout.between[source, target]) == abs(down) - 1
    for level in set(layout.levels):
        row = sorted(layout.places[node] for node in range(count) if layout.levels[node] == level)
        assert len(row) <= 6
        assert all(right - left > 0.999 for left, right in pairwise(row))
    assert min([*layout.places, *(place for route in layout.between.values() for place in route)]) >= -1e-9


def test_an_order_without_crossings_is_found_and_given_levels_are_kept() -> None:
    links = [(0, 5), (1, 4), (2, 3), (3, 6), (4, 6), (5, 6)]
    layout = lay_out_nodes(7, links, [0, 0, 0, 1, 1, 1, 4])
    assert layout.levels == (0, 0, 0, 1, 1, 1, 4)
    assert crossings(layout.levels, layout.places, links) == 0
    assert layout.upward == frozenset()
    assert lay_out_nodes(1, []).places == (0.0,)


def test_a_graph_that_nobody_could_read_is_not_drawn() -> None:
    nodes = [GraphNode(str(number), f"tool_{number}") for number in range(MOST_NODES + 1)]
    assert draw_graph([], []) is None
    assert draw_graph(nodes, []) is None
    links = [GraphLink(a, b) for a, b in combinations(range(40), 2)][: MOST_LINKS + 1]
    assert draw_graph(nodes[:40], links) is None
    assert draw_graph(nodes[:40], links[:MOST_LINKS]) is not None


def test_words_beside_links_do_not_cover_each_other_and_hostile_ones_stay_text() -> None:
    nodes = [GraphNode(str(number), f"{EVIL}{number}", title=EVIL, href="?a=1") for number in range(6)]
    links = [GraphLink(number, 5, words="parameter_name", title=EVIL) for number in range(4)]
    links.append(GraphLink(5, 4, words=EVIL, kind="weak"))
    drawing = draw_graph(nodes, links)
    assert drawing is not None
    boxes = [(shape.x, shape.y, shape.x + 6.7 * len(shape.words)) for shape in drawing.links]
    for (x, y, end), (other_x, other_y, other_end) in combinations(boxes, 2):
        assert abs(y - other_y) >= 10 or end <= other_x or other_end <= x
    html = render_to_string("parts/graph.html", {"drawing": drawing, "graph_id": "g", "graph_words": EVIL})
    assert "<script" not in html
    assert "<img" not in html
    assert "\u202e" not in html
