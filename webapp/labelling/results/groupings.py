"""Measures of a round in which labels were grouped: which pairs belong together."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

from synthesis.taxonomy.agreement import Path
from synthesis.taxonomy.alpha import krippendorff_alpha
from synthesis.taxonomy.chance import raw_agreement
from synthesis.taxonomy.figures import NO_PAIR, Figure
from synthesis.taxonomy.mean_rand import compute_mean_rand
from synthesis.taxonomy.pairs import compute_rand_indices
from synthesis.taxonomy.ratings import Ratings
from webapp.labelling.results.measures import LISTED, QUICK, Progress, compare_with_others
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


def measure_merge_round(labels: MergeRound, progress: Progress = lambda note: None) -> RoundAgreementOut:
    """Return all measures of a round of groupings. Only the mean Rand index has an interval: pairs of labels are not
    independent draws."""
    people = [name for name in labels.groups if name not in labels.models]
    progress("which labels belong together")
    together = _rate_pairs({name: labels.groups[name] for name in people})
    everybody = _rate_pairs(labels.groups)
    progress("annotator by annotator")
    indices = compute_rand_indices(labels.groups)
    between = [pair for pair in indices if not {pair.one, pair.other} & labels.models]
    figures: list[tuple[str, str, Figure]] = [
        ("rand", "Adjusted Rand index, mean of pairs", compute_mean_rand(labels.groups, between)),
        ("alpha_together", "Alpha, together or apart", krippendorff_alpha(together, resamples=0)),
        ("raw_together", "Raw, together or apart", raw_agreement(together, resamples=0)),
    ]
    return RoundAgreementOut(
        number=labels.number,
        items=len(labels.labels),
        labels=sum(len(labels.groups[name]) for name in people),
        measures=[
            AgreementMeasureOut(key=key, name=name, figure=AgreementFigureOut.made(figure))
            for key, name, figure in figures
        ],
        confusion=ConfusionOut(),
        nodes=_list_disputed_pairs(together, labels),
        pairs=[_compare_pair(str(pair.one), str(pair.other), pair.rand, everybody) for pair in indices],
        annotators=_build_annotator_lines(labels, people, everybody),
        resamples=0,
        quick_below=QUICK,
    )


def _rate_pairs(groups: Mapping[str, Mapping[int, Hashable]]) -> Ratings:
    """Return ratings with each pair of labels as an item: whether an annotator put both in one group."""
    return Ratings.of(
        ((one, other), name, TOGETHER if placed[one] == placed[other] else APART)
        for name, placed in groups.items()
        for one, other in combinations(sorted(placed), 2)
    )


def _list_disputed_pairs(together: Ratings, labels: MergeRound) -> ConfusionOut:
    """Return pairs of labels that some put together and others apart, the most disputed first."""
    votes: dict[Any, list[Path]] = {}
    for item, _, answer in together.rows():
        votes.setdefault(item, []).append(answer)
    split: list[tuple[int, int, int, int, int]] = []
    for (first, other), all_said in votes.items():
        joined = all_said.count(TOGETHER)
        if 0 < joined < len(all_said):
            split.append((joined * (len(all_said) - joined), first, other, joined, len(all_said)))
    split.sort(key=lambda row: (-row[0], labels.labels[row[1]], labels.labels[row[2]]))
    agreeing = sum(len(set(said)) == 1 for said in votes.values())
    return ConfusionOut(
        pairs=len(votes),
        agreeing=agreeing,
        partings=[
            PartingOut(one=labels.labels[one], other=labels.labels[other], pairs=joined, of=of)
            for _, one, other, joined, of in split[:LISTED]
        ],
        more=max(0, len(split) - LISTED),
    )


def _compare_pair(one: str, other: str, rand: Figure, everybody: Ratings) -> AnnotatorPairOut:
    first_labels, right = everybody.pairs
    names = everybody.annotators
    pair_names = {one, other}
    agreements = [
        everybody.value[a] == everybody.value[b]
        for a, b in zip(first_labels.tolist(), right.tolist(), strict=True)
        if {names[everybody.annotator[a]], names[everybody.annotator[b]]} == pair_names
    ]
    agreeing = sum(map(bool, agreements))
    raw = (
        Figure(agreeing / len(agreements), pairs=len(agreements), agreeing=agreeing)
        if agreements
        else Figure(None, reason=NO_PAIR)
    )
    return AnnotatorPairOut(one=one, other=other, raw=AgreementFigureOut.made(raw), rand=AgreementFigureOut.made(rand))


def _build_annotator_lines(labels: MergeRound, people: Sequence[str], everybody: Ratings) -> list[AnnotatorOut]:
    agreement_with_others = compare_with_others(everybody, labels.models)
    lines = []
    settled = _rate_pairs({"": labels.settled})
    as_settled = {item: said for item, _, said in settled.rows()}
    for name in sorted(labels.groups, key=lambda name: (name in labels.models, name)):
        others = _rate_pairs({other: labels.groups[other] for other in people if other != name})
        against = [
            said == as_settled[item]
            for item, _, said in _rate_pairs({name: labels.groups[name]}).rows()
            if item in as_settled
        ]
        is_model = name in labels.models
        lines.append(
            AnnotatorOut(
                name=name,
                is_model=is_model,
                labels=len(labels.groups[name]),
                with_others=AgreementFigureOut.made(agreement_with_others.get(name, Figure(None, reason=NO_PAIR))),
                alpha_without=None if is_model else AgreementFigureOut.made(krippendorff_alpha(others, resamples=0)),
                settled_right=sum(against),
                settled=len(against),
            )
        )
    return lines
