"""Schemas of a batch's dry run."""

from __future__ import annotations

from ninja import Schema

from webapp.rest.types import Json


class BoundsOut(Schema):
    """A range: its low and its high end."""

    low: float
    high: float


class LikelyOut(Schema):
    """`typical` is the median; four of five batches lie between `low` and `high`."""

    low: float
    typical: float
    high: float


class EstimateLineOut(Schema):
    """`seen` calls of the past were looked at; with 0 the numbers are assumptions. Of the offline provider's calls only
    number and prompts are taken for another model. `cost` null: a price is unknown."""

    role: str
    stage: str
    model: str
    calls: BoundsOut
    prompt_tokens: BoundsOut
    completion_tokens: BoundsOut
    seconds: BoundsOut
    cost: BoundsOut | None
    seen: int


class EstimateOut(Schema):
    """`likely` says what is to be expected of `calls`, `prompt_tokens`, `completion_tokens`, `seconds` and `cost`. The
    other figures are its ends: the low one is a lean batch that keeps as few items as earlier ones let expect, the
    high one keeps every item, which are then `items` by level. `rests_on` says in words where they come from. `sample`
    is the first call that one item would make. `cost` null: nobody has said what the `unpriced` models cost."""

    themes: int
    items: dict[str, int]
    calls: BoundsOut
    prompt_tokens: BoundsOut
    completion_tokens: BoundsOut
    cost: BoundsOut | None
    unpriced: list[str]
    seconds: BoundsOut
    rests_on: str
    likely: dict[str, LikelyOut]
    lines: list[EstimateLineOut]
    sample: Json
    note: str


class ReadinessOut(Schema):
    """Whether the items can run. `refused` of `total` would be refused, because `roles` are played by the scripted
    provider, which has replies for the bundled themes alone; `names` are those of the first of them. `can_run`: at
    least one item would run. `advice` says what to do."""

    total: int
    refused: int
    names: list[str]
    roles: list[str]
    can_run: bool
    advice: str


class HumanWorkOut(Schema):
    """Work of people in the environments that the batch would grow on or make once more: what the batch makes is stored
    beside it and replaces none of it. `words` says it in a sentence's part; empty if there is none."""

    programs: int
    tasks: int
    approvals: int
    decisions: int
    words: str


class ReplacedWorkOut(Schema):
    """Machine work that the batch would replace where it makes something else. `words` and `makers` say what, and which
    batches and imports made it; both are empty if nothing is replaced."""

    versions: int
    revisions: int
    words: str
    makers: str


class DryRunOut(EstimateOut):
    """An estimate, whether the items can run, which human work stands where the batch will store its own, and which
    machine work it would replace."""

    readiness: ReadinessOut
    human_work: HumanWorkOut
    replaced: ReplacedWorkOut
