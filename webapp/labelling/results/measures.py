"""Measures of a round in which items were placed on the tree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from synthesis.taxonomy.agreement import LEVELS, Path
from synthesis.taxonomy.alpha import krippendorff_alpha, make_tree_difference
from synthesis.taxonomy.chance import gwet_ac1, raw_agreement
from synthesis.taxonomy.figures import NO_PAIR, Figure
from synthesis.taxonomy.pairs import Confusion, compute_kappas, count_confusion
from synthesis.taxonomy.ratings import Ratings
from synthesis.taxonomy.reliability import fit_dawid_skene
from synthesis.taxonomy.resamples import RESAMPLES
from webapp.labelling.results.round_labels import PlaceRound, Said
from webapp.labelling.results.schemas import (
    AgreementFigureOut,
    AgreementMeasureOut,
    AnnotatorOut,
    AnnotatorPairOut,
    ConfusionOut,
    PartingOut,
    RoundAgreementOut,
    TogetherOut,
)

QUICK = 10.0
"""Seconds: a label that took less was hardly thought about."""
LISTED = 60
"""Number of pairs of nodes that are kept, the most frequent first."""
LEVEL_NAMES = ("first level", "second level", "third level")
Progress = Callable[[str], None]


def measure_place_round(
    labels: PlaceRound, progress: Progress = lambda note: None, resamples: int = RESAMPLES
) -> RoundAgreementOut:
    """Return all measures of a round. Takes about a second for three annotators on 2,000 items."""
    sorted_labels = sorted(labels.said, key=lambda row: (row.annotator in labels.models, row.annotator, row.item))
    asked_labels = [row for row in sorted_labels if row.item not in labels.gold]
    everybody = _build_ratings(asked_labels)
    people = _build_ratings([row for row in asked_labels if row.annotator not in labels.models])
    progress("alpha and its interval")
    measures = _compute_measures(people, labels, resamples)
    progress("annotator by annotator")
    first = people.at_level(1)
    return RoundAgreementOut(
        number=labels.number,
        items=len(people.items),
        labels=len(people.item),
        measures=measures,
        confusion=serialize_confusion(count_confusion(first), labels.names),
        nodes=serialize_confusion(count_confusion(people), labels.names),
        pairs=_compare_pairs(everybody.at_level(1), resamples),
        annotators=_build_annotator_lines(labels, asked_labels, people, everybody),
        resamples=resamples,
        quick_below=QUICK,
    )


def _build_ratings(said: Sequence[Said]) -> Ratings:
    return Ratings.of((row.item, row.annotator, row.path) for row in said)


def _compute_measures(people: Ratings, labels: PlaceRound, resamples: int) -> list[AgreementMeasureOut]:
    figures: list[tuple[str, str, Figure]] = [
        ("alpha_tree", "Alpha, tree distance", krippendorff_alpha(people, make_tree_difference(), resamples=resamples)),
        ("alpha_nominal", "Alpha, same node or not", krippendorff_alpha(people, resamples=resamples)),
    ]
    levels = [people.at_level(level) for level in range(1, LEVELS + 1)]
    for level, (cut, offered) in enumerate(zip(levels, labels.categories, strict=False), start=1):
        name = f"AC1, {LEVEL_NAMES[level - 1]}"
        figures.append((f"ac1_{level}", name, gwet_ac1(cut, offered, resamples=resamples)))
    figures.append(("raw_1", "Raw, first level", raw_agreement(levels[0], resamples=resamples)))
    figures.append(("raw_node", "Raw, same node", raw_agreement(people, resamples=resamples)))
    return [
        AgreementMeasureOut(key=key, name=name, figure=AgreementFigureOut.made(figure)) for key, name, figure in figures
    ]


def serialize_confusion(found: Confusion, names: Mapping[Hashable, str]) -> ConfusionOut:
    """Return a confusion in words. The empty path is "no node fits"."""

    def name_path(path: Path) -> list[str]:
        return [names.get(step, str(step)) for step in path] or ["No node fits"]

    meeting = dict(found.together)
    listed_partings = found.partings[:LISTED]
    return ConfusionOut(
        pairs=found.pairs,
        agreeing=found.agreeing,
        partings=[
            PartingOut(
                one=name_path(part.one),
                other=name_path(part.other),
                pairs=part.pairs,
                of=part.pairs + meeting.get(part.one, 0) + meeting.get(part.other, 0),
            )
            for part in listed_partings
        ],
        together=[TogetherOut(value=name_path(path), pairs=pairs) for path, pairs in found.together[:LISTED]],
        more=len(found.partings) - len(listed_partings),
    )


def _compare_pairs(everybody: Ratings, resamples: int) -> list[AnnotatorPairOut]:
    return [
        AnnotatorPairOut(
            one=str(pair.one),
            other=str(pair.other),
            raw=AgreementFigureOut.made(pair.raw),
            kappa=AgreementFigureOut.made(pair.kappa),
        )
        for pair in compute_kappas(everybody, resamples=resamples)
    ]


def _build_annotator_lines(
    labels: PlaceRound, asked: Sequence[Said], people: Ratings, everybody: Ratings
) -> list[AnnotatorOut]:
    """Return a line for each annotator, people first. Reliability is computed at the first level: each node there
    has labels."""
    consensus = fit_dawid_skene(people.at_level(1))
    worth = {one.name: one.accuracy for one in consensus.annotators} if consensus and len(people.annotators) > 2 else {}
    agreement_with_others = compare_with_others(everybody.at_level(1), labels.models)
    lines = []
    for name in sorted({row.annotator for row in labels.said}, key=lambda name: (name in labels.models, name)):
        own_labels = [row for row in labels.said if row.annotator == name]
        took = [row.seconds for row in own_labels if row.seconds is not None]
        against = [row for row in own_labels if row.item in labels.settled]
        known_answers = [row for row in own_labels if row.item in labels.gold]
        is_model = name in labels.models
        without = (
            None
            if is_model
            else AgreementFigureOut.made(
                krippendorff_alpha(people.without({name}), make_tree_difference(), resamples=0)
            )
        )
        lines.append(
            AnnotatorOut(
                name=name,
                is_model=is_model,
                labels=sum(row.annotator == name for row in asked),
                with_others=AgreementFigureOut.made(agreement_with_others.get(name, Figure(None, reason=NO_PAIR))),
                alpha_without=without,
                settled_right=sum(row.path == labels.settled[row.item] for row in against),
                settled=len(against),
                gold_right=sum(row.path == labels.gold[row.item] for row in known_answers),
                gold=len(known_answers),
                seconds=median(took) if took else None,
                quick=sum(seconds < QUICK for seconds in took),
                reliability=worth.get(name),
            )
        )
    return lines


def compare_with_others(ratings: Ratings, models: frozenset[str]) -> dict[str, Figure]:
    """Return by annotator how many pairs of their labels with a person's agree."""
    figures: dict[str, Figure] = {}
    first_labels, right = ratings.pairs
    for own_side, other in ((first_labels, right), (right, first_labels)):
        same = (ratings.value[own_side] == ratings.value[other]).tolist()
        for annotator, theirs, agrees in zip(
            ratings.annotator[own_side].tolist(), ratings.annotator[other].tolist(), same, strict=True
        ):
            if ratings.annotators[theirs] in models:
                continue
            before = figures.get(str(ratings.annotators[annotator]), Figure(None))
            pairs, agreeing = before.pairs + 1, before.agreeing + agrees
            figures[str(ratings.annotators[annotator])] = replace(
                before, value=agreeing / pairs, pairs=pairs, agreeing=agreeing
            )
    return figures
