"""Schemas of a batch's dry run."""

from __future__ import annotations

from ninja import Schema

from webapp.common.rest.types import Json


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
    """Estimate of one kind of call. `seen` past calls were used; with 0 the numbers are assumptions. Of the scripted
    provider's calls only number and prompts are used for another model. `cost` null: a price is unknown."""

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
    """Estimate of a batch. `likely` is the expected range of `calls`, `prompt_tokens`, `completion_tokens`, `seconds`
    and `cost`. The other figures are its ends: the low one is a lean batch that keeps as few items as earlier ones
    suggest, the high one keeps every item, which are then `items` by level. `rests_on` describes their basis in words.
    `sample` is the first call that one item would make. `cost` null: the price of the `unpriced` models is unknown."""

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
    """Readiness of the items. `refused` of `total` would be refused, because `roles` are played by the scripted
    provider, which has replies for the bundled themes alone; `names` are those of the first of them. `can_run`: at
    least one item would run. `advice` says what to do."""

    total: int
    refused: int
    names: list[str]
    roles: list[str]
    can_run: bool
    advice: str


class HumanWorkOut(Schema):
    """Work of people in the environments that the batch would grow on or make again: the batch's products are stored
    beside it and replace none of it. `words` describes it in a clause; empty if there is none."""

    programs: int
    tasks: int
    approvals: int
    decisions: int
    words: str


class ReplacedWorkOut(Schema):
    """Machine work that the batch would replace if it makes something else. `words` describes it, `makers` the batches
    and imports that made it; both are empty if nothing is replaced."""

    versions: int
    revisions: int
    words: str
    makers: str


class DryRunOut(EstimateOut):
    """An estimate, the readiness of the items, the human work at the places of the batch's products, and the machine
    work that it would replace."""

    readiness: ReadinessOut
    human_work: HumanWorkOut
    replaced: ReplacedWorkOut
