"""Numbers of the agreement page's drawings: the scale of alpha, the disagreements, annotator by annotator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from webapp.common.templatetags.show import counted
from webapp.labelling.results.schemas import AgreementFigureOut, AnnotatorPairOut, ConfusionOut, RoundAgreementOut


@dataclass(frozen=True)
class Marks:
    """Thresholds from which a measure is tentative, and good."""

    tentative: float
    good: float

    @property
    def shown(self) -> tuple[str, str]:
        return f"{self.tentative:g}", f"{self.good:.2f}"


ALPHA = Marks(0.667, 0.80)
"""Krippendorff's: below the first no conclusion is drawn, from the second on labels can be relied on."""
RAND = Marks(0.65, 0.80)
"""Steinley's ("Properties of the Hubert-Arabie adjusted Rand index", Psychological Methods 9, 2004): below the first a
grouping is recovered poorly, from the second on well."""
USUAL_LOW = 0.4
CROSSED = 8
"""Number of nodes in the matrix; the list next to it has the others."""
STEPS = 4
SEPARATOR = " \N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK} "
TOPS, LINE = 38, 19
GUTTER = 27.0
"""Percent of the scale's width that the rounds' names take, on its left."""


@dataclass(frozen=True)
class ScaleLine:
    """One round on the scale: positions in percent of its width."""

    name: str
    figure: AgreementFigureOut
    y: int
    at: float
    start: float
    end: float

    @property
    def text_y(self) -> int:
        return self.y + 4


@dataclass(frozen=True)
class Scale:
    """A scale from `low` to 1; `tentative` and `good` are the positions of the marks, in percent."""

    low: float
    tentative: float
    good: float
    lines: list[ScaleLine]
    marks: Marks = ALPHA

    @property
    def words(self) -> str:
        return ", ".join(f"{line.figure.value:.2f} {line.name}" for line in self.lines)

    @property
    def height(self) -> int:
        return TOPS + LINE * len(self.lines) + 18

    @property
    def bottom(self) -> int:
        return TOPS + LINE * len(self.lines) - 10

    @property
    def words_y(self) -> int:
        return self.bottom + 14

    @property
    def start(self) -> float:
        return GUTTER

    @property
    def middles(self) -> tuple[float, float, float]:
        return (GUTTER + self.tentative) / 2, (self.tentative + self.good) / 2, (self.good + 100) / 2

    @property
    def widths(self) -> tuple[float, float, float]:
        return self.tentative - GUTTER, self.good - self.tentative, 100 - self.good


def round_names(rounds: Sequence[RoundAgreementOut]) -> list[str]:
    """Return names of the rounds: before and after discussion, and the number for further rounds."""
    names = ["before discussion", "after discussion"]
    return [name or f"round {one.number}" for one, name in zip_longest(rounds, names[: len(rounds)])]


def find_figure(one: RoundAgreementOut, key: str) -> AgreementFigureOut | None:
    return next((measure.figure for measure in one.measures if measure.key == key), None)


