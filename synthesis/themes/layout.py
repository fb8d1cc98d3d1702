"""Themes on a plane by how alike their texts are: classical scaling of cosine distances, the same picture every time.

EnvScaler's Figure 8(a) embeds theme descriptions and draws them by t-SNE; the two main axes need no seed and no
perplexity, and are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.themes.vectors import Vectoriser, local


@dataclass(frozen=True)
class MapPosition:
    """Where a theme lies, from 0 to 1 both ways, and which other one is most like it; None where it is alone."""

    x: float
    y: float
    nearest: int | None
    similarity: float


def layout(texts: Sequence[str], vectoriser: Vectoriser = local) -> list[MapPosition]:
    """One place a text, in their order. What is alike is near; blocks for about a second the first time."""
    if len(texts) < 2:
        return [MapPosition(0.5, 0.5, None, 0.0) for _ in texts]
    import numpy

    rows = vectoriser(texts)
    product = rows @ rows.T
    alike = numpy.asarray(product.todense() if hasattr(product, "todense") else product, dtype=float)
    points = _unit(_axes(alike))
    numpy.fill_diagonal(alike, -1.0)
    nearest = alike.argmax(axis=1)
    return [
        MapPosition(float(x), float(y), int(other), max(0.0, min(1.0, float(alike[at, other]))))
        for at, ((x, y), other) in enumerate(zip(points, nearest, strict=True))
    ]


def _axes(alike: Any) -> Any:
    """The two axes on which squared distances (1 - cosine) differ most."""
    import numpy

    centred = alike - alike.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    values, vectors = numpy.linalg.eigh((centred + centred.T) / 2)
    axes = vectors[:, ::-1][:, :2] * numpy.sqrt(numpy.clip(values[::-1][:2], 0.0, None))
    # An eigenvector has no sign of its own: its largest part is made positive.
    largest = numpy.abs(axes).argmax(axis=0)
    return axes * numpy.where(axes[largest, range(axes.shape[1])] < 0, -1.0, 1.0)


def _unit(points: Any) -> Any:
    """Moved and shrunk into the unit square, by the same measure both ways."""
    import numpy

    low, high = points.min(axis=0), points.max(axis=0)
    span = float((high - low).max()) or 1.0
    return numpy.clip((points - (low + high) / 2) / span + 0.5, 0.0, 1.0)
