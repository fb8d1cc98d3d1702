"""The themes that are most like one, by the n-grams that near-duplicates are found by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db.models import Max, Q

from synthesis.themes.vectors import local
from webapp.taxonomy.models import Grouping, Theme
from webapp.taxonomy.near_duplicates.group_job import load_compared_texts
from webapp.taxonomy.queries import add_tool_names

NEAREST = 8
FOUND = 20
LEAST_LIKE = 0.1
"""Less alike themes have no more than common words in common."""


@dataclass(frozen=True)
class Neighbour:
    """A theme beside the one that is looked at. `similarity` is None if it was found by its name."""

    theme: Theme
    similarity: float | None
    shared: tuple[str, ...]
    """Names of tools that both have."""


@lru_cache(maxsize=1)
def _load_vectors(state: tuple[Any, ...]) -> tuple[list[int], Any]:
    """Return ids and vectors of all themes; `state` is the cache key and changes whenever a theme does."""
    keys, texts = load_compared_texts()
    return keys, local(texts)


def find_nearest_themes(theme: Theme, most: int = NEAREST) -> list[Neighbour]:
    """Return the most similar themes, the most similar first; those folded into it are left out."""
    state = Theme.objects.aggregate(newest=Max("updated_at"), last=Max("pk"))
    keys, vectors = _load_vectors(tuple(state.values()))
    if theme.pk not in keys:
        return []
    likeness = (vectors @ vectors[keys.index(theme.pk)].T).toarray().ravel()
    order = sorted(range(len(keys)), key=lambda at: -likeness[at])
    likeness_by_pk = {keys[at]: float(likeness[at]) for at in order[: most * 4] if likeness[at] >= LEAST_LIKE}
    rows = [
        row for row in _select_themes(Q(pk__in=likeness_by_pk)) if row.pk != theme.pk and row.folded_into_id != theme.pk
    ]
    rows.sort(key=lambda row: -likeness_by_pk[row.pk])
    return _to_neighbours(theme, rows[:most], likeness_by_pk)


def find_themes_by_name(theme: Theme, text: str) -> list[Neighbour]:
    """Return kept themes whose name or description holds a text."""
    holds = Q(name__icontains=text) | Q(description__icontains=text)
    rows = _select_themes(holds & Q(folded_into=None) & ~Q(pk=theme.pk)).order_by("name", "pk")[:FOUND]
    return _to_neighbours(theme, list(rows), {})


def is_compared(theme: Theme) -> bool:
    """Return whether a grouping has included the theme since it was created."""
    return Grouping.objects.filter(at__gte=theme.created_at).exists()


def _select_themes(wanted: Q) -> Any:
    return Theme.objects.filter(wanted).select_related("node__parent__parent")


def _to_neighbours(theme: Theme, rows: list[Theme], likeness: dict[int, float]) -> list[Neighbour]:
    add_tool_names(rows)
    own = set(theme.tools.values_list("name", flat=True))
    shared: dict[int, list[str]] = {row.pk: [] for row in rows}
    tools = Theme.objects.filter(pk__in=shared, tools__name__in=own).values_list("pk", "tools__name")
    for pk, name in tools.order_by("pk", "tools__position"):
        shared[pk].append(name)
    return [Neighbour(row, likeness.get(row.pk), tuple(shared[row.pk])) for row in rows]
