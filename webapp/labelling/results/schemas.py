"""Measures of a session, as they are stored, shown and sent."""

from __future__ import annotations

from typing import Literal

from ninja import Field, Schema
from pydantic import ConfigDict

from synthesis.taxonomy.figures import Figure


class AgreementFigureOut(Schema):
    """A number with its 95 % interval, or the reason why there is none."""

    value: float | None = Field(description="None if it is undefined: `reason` says why.")
    low: float | None = None
    high: float | None = None
    reason: str = ""
    items: int = Field(default=0, description="How many items it rests on.")
    pairs: int = Field(default=0, description="How many pairs of labels of one item it rests on.")
    agreeing: int = Field(default=0, description="How many of these pairs say the same.")

    @classmethod
    def made(cls, figure: Figure) -> AgreementFigureOut:
        return cls(**vars(figure))


class AgreementMeasureOut(Schema):
    """One line of the table of measures."""

    key: str = Field(description="Which measure, the same in every round: alpha_tree, ac1_1 (first level), ...")
    name: str
    figure: AgreementFigureOut


class PartingOut(Schema):
    """Two nodes that labels of one item were split between, or two labels that some grouped together and others not."""

    one: list[str] = Field(description="Names from the first level down.")
    other: list[str]
    pairs: int
    of: int


class TogetherOut(Schema):
    """A node, and how many pairs of labels agree on it."""

    value: list[str]
    pairs: int


class ConfusionOut(Schema):
    """Disagreements and agreements of labels; at most so many of each as a page can hold, the most frequent first."""

    pairs: int = 0
    agreeing: int = 0
    partings: list[PartingOut] = []
    together: list[TogetherOut] = []
    more: int = Field(default=0, description="Partings beyond those listed.")


class AnnotatorOut(Schema):
    """The quality of one annotator, by the others' labels, the adjudicators' decisions and the known answers."""

    name: str
    is_model: bool = False
    labels: int
    with_others: AgreementFigureOut = Field(description="Pairs of labels with anybody else that agree.")
    alpha_without: AgreementFigureOut | None = Field(
        default=None, description="Alpha of the others alone; None for a model."
    )
    settled_right: int = Field(default=0, description="Labels that are as adjudicators settled them, of `settled`.")
    settled: int = 0
    gold_right: int = Field(default=0, description="Known answers that were given, of `gold`.")
    gold: int = 0
    seconds: float | None = Field(default=None, description="Median time for a label.")
    quick: int = Field(default=0, description="Labels that took less than `quick_below` seconds.")
    reliability: float | None = Field(
        default=None, description="Share of labels that are likely true, by Dawid and Skene."
    )


class AnnotatorPairOut(Schema):
    """Two annotators beside each other: Cohen's kappa if they placed, the adjusted Rand index if they grouped."""

    one: str
    other: str
    raw: AgreementFigureOut
    kappa: AgreementFigureOut | None = None
    rand: AgreementFigureOut | None = None


class RoundAgreementOut(Schema):
    """One closed round."""

    number: int
    items: int
    labels: int
    measures: list[AgreementMeasureOut]
    confusion: ConfusionOut
    nodes: ConfusionOut = Field(description="The same by node, where items were placed.")
    pairs: list[AnnotatorPairOut]
    annotators: list[AnnotatorOut]
    resamples: int
    quick_below: float


class AgreementOut(Schema):
    """Agreement in every closed round of a session, before and after discussion."""

    model_config = ConfigDict(json_schema_extra={"example": {"session": 3, "kind": "place", "state": "measured"}})

    session: int
    kind: str
    state: Literal["measured", "stale", "none"] = Field(
        description="stale: labels changed since; none: not measured yet. `job` is the background job that measures."
    )
    job: int | None = None
    digest: str = Field(default="", description="Hash of what was measured: the same labels give the same.")
    rounds: list[RoundAgreementOut] = []
