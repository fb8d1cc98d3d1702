"""Measures of a round in which labels were grouped: which two of them belong together."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

from synthesis.taxonomy.agreement import Path
from synthesis.taxonomy.alpha import alpha
from synthesis.taxonomy.chance import raw_agreement
from synthesis.taxonomy.figures import NO_PAIR, Figure
from synthesis.taxonomy.mean_rand import mean_rand
from synthesis.taxonomy.pairs import rand_indices
from synthesis.taxonomy.ratings import Ratings
from webapp.labelling.results.measures import LISTED, QUICK, Progress, with_others
from webapp.labelling.results.round_labels import MergeRound
from webapp.labelling.results.schemas import (
    AgreementFigureOut,
    AgreementMeasureOut,
    AnnotatorOut,
    AnnotatorPairOut,
    ConfusionOut,
    PartingOut,
    RoundAgreementOut,
)

TOGETHER: Path = ("together",)
APART: Path = ("apart",)


def measured(labels: MergeRound, progress: Progress = lambda note: None) -> RoundAgreementOut:
    """Everything that is said of a round of groupings. Only the mean Rand index has an interval: pairs of labels are no
    independent draws."""
    people = [name for name in labels.groups if name not in labels.models]
    progress("which labels belong together")
    together = _together({name: labels.groups[name] for name in people})
    everybody = _together(labels.groups)
    progress("annotator by annotator")
    indices = rand_indices(labels.groups)
    between = [pair for pair in indices if not {pair.one, pair.other} & labels.models]
    found: list[tuple[str, str, Figure]] = [
        ("rand", "Adjusted Rand index, mean of pairs", mean_rand(labels.groups, between)),
        ("alpha_together", "Alpha, together or apart", alpha(together, resamples=0)),
        ("raw_together", "Raw, together or apart", raw_agreement(together, resamples=0)),
    ]
    return RoundAgreementOut(
        number=labels.number,
        items=len(labels.labels),
        labels=sum(len(labels.groups[name]) for name in people),
        measures=[
            AgreementMeasureOut(key=key, name=name, figure=AgreementFigureOut.made(figure))
            for key, name, figure in found
        ],
        confusion=ConfusionOut(),
        nodes=_disputed(together, labels),
        pairs=[_pair(str(pair.one), str(pair.other), pair.rand, everybody) for pair in indices],
        annotators=_annotators(labels, people, everybody),
        resamples=0,
        quick_below=QUICK,
    )


def _together(groups: Mapping[str, Mapping[int, Hashable]]) -> Ratings:
    """Every two labels as an item, and of each annotator whether they are in one group."""
    return Ratings.of(
        ((one, other), name, TOGETHER if placed[one] == placed[other] else APART)
        for name, placed in groups.items()
        for one, other in combinations(sorted(placed), 2)
    )


def _disputed(together: Ratings, labels: MergeRound) -> ConfusionOut:
    """Two labels that some put together and others apart, the most disputed first."""
    votes: dict[Any, list[Path]] = {}
    for item, _, said in together.rows():
        votes.setdefault(item, []).append(said)
    split: list[tuple[int, int, int, int, int]] = []
    for (one, other), all_said in votes.items():
        joined = all_said.count(TOGETHER)
        if 0 < joined < len(all_said):
            split.append((joined * (len(all_said) - joined), one, other, joined, len(all_said)))
    split.sort(key=lambda row: (-row[0], labels.labels[row[1]], labels.labels[row[2]]))
    agreeing = sum(len(set(said)) == 1 for said in votes.values())
    return ConfusionOut(
        pairs=len(votes),
        agreeing=agreeing,
        partings=[
            PartingOut(one=[labels.labels[one]], other=[labels.labels[other]], pairs=joined, of=of)
            for _, one, other, joined, of in split[:LISTED]
        ],
        more=max(0, len(split) - LISTED),
    )


def _pair(one: str, other: str, rand: Figure, everybody: Ratings) -> AnnotatorPairOut:
    left, right = everybody.pairs
    names = everybody.annotators
    wanted = {one, other}
    said = [
        everybody.value[a] == everybody.value[b]
        for a, b in zip(left.tolist(), right.tolist(), strict=True)
        if {names[everybody.annotator[a]], names[everybody.annotator[b]]} == wanted
    ]
    agreeing = sum(map(bool, said))
    raw = Figure(agreeing / len(said), pairs=len(said), agreeing=agreeing) if said else Figure(None, reason=NO_PAIR)
    return AnnotatorPairOut(one=one, other=other, raw=AgreementFigureOut.made(raw), rand=AgreementFigureOut.made(rand))


def _annotators(labels: MergeRound, people: Sequence[str], everybody: Ratings) -> list[AnnotatorOut]:
    beside = with_others(everybody, labels.models)
    lines = []
    settled = _together({"": labels.settled})
    as_settled = {item: said for item, _, said in settled.rows()}
    for name in sorted(labels.groups, key=lambda name: (name in labels.models, name)):
        others = _together({other: labels.groups[other] for other in people if other != name})
        against = [
            said == as_settled[item]
            for item, _, said in _together({name: labels.groups[name]}).rows()
            if item in as_settled
        ]
        is_model = name in labels.models
        lines.append(
            AnnotatorOut(
                name=name,
                is_model=is_model,
                labels=len(labels.groups[name]),
                with_others=AgreementFigureOut.made(beside.get(name, Figure(None, reason=NO_PAIR))),
                alpha_without=None if is_model else AgreementFigureOut.made(alpha(others, resamples=0)),
                settled_right=sum(against),
                settled=len(against),
            )
        )
    return lines
