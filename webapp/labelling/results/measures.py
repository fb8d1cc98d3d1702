"""Measures of a round in which items were placed on the tree."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from synthesis.taxonomy.agreement import LEVELS, Path
from synthesis.taxonomy.alpha import alpha, on_tree
from synthesis.taxonomy.chance import ac1, raw_agreement
from synthesis.taxonomy.figures import NO_PAIR, Figure
from synthesis.taxonomy.pairs import Confusion, confusion, kappas
from synthesis.taxonomy.ratings import Ratings
from synthesis.taxonomy.reliability import dawid_skene
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
"""So many pairs of nodes are kept, the most frequent first."""
LEVEL_NAMES = ("first level", "second level", "third level")
Progress = Callable[[str], None]


def measured(
    labels: PlaceRound, progress: Progress = lambda note: None, resamples: int = RESAMPLES
) -> RoundAgreementOut:
    """Everything that is said of a round. Takes about a second for three annotators on 2,000 items."""
    said = sorted(labels.said, key=lambda row: (row.annotator in labels.models, row.annotator, row.item))
    asked = [row for row in said if row.item not in labels.gold]
    everybody = _ratings(asked)
    people = _ratings([row for row in asked if row.annotator not in labels.models])
    progress("alpha and its interval")
    measures = _measures(people, labels, resamples)
    progress("annotator by annotator")
    first = people.at_level(1)
    return RoundAgreementOut(
        number=labels.number,
        items=len(people.items),
        labels=len(people.item),
        measures=measures,
        confusion=shown(confusion(first), labels.names),
        nodes=shown(confusion(people), labels.names),
        pairs=_pairs(everybody.at_level(1), resamples),
        annotators=_annotators(labels, asked, people, everybody),
        resamples=resamples,
        quick_below=QUICK,
    )


def _ratings(said: Sequence[Said]) -> Ratings:
    return Ratings.of((row.item, row.annotator, row.path) for row in said)


def _measures(people: Ratings, labels: PlaceRound, resamples: int) -> list[AgreementMeasureOut]:
    found: list[tuple[str, str, Figure]] = [
        ("alpha_tree", "Alpha, tree distance", alpha(people, on_tree(), resamples=resamples)),
        ("alpha_nominal", "Alpha, same node or not", alpha(people, resamples=resamples)),
    ]
    levels = [people.at_level(level) for level in range(1, LEVELS + 1)]
    for level, (cut, offered) in enumerate(zip(levels, labels.categories, strict=False), start=1):
        name = f"AC1, {LEVEL_NAMES[level - 1]}"
        found.append((f"ac1_{level}", name, ac1(cut, offered, resamples=resamples)))
    found.append(("raw_1", "Raw, first level", raw_agreement(levels[0], resamples=resamples)))
    found.append(("raw_node", "Raw, same node", raw_agreement(people, resamples=resamples)))
    return [
        AgreementMeasureOut(key=key, name=name, figure=AgreementFigureOut.made(figure)) for key, name, figure in found
    ]


def shown(found: Confusion, names: Mapping[Hashable, str]) -> ConfusionOut:
    """A confusion in words. The empty path is "no node fits"."""

    def words(path: Path) -> list[str]:
        return [names.get(step, str(step)) for step in path] or ["No node fits"]

    meeting = dict(found.together)
    listed = found.partings[:LISTED]
    return ConfusionOut(
        pairs=found.pairs,
        agreeing=found.agreeing,
        partings=[
            PartingOut(
                one=words(part.one),
                other=words(part.other),
                pairs=part.pairs,
                of=part.pairs + meeting.get(part.one, 0) + meeting.get(part.other, 0),
            )
            for part in listed
        ],
        together=[TogetherOut(value=words(path), pairs=pairs) for path, pairs in found.together[:LISTED]],
        more=len(found.partings) - len(listed),
    )


def _pairs(everybody: Ratings, resamples: int) -> list[AnnotatorPairOut]:
    return [
        AnnotatorPairOut(
            one=str(pair.one),
            other=str(pair.other),
            raw=AgreementFigureOut.made(pair.raw),
            kappa=AgreementFigureOut.made(pair.kappa),
        )
        for pair in kappas(everybody, resamples=resamples)
    ]


def _annotators(labels: PlaceRound, asked: Sequence[Said], people: Ratings, everybody: Ratings) -> list[AnnotatorOut]:
    """A line for each, people first. Who can be relied on is said at the first level, where each node has labels."""
    consensus = dawid_skene(people.at_level(1))
    worth = {one.name: one.accuracy for one in consensus.annotators} if consensus and len(people.annotators) > 2 else {}
    beside = with_others(everybody.at_level(1), labels.models)
    lines = []
    for name in sorted({row.annotator for row in labels.said}, key=lambda name: (name in labels.models, name)):
        mine = [row for row in labels.said if row.annotator == name]
        took = [row.seconds for row in mine if row.seconds is not None]
        against = [row for row in mine if row.item in labels.settled]
        known = [row for row in mine if row.item in labels.gold]
        is_model = name in labels.models
        without = None if is_model else AgreementFigureOut.made(alpha(people.without({name}), on_tree(), resamples=0))
        lines.append(
            AnnotatorOut(
                name=name,
                is_model=is_model,
                labels=sum(row.annotator == name for row in asked),
                with_others=AgreementFigureOut.made(beside.get(name, Figure(None, reason=NO_PAIR))),
                alpha_without=without,
                settled_right=sum(row.path == labels.settled[row.item] for row in against),
                settled=len(against),
                gold_right=sum(row.path == labels.gold[row.item] for row in known),
                gold=len(known),
                seconds=median(took) if took else None,
                quick=sum(seconds < QUICK for seconds in took),
                reliability=worth.get(name),
            )
        )
    return lines


def with_others(ratings: Ratings, models: frozenset[str]) -> dict[str, Figure]:
    """By annotator, how many of the pairs of their labels with a person's agree."""
    found: dict[str, Figure] = {}
    left, right = ratings.pairs
    for one, other in ((left, right), (right, left)):
        same = (ratings.value[one] == ratings.value[other]).tolist()
        for mine, theirs, agrees in zip(
            ratings.annotator[one].tolist(), ratings.annotator[other].tolist(), same, strict=True
        ):
            if ratings.annotators[theirs] in models:
                continue
            before = found.get(str(ratings.annotators[mine]), Figure(None))
            pairs, agreeing = before.pairs + 1, before.agreeing + agrees
            found[str(ratings.annotators[mine])] = replace(
                before, value=agreeing / pairs, pairs=pairs, agreeing=agreeing
            )
    return found