def build_scale(rounds: Sequence[RoundAgreementOut], key: str, marks: Marks = ALPHA) -> Scale | None:
    """Return one measure of each round on one scale; None if it is undefined in all of them."""
    named_figures = [(name, find_figure(one, key)) for name, one in zip(round_names(rounds), rounds, strict=True)]
    defined_figures = [
        (name, figure) for name, figure in named_figures if figure is not None and figure.value is not None
    ]
    if not defined_figures:
        return None
    least = min(figure.low if figure.low is not None else figure.value or 0.0 for _, figure in defined_figures)
    low = USUAL_LOW if least >= USUAL_LOW else max(-1.0, (least * 5 // 1) / 5)

    def compute_position(value: float) -> float:
        share = min(1.0, max(0.0, (value - low) / (1 - low)))
        return round(GUTTER + share * (100 - GUTTER), 1)

    lines = []
    for number, (name, figure) in enumerate(defined_figures):
        value = figure.value or 0.0
        start = compute_position(figure.low if figure.low is not None else value)
        end = compute_position(figure.high if figure.high is not None else value)
        lines.append(ScaleLine(name, figure, TOPS + LINE * number, compute_position(value), start, end))
    return Scale(round(low, 1), compute_position(marks.tentative), compute_position(marks.good), lines, marks)


def describe_verdict(figure: AgreementFigureOut | None, marks: Marks = ALPHA) -> tuple[str, str]:
    """Return tone and words for the conclusion that a measure allows, by its value and both ends of its interval."""
    if figure is None or figure.value is None:
        return "", ""
    least = figure.low if figure.low is not None else figure.value
    tentative, good = marks.shown
    whole = "the whole interval" if figure.low is not None else "the value"
    if least >= marks.good:
        return "good", f"Good: {whole} lies above {good}."
    if least >= marks.tentative:
        return "warn", f"Fair: {whole} lies above {tentative}, and not above {good}."
    if figure.value >= marks.tentative:
        return "warn", f"Tentative: the interval reaches below {tentative}."
    if figure.high is not None and figure.high >= marks.tentative:
        reach = f"the value lies below {tentative}, and its interval reaches {figure.high:.2f}"
        return "bad", f"Too low: {reach}. Labels like these carry no conclusion."
    return "bad", f"Too low: {whole} lies below {tentative}. Labels like these carry no conclusion."


@dataclass(frozen=True)
class Cell:
    """A cell of a grid. `tone` is 0 to 4; `words` say what the number counts."""

    text: str
    tone: int
    words: str
    kind: str = ""


@dataclass(frozen=True)
class Grid:
    """A lower triangle: each row has the cells up to its own name."""

    heads: list[str]
    rows: list[tuple[str, list[Cell]]]
    left_out: int = 0


def build_parting_grid(found: ConfusionOut) -> Grid:
    """Cross first-level nodes: how often labels of one item were split between two, and how often they met."""
    weight: dict[str, int] = {}
    met = {SEPARATOR.join(one.value): one.pairs for one in found.together}
    split: dict[frozenset[str], int] = {}
    for part in found.partings:
        first_name, other = SEPARATOR.join(part.one), SEPARATOR.join(part.other)
        split[frozenset((first_name, other))] = part.pairs
        for name in (first_name, other):
            weight[name] = weight.get(name, 0) + part.pairs
    order = sorted(met.keys() | weight.keys(), key=lambda name: (-weight.get(name, 0), -met.get(name, 0), name))
    heads = order[:CROSSED]
    most = max(split.values(), default=1)
    rows = []
    for place, name in enumerate(heads):
        cells = []
        for other in heads[:place]:
            pairs = split.get(frozenset((name, other)), 0)
            tone = -(-pairs * STEPS // most)
            cells.append(Cell(str(pairs) if pairs else "", tone, f"{name} and {other} part {format_times(pairs)}"))
        same = met.get(name, 0)
        cells.append(Cell(str(same), 0, f"both {name} {format_times(same)}", "same"))
        rows.append((name, cells))
    return Grid(heads, rows, len(order) - len(heads))


def format_times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number:,} times")


def build_pair_grid(pairs: Sequence[AnnotatorPairOut]) -> Grid:
    """Cross annotators with annotators, with kappa or the Rand index."""
    names = list(dict.fromkeys(name for pair in pairs for name in (pair.one, pair.other)))
    by_pair = {frozenset((pair.one, pair.other)): pair for pair in pairs}
    rows: list[tuple[str, list[Cell]]] = []
    for place, name in enumerate(names):
        cells = [_build_pair_cell(by_pair.get(frozenset((name, other))), name, other) for other in names[:place]]
        rows.append((name, [*cells, Cell("", 0, "", "self")]))
    return Grid(names, rows)


def _build_pair_cell(pair: AnnotatorPairOut | None, name: str, other: str) -> Cell:
    figure = (pair.kappa or pair.rand) if pair is not None else None
    if figure is None:
        return Cell("?", 0, f"{name} and {other}: not compared")
    if figure.value is None:
        return Cell("undefined", 0, f"{name} and {other}: {figure.reason}", "undefined")
    tone = min(STEPS, max(0, int(figure.value * 5)))
    return Cell(f"{round(figure.value, 2) + 0.0:.2f}", tone, f"{name} and {other}: {figure.items:,} in common")


def describe_confusion(found: ConfusionOut) -> str:
    """Return the confusion in a sentence: how many pairs disagree, and between which nodes most of them do."""
    parted_pairs = found.pairs - found.agreeing
    if not found.pairs:
        return ""
    if not parted_pairs:
        agree = "agrees" if found.pairs == 1 else "agree"
        return f"All {counted(found.pairs, 'pair')} of labels {agree}."
    tops = found.partings[:3]
    share = sum(part.pairs for part in tops)
    places = {1: "one place", 2: "two places", 3: "three places"}[len(tops)]
    words = [f"{SEPARATOR.join(part.one)} and {SEPARATOR.join(part.other)} ({part.pairs:,})" for part in tops]
    return f"{parted_pairs:,} of {found.pairs:,} pairs part, {share:,} of them in {places}: {', '.join(words)}."


def describe_group_confusion(found: ConfusionOut) -> str:
    """Return, for groupings, on how many pairs of labels people disagree: together for some and apart for others."""
    parted = found.pairs - found.agreeing
    if not parted:
        return "All annotators made the same groups."
    return f"Of {found.pairs:,} pairs of labels, {parted:,} are together for some and apart for others."
