"""Likeness of environments to a given set, in topic and tools (EnvScaler 5.3).

An environment's text (name, summary, names and descriptions of its tools) is compared with the mean of the set's, by
n-grams that need no model. The mean, and n-grams instead of an embedding, are our choice: the paper says only "textual
embeddings".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Q

from synthesis.errors import InputError
from synthesis.themes.dedupe import build_theme_text
from synthesis.themes.vectors import local
from webapp.datasets.choice.apart import get_frozen_datasets, load_held_names
from webapp.datasets.row_names import environment_name
from webapp.datasets.selection import Likeness
from webapp.environments.models import Environment
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.queries import select_subtree

CHUNK = 500
MOST_GIVEN = 20_000
"""Number of environments of a given set that are compared, starting with the first."""


def get_comparison_set(likeness: Likeness) -> set[int]:
    """Return the environments to compare with. Raises InputError: none of them exists here."""
    rows = Environment.objects.all()
    if likeness.dataset:
        (dataset,) = get_frozen_datasets([likeness.dataset], "likeness.dataset")
        names = load_held_names(dataset).environments
        environments = {
            pk for pk, *named in rows.values_list("pk", "source", "key") if environment_name(*named) in names
        }
    elif likeness.category is not None:
        node = find_present_node(likeness.category)
        environments = set(rows.filter(node__in=select_subtree(node)).values_list("pk", flat=True)) if node else set()
    elif likeness.source:
        environments = set(rows.filter(source=likeness.source).values_list("pk", flat=True))
    else:
        environments = set(rows.filter(pk__in=likeness.environments).values_list("pk", flat=True))
    if not environments:
        raise InputError("selection.likeness: no environment of the set to compare with is here")
    return environments


def compute_similarities(
    environments: Sequence[int], given: set[int], tell: Callable[[int], None] = lambda done: None
) -> list[float]:
    """Return how similar each environment is to the given set, 0 to 1. The callback gets the number done; it may
    raise."""
    import numpy as np  # with scikit-learn, so only loaded for a comparison

    mean: Any = None
    compared_set = sorted(given)[:MOST_GIVEN]
    for texts in _iter_environment_texts(compared_set):
        total = np.asarray(local(texts).sum(axis=0)).ravel()
        mean = total if mean is None else mean + total
    mean = mean / len(compared_set)
    likenesses: list[float] = []
    for texts in _iter_environment_texts(environments):
        likenesses += (local(texts) @ mean).tolist()
        tell(len(likenesses))
    return likenesses


def _iter_environment_texts(pks: Sequence[int]) -> Iterator[list[str]]:
    """Yield the texts that environments are compared by, in the order of their keys, a chunk at a time."""
    of_version = Q(current__tools__isnull=False)
    for start in range(0, len(pks), CHUNK):
        chunk = pks[start : start + CHUNK]
        rows = (
            Environment.objects.filter(pk__in=chunk)
            .annotate(
                names=ArrayAgg("current__tools__name", order_by="current__tools__position", filter=of_version),
                words=ArrayAgg("current__tools__description", order_by="current__tools__position", filter=of_version),
            )
            .values_list("pk", "name", "summary", "names", "words")
        )
        by_pk = {
            pk: build_theme_text(
                name, summary, [f"{tool} {word}" for tool, word in zip(names or (), words or (), strict=True)]
            )
            for pk, name, summary, names, words in rows
        }
        yield [by_pk[pk] for pk in chunk]
