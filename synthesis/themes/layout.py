"""Themes on a plane by the similarity of their texts; deterministic.

EnvScaler's Figure 8(a) embeds theme descriptions and draws them by t-SNE. Here a few texts are drawn by classical
scaling of cosine distances, which has no parameter. That makes one cloud of thousands, so many texts start from there
and are moved: each is pulled to its nearest neighbours and pushed from others, as UMAP does, in a fixed number of
steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.themes.vectors import Vectoriser, local

SCALED_UP_TO = 60
NEIGHBOURS = 12
STEPS = 120
PUSHES = 4
"""In each step every text is pushed from so many others, drawn at random with a fixed seed."""
PULL, PUSH, CENTRE = 3.0, 0.4, 0.02
"""Strengths, chosen by eye on 2,120 real themes; `CENTRE` keeps small groups from drifting away."""
FARTHEST = 4.0
BLOCK = 512
"""Rows of the similarities that are in memory at once."""


@dataclass(frozen=True)
class MapPosition:
    """Position of a theme, from 0 to 1 both ways, and the theme most similar to it; None if it is alone."""

    x: float
    y: float
    nearest: int | None
    similarity: float


def compute_layout(texts: Sequence[str], vectoriser: Vectoriser = local) -> list[MapPosition]:
    """Return one position for each text, in their order. Blocks for some seconds for thousands of texts."""
    if len(texts) < 2:
        return [MapPosition(0.5, 0.5, None, 0.0) for _ in texts]
    import numpy

    rows = vectoriser(texts)
    near, likeness = _find_neighbours(rows, min(NEIGHBOURS, len(texts) - 1))
    points = _scale_distances(rows)
    if len(texts) > SCALED_UP_TO:
        points = _move_neighbours(points, near, likeness)
    points = _fit_square(points)
    return [
        MapPosition(float(x), float(y), int(near[at, 0]), float(numpy.clip(likeness[at, 0], 0.0, 1.0)))
        for at, (x, y) in enumerate(points)
    ]


def _find_neighbours(rows: Any, number: int) -> tuple[Any, Any]:
    """Return the most similar other texts of each, the most similar first, and their similarity."""
    import numpy

    neighbours, likeness = [], []
    for start in range(0, rows.shape[0], BLOCK):
        product = rows[start : start + BLOCK] @ rows.T
        alike = numpy.asarray(product.todense() if hasattr(product, "todense") else product, dtype=float)
        alike[range(len(alike)), range(start, start + len(alike))] = -1.0
        order = numpy.argsort(-alike, axis=1, kind="stable")[:, :number]
        neighbours.append(order)
        likeness.append(numpy.take_along_axis(alike, order, axis=1))
    return numpy.concatenate(neighbours), numpy.concatenate(likeness)


def _scale_distances(rows: Any) -> Any:
    """Return each text's position on the two axes on which squared distances (1 - cosine) differ most."""
    import numpy
    from scipy.sparse.linalg import LinearOperator, eigsh

    size = rows.shape[0]

    def centred_product(vector: Any) -> Any:
        vector = numpy.ravel(vector)
        product = rows @ (rows.T @ (vector - vector.mean()))
        return product - product.mean()

    operator = LinearOperator((size, size), matvec=centred_product, dtype=float)
    if size > SCALED_UP_TO:
        values, vectors = eigsh(operator, k=2, v0=numpy.linspace(1.0, 2.0, size))
    else:
        values, vectors = numpy.linalg.eigh(operator @ numpy.eye(size))
    order = numpy.argsort(values)[::-1][:2]
    axes = vectors[:, order] * numpy.sqrt(numpy.clip(values[order], 0.0, None))
    # An eigenvector has no sign of its own: its largest part is made positive.
    largest = numpy.abs(axes).argmax(axis=0)
    return axes * numpy.where(axes[largest, range(axes.shape[1])] < 0, -1.0, 1.0)


def _move_neighbours(points: Any, near: Any, likeness: Any) -> Any:
    """Return positions in which neighbours lie together, moved from `points` in steps that become shorter."""
    import numpy

    random = numpy.random.default_rng(0)
    size, number = near.shape
    ends, begins = near.ravel(), numpy.repeat(numpy.arange(size), number)
    weights = numpy.maximum(likeness, 0.0)
    weights = (weights / weights.max(axis=1, keepdims=True).clip(1e-9)).ravel()
    places = numpy.clip(points / (points.std() or 1.0) * 3.0, -9.0, 9.0)

    def add_up(index: Any, forces: Any) -> Any:
        return numpy.stack([numpy.bincount(index, forces[:, axis], size) for axis in (0, 1)], axis=1)

    for step in range(STEPS):
        apart = places[begins] - places[ends]
        pull = -2.0 * weights / (1.0 + (apart**2).sum(axis=1))
        pulls = numpy.clip(pull[:, None] * apart, -FARTHEST, FARTHEST) * (PULL / number)
        forces = add_up(begins, pulls) - add_up(ends, pulls) - CENTRE * places
        for _ in range(PUSHES):
            apart = places - places[random.permutation(size)]
            square = (apart**2).sum(axis=1)
            push = 2.0 / ((0.05 + square) * (1.0 + square))
            forces += PUSH * numpy.clip(push[:, None] * apart, -FARTHEST, FARTHEST)
        places = places + (1.0 - step / STEPS) * numpy.clip(forces, -FARTHEST, FARTHEST)
    return places


def _fit_square(points: Any) -> Any:
    """Return the points moved and scaled into the unit square.

    Few points are scaled equally both ways, many are stretched to fill it, with the outermost one percent on its edges.
    """
    import numpy

    if len(points) <= SCALED_UP_TO:
        low, high = points.min(axis=0), points.max(axis=0)
        span = float((high - low).max()) or 1.0
        return numpy.clip((points - (low + high) / 2) / span + 0.5, 0.0, 1.0)
    low, high = numpy.percentile(points, [0.5, 99.5], axis=0)
    return numpy.clip((points - low) / numpy.maximum(high - low, 1e-9), 0.0, 1.0)
