"""Likeness of environments to a given set, in topic and tools (EnvScaler 5.3).

An environment's text (name, summary, names and descriptions of its tools) is compared with the mean of the set's, by
n-grams that need no model. That it is the mean, and n-grams in the place of an embedding, is our choice: the paper says
"textual embeddings" and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Q

from synthesis.errors import InputError
from synthesis.themes.dedupe import theme_text
from synthesis.themes.vectors import local
from webapp.datasets.choice.apart import held_names, named_datasets
from webapp.datasets.row_names import environment_name
from webapp.datasets.selection import Likeness
from webapp.environments.models import Environment
from webapp.taxonomy.former import present_node
from webapp.taxonomy.queries import subtree

CHUNK = 500
MOST_GIVEN = 20_000
"""So many environments of a given set are compared with, its first ones."""


def given_set(likeness: Likeness) -> set[int]:
    """The environments to compare with. Raises InputError: none of them is here."""
    rows = Environment.objects.all()
    if likeness.dataset:
        (dataset,) = named_datasets([likeness.dataset], "likeness.dataset")
        names = held_names(dataset).environments
        found = {pk for pk, *named in rows.values_list("pk", "source", "key") if environment_name(*named) in names}
    elif likeness.category is not None:
        node = present_node(likeness.category)
        found = set(rows.filter(node__in=subtree(node)).values_list("pk", flat=True)) if node else set()
    elif likeness.source:
        found = set(rows.filter(source=likeness.source).values_list("pk", flat=True))
    else:
        found = set(rows.filter(pk__in=likeness.environments).values_list("pk", flat=True))
    if not found:
        raise InputError("selection.likeness: no environment of the set to compare with is here")
    return found


def similarities(
    environments: Sequence[int], given: set[int], tell: Callable[[int], None] = lambda done: None
) -> list[float]:
    """How alike each environment is to the given set, 0 to 1. `tell` is told how many are done; it may raise."""
    import numpy as np  # with scikit-learn, only where something is compared

    mean: Any = None
    some = sorted(given)[:MOST_GIVEN]
    for texts in _texts(some):
        total = np.asarray(local(texts).sum(axis=0)).ravel()
        mean = total if mean is None else mean + total
    mean = mean / len(some)
    found: list[float] = []
    for texts in _texts(environments):
        found += (local(texts) @ mean).tolist()
        tell(len(found))
    return found


def _texts(pks: Sequence[int]) -> Iterator[list[str]]:
    """What environments are compared by, in the order of their keys, a chunk at a time."""
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
            pk: theme_text(
                name, summary, [f"{tool} {word}" for tool, word in zip(names or (), words or (), strict=True)]
            )
            for pk, name, summary, names, words in rows
        }
        yield [by_pk[pk] for pk in chunk]
