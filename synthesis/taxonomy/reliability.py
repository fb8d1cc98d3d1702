"""Who can be relied on, without an answer key: Dawid and Skene's error rates by expectation maximisation.

Dawid and Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm" (Applied Statistics 28,
1979). Each item has a true label that nobody sees, each annotator a chance of saying l where j is true; the two are
estimated in turns, from the shares of labels on. Without smoothing it is the paper's; a little of it, which leans on
"says what is true", keeps an annotator with a few labels from being given extreme rates.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from synthesis.taxonomy.agreement import Path
from synthesis.taxonomy.ratings import Floats, Ratings

ROUNDS = 200
STILL = 1e-7
SMOOTHING = 0.5
"""Labels that each annotator is taken to have given rightly of each value, beyond those given."""
_LEAST = 1e-300


@dataclass(frozen=True)
class Annotator:
    """One annotator, as the labels of all say."""

    name: Hashable
    labels: int
    accuracy: float
    """The share of this annotator's labels that are likely true."""
    errors: tuple[tuple[float, ...], ...]
    """Row j, column l: the chance of saying value l where value j is true."""


@dataclass(frozen=True)
class Consensus:
    """The true labels that the labels point to, and what each annotator is worth by them."""

    values: tuple[Path, ...]
    shares: tuple[float, ...]
    """How common each value is."""
    annotators: tuple[Annotator, ...]
    likely: tuple[tuple[Hashable, Path, float], ...]
    """Item, its most likely label, and how likely that is."""


def dawid_skene(ratings: Ratings, *, smoothing: float = SMOOTHING, rounds: int = ROUNDS) -> Consensus | None:
    """Error rates and likely labels; None where nothing was labelled. An annotator may label an item more than once."""
    if not len(ratings.item):
        return None
    votes = np.asarray(ratings.counts.todense())
    truth = votes / votes.sum(axis=1, keepdims=True)
    shares, errors = _rates(ratings, truth, smoothing)
    for _ in range(rounds):
        truth = _truth(ratings, shares, errors)
        before = shares, errors
        shares, errors = _rates(ratings, truth, smoothing)
        if abs(shares - before[0]).max() < STILL and abs(errors - before[1]).max() < STILL:
            break
    return _consensus(ratings, shares, errors, truth)


def _rates(ratings: Ratings, truth: Floats, smoothing: float) -> tuple[Floats, Floats]:
    """How common each value is, and annotators by true by said: the chance of saying it."""
    number = len(ratings.values)
    said_of = np.zeros((len(ratings.annotators) * number, number))
    np.add.at(said_of, ratings.annotator * number + ratings.value, truth[ratings.item])
    said = said_of.reshape(-1, number, number).transpose(0, 2, 1) + smoothing * np.eye(number)
    total = said.sum(axis=2, keepdims=True)
    return truth.mean(axis=0), np.divide(said, total, out=np.zeros_like(said), where=total > 0)


def _truth(ratings: Ratings, shares: Floats, errors: Floats) -> Floats:
    """Items by values: how likely each is the true one."""
    logs = np.tile(np.log(np.maximum(shares, _LEAST)), (len(ratings.items), 1))
    weighed = np.log(np.maximum(errors, _LEAST)).transpose(0, 2, 1)
    np.add.at(logs, ratings.item, weighed[ratings.annotator, ratings.value])
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    found: Floats = likely / likely.sum(axis=1, keepdims=True)
    return found


def _consensus(ratings: Ratings, shares: Floats, errors: Floats, truth: Floats) -> Consensus:
    right = truth[ratings.item, ratings.value]
    given = np.bincount(ratings.annotator, minlength=len(ratings.annotators))
    worth = np.bincount(ratings.annotator, right, minlength=len(ratings.annotators)) / given
    best = truth.argmax(axis=1)
    return Consensus(
        values=ratings.values,
        shares=tuple(shares.tolist()),
        annotators=tuple(
            Annotator(name, int(given[place]), float(worth[place]), tuple(map(tuple, errors[place].tolist())))
            for place, name in enumerate(ratings.annotators)
        ),
        likely=tuple(
            (item, ratings.values[best[place]], float(truth[place, best[place]]))
            for place, item in enumerate(ratings.items)
        ),
    )
