"""Canonical form of a blueprint: isomorphic blueprints have one form, and so one hash.

Colours are refined until they no longer separate nodes; if several nodes still share one, each of them is tried as the
first, and the smallest form counts. Nodes with the same neighbours are interchangeable, so one of them is enough.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from synthesis.contracts.blueprints import Blueprint, BlueprintNode
from synthesis.syntax import UNREADABLE, parse_module
from synthesis.tool_graph.derivations import iter_read_keys

MOST_TRIED = 2_000
"""So many orders are compared; beyond that the first one counts, and two isomorphic blueprints may differ."""
Edge = tuple[int, int, str]


def hash_blueprint(blueprint: Blueprint) -> str:
    """Return the SHA-256, in hex, of the canonical form: tools with their arguments, derivations and edges, independent
    of the order and the names of nodes.
    """
    places = {node.id: place for place, node in enumerate(blueprint.nodes)}
    labels = [_label_node(node) for node in blueprint.nodes]
    reads = {node.id: _list_reads(node.derivation) for node in blueprint.nodes if node.kind == "reason"}
    edges = [
        (
            places[edge.source],
            places[edge.target],
            f"{edge.kind}:{edge.parameter}:{_format_places(edge.source, reads.get(edge.target, []))}",
        )
        for edge in blueprint.edges
    ]
    return hashlib.sha256(json.dumps(find_canonical_form(labels, edges)).encode("ascii")).hexdigest()


def find_canonical_form(labels: Sequence[str], edges: Sequence[Edge]) -> list[Any]:
    """Return the labels in canonical order, and the edges between their places, sorted."""
    search = _Search(labels, list(dict.fromkeys(edges)))
    search.explore(search.refine(_rank_values(list(labels))))
    assert search.best is not None
    return search.best


class _Search:
    def __init__(self, labels: Sequence[str], edges: Sequence[Edge]) -> None:
        self._labels = labels
        self._edges = edges
        self._into: list[list[tuple[int, str]]] = [[] for _ in labels]
        self._out: list[list[tuple[int, str]]] = [[] for _ in labels]
        for source, target, label in edges:
            self._out[source].append((target, label))
            self._into[target].append((source, label))
        self._left = MOST_TRIED
        self.best: list[Any] | None = None

    def refine(self, colours: list[int]) -> list[int]:
        """Refine colours by those of the neighbours, until nothing changes."""
        while True:
            signatures = [
                (
                    colours[node],
                    sorted((label, colours[other]) for other, label in self._into[node]),
                    sorted((label, colours[other]) for other, label in self._out[node]),
                )
                for node in range(len(colours))
            ]
            finer = _rank_values(signatures)
            if finer == colours:
                return colours
            colours = finer

    def explore(self, colours: list[int]) -> None:
        """Compare the forms of all orders that the colours allow."""
        cell = self._first_cell(colours)
        if not cell:
            self._left -= 1
            form = self._build_form(colours)
            if self.best is None or form < self.best:
                self.best = form
            return
        for node in cell[:1] if self._are_twins(cell) or self._left <= 0 else cell:
            # The chosen node comes before the others of its colour: ranks have gaps of the size of a cell.
            self.explore(self.refine(_rank_values([(colour, other != node) for other, colour in enumerate(colours)])))

    def _first_cell(self, colours: list[int]) -> list[int]:
        cells: dict[int, list[int]] = {}
        for node, colour in enumerate(colours):
            cells.setdefault(colour, []).append(node)
        return next((cells[colour] for colour in sorted(cells) if len(cells[colour]) > 1), [])

    def _are_twins(self, cell: list[int]) -> bool:
        around = [(sorted(self._into[node]), sorted(self._out[node])) for node in cell]
        return all(one == around[0] for one in around)

    def _build_form(self, colours: list[int]) -> list[Any]:
        ordered = [label for _, label in sorted(zip(colours, self._labels, strict=True))]
        return [ordered, sorted([colours[source], colours[target], label] for source, target, label in self._edges)]


def _rank_values(values: Sequence[Any]) -> list[int]:
    """Return for each value its place among the distinct ones, in order."""
    places: dict[str, int] = {}
    for value in sorted(values):
        places.setdefault(repr(value), len(places))
    return [places[repr(value)] for value in values]


def _label_node(node: BlueprintNode) -> str:
    if node.kind == "tool":
        told = {argument.name: argument.value for argument in node.arguments}
        return f"tool {node.tool} {json.dumps(told, sort_keys=True)}"
    return f"reason {_normalize_code(node.derivation)}"


def _normalize_code(source: str) -> str:
    """Return code without layout, comments and names of nodes; the edges say which node is read at which place."""
    try:
        tree = parse_module(source)
    except UNREADABLE:
        return source
    for key in iter_read_keys(tree):
        key.value = "node"
    return ast.unparse(tree)


def _list_reads(source: str) -> list[str]:
    """Return the nodes that a derivation reads, place by place."""
    try:
        return [str(key.value) for key in iter_read_keys(parse_module(source))]
    except UNREADABLE:
        return []


def _format_places(source: str, reads: Sequence[str]) -> str:
    """Return the places of a derivation at which it reads the node `source`."""
    return ",".join(str(place) for place, name in enumerate(reads) if name == source)
