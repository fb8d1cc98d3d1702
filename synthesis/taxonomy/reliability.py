"""Reliability of annotators without an answer key: Dawid and Skene's error rates by expectation maximisation.

Dawid and Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM Algorithm" (Applied Statistics 28,
1979). Each item has an unobserved true label, each annotator a probability of giving l if j is true; the two are
estimated alternately, starting from the shares of labels. Without smoothing it is the paper's; a little smoothing
towards correct labels keeps an annotator with few labels from extreme rates.
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
    """Reliability of one annotator, estimated from all labels."""

    name: Hashable
    labels: int
    accuracy: float
    """The share of this annotator's labels that are likely true."""
    errors: tuple[tuple[float, ...], ...]
    """Row j, column l: the chance of saying value l where value j is true."""


@dataclass(frozen=True)
class Consensus:
    """The likely true labels, and the reliability of each annotator by them."""

    values: tuple[Path, ...]
    shares: tuple[float, ...]
    """How common each value is."""
    annotators: tuple[Annotator, ...]
    likely: tuple[tuple[Hashable, Path, float], ...]
    """Item, its most likely label, and how likely that is."""


def fit_dawid_skene(ratings: Ratings, *, smoothing: float = SMOOTHING, rounds: int = ROUNDS) -> Consensus | None:
    """Return error rates and likely labels; None if there are no labels. An annotator may label an item more than
    once.
    """
    if not len(ratings.item):
        return None
    votes = np.asarray(ratings.counts.todense())
    truth = votes / votes.sum(axis=1, keepdims=True)
    shares, errors = _estimate_rates(ratings, truth, smoothing)
    for _ in range(rounds):
        truth = _estimate_truth(ratings, shares, errors)
        before = shares, errors
        shares, errors = _estimate_rates(ratings, truth, smoothing)
        if abs(shares - before[0]).max() < STILL and abs(errors - before[1]).max() < STILL:
            break
    return _build_consensus(ratings, shares, errors, truth)


def _estimate_rates(ratings: Ratings, truth: Floats, smoothing: float) -> tuple[Floats, Floats]:
    """Return the frequency of each value, and the probability of each label: annotators by true by given value."""
    number = len(ratings.values)
    said_of = np.zeros((len(ratings.annotators) * number, number))
    np.add.at(said_of, ratings.annotator * number + ratings.value, truth[ratings.item])
    said = said_of.reshape(-1, number, number).transpose(0, 2, 1) + smoothing * np.eye(number)
    total = said.sum(axis=2, keepdims=True)
    return truth.mean(axis=0), np.divide(said, total, out=np.zeros_like(said), where=total > 0)


def _estimate_truth(ratings: Ratings, shares: Floats, errors: Floats) -> Floats:
    """Return the probability of each value being the true one: items by values."""
    logs = np.tile(np.log(np.maximum(shares, _LEAST)), (len(ratings.items), 1))
    weighed = np.log(np.maximum(errors, _LEAST)).transpose(0, 2, 1)
    np.add.at(logs, ratings.item, weighed[ratings.annotator, ratings.value])
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    found: Floats = likely / likely.sum(axis=1, keepdims=True)
    return found


def _build_consensus(ratings: Ratings, shares: Floats, errors: Floats, truth: Floats) -> Consensus:
    right = truth[ratings.item, ratings.value]
    label_counts = np.bincount(ratings.annotator, minlength=len(ratings.annotators))
    worth = np.bincount(ratings.annotator, right, minlength=len(ratings.annotators)) / label_counts
    best = truth.argmax(axis=1)
    return Consensus(
        values=ratings.values,
        shares=tuple(shares.tolist()),
        annotators=tuple(
            Annotator(name, int(label_counts[place]), float(worth[place]), tuple(map(tuple, errors[place].tolist())))
            for place, name in enumerate(ratings.annotators)
        ),
        likely=tuple(
            (item, ratings.values[best[place]], float(truth[place, best[place]]))
            for place, item in enumerate(ratings.items)
        ),
    )
