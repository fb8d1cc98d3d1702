"""How exact the measures of agreement are, and how long they take with their intervals.

    python -m tests.benchmarks.agreement --json [--items 2000] [--labels 50] [--resamples 1000] [--plain-items 60]

`max_error` is the largest difference from what the literature printed for its own examples, the figures rounded as
those are; `errors` has it by measure, `unrounded` before rounding (the shares of grades by Dawid and Skene have two
places, the error rates crowd-kit's six). `seconds` is each measure with its interval for three annotators. The
vectorised bootstrap and one from the definition run in turns on the same draws of a smaller table: `bootstrap_ratio` is
how many times as long the plain one takes, `bootstrap_gap` how far the two come apart. The last line of output is one
JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from synthesis.taxonomy.alpha import krippendorff_alpha, make_tree_difference
from synthesis.taxonomy.chance import gwet_ac1, raw_agreement
from synthesis.taxonomy.figures import Figure
from synthesis.taxonomy.pairs import compute_kappas, compute_rand_indices, count_confusion
from synthesis.taxonomy.ratings import Ratings, Row
from synthesis.taxonomy.reliability import fit_dawid_skene
from tests.agreement import published
from tests.agreement.plain import plain_alpha

ANNOTATORS = 3
RIGHT = 0.8
ROUNDS = 3
PLAIN_DRAWS = 50


def compared() -> dict[str, list[tuple[float, float, int]]]:
    """By measure: each figure, what was printed for it, and to how many places."""
    consensus = fit_dawid_skene(published.anaesthetists(), smoothing=0)
    assert consensus
    order = [consensus.values.index(grade) for grade in published.GRADES]
    shares = np.asarray(consensus.shares)[order]
    rates = np.asarray([annotator.errors for annotator in consensus.annotators])[:, order][:, :, order]
    printed_rates = np.asarray(published.GRADE_ERRORS)
    return {
        "alpha": [
            _beside(krippendorff_alpha(published.ratings(lines), resamples=0), printed)
            for lines, printed in published.ALPHAS.values()
        ],
        "ac1": [_beside(gwet_ac1(ratings, resamples=0), printed) for ratings, printed in published.AC1S.values()],
        "kappa": [
            _beside(compute_kappas(ratings, resamples=0)[0].kappa, printed)
            for ratings, printed in published.KAPPAS.values()
        ],
        "dawid_skene": [
            *((value, printed, 2) for value, printed in zip(shares.tolist(), published.GRADE_SHARES, strict=True)),
            *((value, printed, 6) for value, printed in zip(rates.flat, printed_rates.flat, strict=True)),
        ],
    }


def _beside(figure: Figure, printed: float) -> tuple[float, float, int]:
    assert figure.value is not None
    return figure.value, printed, len(str(printed).partition(".")[2])


def as_printed(figures: list[tuple[float, float, int]]) -> float:
    """The largest difference once the figures are rounded as those in print are."""
    return float(max(abs(round(value, places) - printed) for value, printed, places in figures))


def unrounded(figures: list[tuple[float, float, int]]) -> float:
    return float(max(abs(value - printed) for value, printed, _ in figures))


def made_up(items: int, labels: int, seed: int = 7) -> Ratings:
    """Three annotators who are right four times in five, on leaves of a tree of three levels."""
    numbers = np.random.default_rng(seed)
    truth = numbers.integers(0, labels, items)
    rows: list[Row] = []
    for by in range(ANNOTATORS):
        said = np.where(numbers.random(items) < RIGHT, truth, numbers.integers(0, labels, items)).tolist()
        rows += [(item, by, (value // 15, value // 4, value)) for item, value in enumerate(said)]
    return Ratings.of(rows)


def seconds(ratings: Ratings, resamples: int) -> dict[str, float]:
    """Each measure once, with its interval where it has one."""
    groupings = {by: {item: path for item, named, path in ratings.rows() if named == by} for by in ratings.annotators}
    measures: dict[str, Callable[[], object]] = {
        "alpha": lambda: krippendorff_alpha(ratings, make_tree_difference(), resamples=resamples),
        "ac1": lambda: gwet_ac1(ratings, resamples=resamples),
        "raw": lambda: raw_agreement(ratings, resamples=resamples),
        "kappa": lambda: compute_kappas(ratings, resamples=resamples),
        "rand": lambda: compute_rand_indices(groupings),
        "dawid_skene": lambda: fit_dawid_skene(ratings),
        "confusion": lambda: count_confusion(ratings.at_level(1)),
    }
    return {name: round(_timed(measure), 3) for name, measure in measures.items()}


def _timed(measure: Callable[[], object]) -> float:
    started = time.perf_counter()
    measure()
    return time.perf_counter() - started


def bootstraps(ratings: Ratings) -> dict[str, float]:
    """The vectorised bootstrap beside the plain one, timed in turns on the same draws."""
    plain, fast = [], []
    for _ in range(ROUNDS):
        plain.append(_timed(lambda: plain_alpha(ratings, make_tree_difference(), PLAIN_DRAWS, seed=1)))
        fast.append(_timed(lambda: krippendorff_alpha(ratings, make_tree_difference(), resamples=PLAIN_DRAWS, seed=1)))
    found = krippendorff_alpha(ratings, make_tree_difference(), resamples=PLAIN_DRAWS, seed=1)
    written_out = plain_alpha(ratings, make_tree_difference(), PLAIN_DRAWS, seed=1)
    pairs = zip((found.value, found.low, found.high), written_out, strict=True)
    gap = max(abs(one - other) for one, other in pairs if one is not None and other is not None)
    return {"bootstrap_ratio": round(min(plain) / min(fast), 1), "bootstrap_gap": gap}


def main() -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--items", type=int, default=2_000)
    parser.add_argument("--labels", type=int, default=50)
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--plain-items", type=int, default=60, help="items of the table that the plain bootstrap reads")
    options = parser.parse_args()
    figures = compared()
    errors = {measure: as_printed(beside) for measure, beside in figures.items()}
    took = seconds(made_up(options.items, options.labels), options.resamples)
    result = {
        "max_error": max(errors.values()),
        "errors": errors,
        "unrounded": {measure: round(unrounded(beside), 7) for measure, beside in figures.items()},
        "seconds": took,
        "seconds_total": round(sum(took.values()), 3),
        "annotators": ANNOTATORS,
        "items": options.items,
        "labels": options.labels,
        "resamples": options.resamples,
        **bootstraps(made_up(options.plain_items, min(options.labels, 20))),
        "load": [round(value, 1) for value in os.getloadavg()],
    }
    print(json.dumps(result) if options.json else json.dumps(result, indent=2))
    return result


if __name__ == "__main__":
    main()
