"""Worked examples out of the literature, with the figures that were printed there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from synthesis.taxonomy.agreement import Path
from synthesis.taxonomy.ratings import Ratings, Row


def ratings(observers: Sequence[str]) -> Ratings:
    """A table as papers print it: a line an observer, a character an item, a full stop for a gap."""
    return Ratings.of(
        (item, by, (value,)) for by, line in enumerate(observers) for item, value in enumerate(line) if value != "."
    )


def crossed(table: Sequence[Sequence[int]]) -> Ratings:
    """The labels of two annotators out of their table of counts: rows the one's, columns the other's."""
    return Ratings.of(_crossed(table))


def _crossed(table: Sequence[Sequence[int]]) -> Iterator[Row]:
    item = 0
    for one, row in enumerate(table):
        for other, count in enumerate(row):
            for _ in range(count):
                item += 1
                yield item, "one", (one,)
                yield item, "other", (other,)


BINARY = ("0100000010", "1110010000")
"""Krippendorff (2011), A: Meg and Owen on ten articles; alpha 0.095."""
NOMINAL = ("aabbdcccedda", "babbbccceddd")
"""Krippendorff (2011), B: Ben and Gerry on twelve articles; alpha 0.692."""
WITH_GAPS = ("123321412...", "1233224125.3", ".3332342251.", "12332441251.")
"""Krippendorff (2011), C: four observers, twelve units, gaps; nominal 0.743, interval 0.849. Also Gwet's (2014) raters
on twelve units, of whom AC1 is 0.775."""
ALPHAS: dict[str, tuple[Sequence[str], float]] = {
    "Krippendorff 2011, A": (BINARY, 0.095),
    "Krippendorff 2011, B": (NOMINAL, 0.692),
    "Krippendorff 2011, C": (WITH_GAPS, 0.743),
}
INTERVAL_ALPHA = 0.849

ABSTRACTORS = ((13, 0, 0), (0, 20, 7), (0, 4, 56))
"""Gwet (2014), two abstractors on 100 pregnancies: AC1 0.84933, kappa 0.79641."""
SKEWED = ((118, 5), (2, 0))
"""Gwet (2002), "Kappa statistic is not satisfactory": two who nearly always say yes; kappa -0.0234, AC1 0.94."""
AC1S: dict[str, tuple[Ratings, float]] = {
    "Gwet 2014, four raters with gaps": (ratings(WITH_GAPS), 0.77544),
    "Gwet 2014, abstractors": (crossed(ABSTRACTORS), 0.84933),
    "Gwet 2002, nearly all yes": (crossed(SKEWED), 0.94),
}
PSYCHIATRISTS = ((88, 14, 18), (10, 40, 10), (2, 6, 12))
"""Cohen (1960), "A coefficient of agreement for nominal scales", table 2: kappa 0.492."""
KAPPAS: dict[str, tuple[Ratings, float]] = {
    "Cohen 1960": (crossed(PSYCHIATRISTS), 0.492),
    "Gwet 2014, abstractors": (crossed(ABSTRACTORS), 0.79641),
    "Gwet 2002, nearly all yes": (crossed(SKEWED), -0.0234),
}

GROUPED = ((1, 1, 0), (1, 2, 1), (0, 0, 4))
"""Yeung and Ruzzo (2001), the example of their note on the adjusted Rand index: 0.313."""
RAND = 0.313

ANAESTHETISTS = """
111 1 1 1 1|333 4 3 3 4|112 2 1 2 2|222 3 1 2 1|222 3 2 2 2|222 3 3 2 2|122 2 1 1 1|333 3 4 3 3|222 2 2 2 3|232 2 2 2 3
444 4 4 4 4|222 3 3 4 3|111 1 1 1 1|222 3 2 1 2|121 1 1 1 1|111 2 1 1 1|111 1 1 1 1|111 1 1 1 1|222 2 2 2 1|222 1 3 2 2
222 2 2 2 2|222 2 2 2 1|222 3 2 2 2|221 2 2 2 2|111 1 1 1 1|111 1 1 1 1|232 2 2 2 2|111 1 1 1 1|111 1 1 1 1|112 1 1 2 1
111 1 1 1 1|333 3 2 3 3|111 1 1 1 1|222 2 2 2 2|222 3 2 3 2|433 4 3 4 3|221 2 2 3 2|232 3 2 3 3|333 3 4 3 2|111 1 1 1 1
111 1 1 1 1|121 2 1 1 1|232 2 2 2 2|121 1 1 1 1|222 2 2 2 2
"""
"""Dawid and Skene (1979), table 1: 45 patients graded 1 to 4 for fitness by five anaesthetists, by the first thrice."""
GRADES: tuple[Path, ...] = (("1",), ("2",), ("3",), ("4",))
GRADE_SHARES = (0.40, 0.42, 0.11, 0.07)
"""How common they estimate each grade to be."""
GRADE_ERRORS = (
    (
        (0.889488, 0.110512, 0, 0),
        (0.070585, 0.876380, 0.053035, 0),
        (0, 0.338821, 0.661179, 0),
        (0, 0, 0.555556, 0.444444),
    ),
    ((0.834214, 0.165786, 0, 0), (0.052707, 0.632946, 0.314347, 0), (0, 0, 1, 0), (0, 0, 0, 1)),
    (
        (1, 0, 0, 0),
        (0.106378, 0.788299, 0.105323, 0),
        (0, 0.403671, 0.198776, 0.397552),
        (0, 0, 0.666667, 0.333333),
    ),
    (
        (0.944430, 0.055570, 0, 0),
        (0.053672, 0.842627, 0.103702, 0),
        (0, 0, 0.801224, 0.198776),
        (0, 0, 0.333333, 0.666667),
    ),
    (
        (1, 0, 0, 0),
        (0.159039, 0.734520, 0.106440, 0),
        (0, 0.209114, 0.790886, 0),
        (0, 0, 0.333333, 0.666667),
    ),
)
"""Each observer's rates, true grade by given grade, as crowd-kit 1.4.2 computes them from the same table when it
goes on until nothing moves (by itself it stops earlier, up to 0.003 away)."""
LIKELY_GRADES = "142222132243121111222222112111131224233111212"
"""The grades that crowd-kit 1.4.2 takes to be the patients' true ones."""


def anaesthetists() -> Ratings:
    patients = ANAESTHETISTS.strip().replace("\n", "|").split("|")
    return Ratings.of(
        (patient, observer, (grade,))
        for patient, line in enumerate(patients, start=1)
        for observer, grades in enumerate(line.split(), start=1)
        for grade in grades
    )
