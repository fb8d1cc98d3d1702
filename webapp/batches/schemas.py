"""Schemas of the API of batches."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from ninja import Schema
from pydantic import ConfigDict, Field, FiniteFloat, ValidationError, model_validator

from synthesis.errors import InputError
from synthesis.stages import ItemSpec, Variant
from synthesis.themes.typed import build_typed_theme
from webapp.batches.engine.theme_source import build_environment_specs, build_theme_specs
from webapp.batches.launch import choice
from webapp.batches.preset_schemas import DepartureOut
from webapp.batches.presets import TITLES, apply_preset
from webapp.batches.services import build_text_spec, build_theme_spec
from webapp.batches.spec import MOST_THEMES, BatchSettings
from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import BodyIn, Id, Json, ShortText, Text

LONGEST_TEXT = 100_000
EXAMPLE: dict[str, Any] = {
    "name": "Front desks",
    "typed": [{"name": "Hotel front desk", "description": "Guests, rooms, bookings and payments of a small hotel."}],
    "settings": {"stages": {"scenarios": 1, "tasks": 2}, "cap": 2.5, "seed": 7},
}
Money = Annotated[FiniteFloat, Field(ge=0)]
State = Literal["draft", "running", "paused", "capped", "done", "cancelled", "failed"]
ItemState = Literal["waiting", "running", "kept", "rejected", "failed", "cancelled"]


class TypedTheme(BodyIn):
    """A theme as typed by a person."""

    name: ShortText
    description: Annotated[Text, Field(max_length=LONGEST_TEXT)]
    category: ShortText = ""


class ThemeFilter(BodyIn):
    """The newest kept themes that match; those that are folded into another one are left out."""

    q: Annotated[ShortText, Field(description="The name holds this.")] = ""
    source: ShortText = ""
    node: Annotated[Id | None, Field(description="On this label of the taxonomy or below it.")] = None
    limit: Annotated[int, Field(ge=1, le=MOST_THEMES)] = 20

    def build_row_filter(self) -> choice.RowFilter:
        return choice.RowFilter(text=self.q, source=self.source, node=self.node, most=self.limit)


class BatchEnvironmentFilter(ThemeFilter):
    """The newest environments that match, in their current versions. `q` is in the name, or is the key."""

    category: ShortText = ""

    def build_row_filter(self) -> choice.RowFilter:
        return replace(super().build_row_filter(), category=self.category)


class BatchIn(BodyIn):
    """The items of a batch: bundled themes by key, kept ones by id or filter, typed ones, tasks of a task set, more
    onto existing environments (by id or filter); and its `settings`, all of them optional."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    name: ShortText = ""
    bundled: Annotated[list[ShortText], Field(max_length=100)] = []
    theme_ids: Annotated[list[Id], Field(max_length=MOST_THEMES)] = []
    themes: ThemeFilter | None = None
    environments: BatchEnvironmentFilter | None = None
    environment_ids: Annotated[list[Id], Field(max_length=MOST_THEMES)] = []
    typed: Annotated[list[TypedTheme], Field(max_length=MOST_THEMES)] = []
    tasks: Annotated[
        list[Annotated[Text, Field(min_length=1, max_length=LONGEST_TEXT)]], Field(max_length=MOST_THEMES)
    ] = []
    source: Annotated[ShortText, Field(description="Names the task set of `tasks`.")] = ""
    settings: Annotated[dict[str, Any], Field(description="See `settings` of a batch.")] = {}
    start: Annotated[bool, Field(description="False: a draft, which waits for its start.")] = True

    def specs(self) -> list[ItemSpec]:
        """Return the items to begin with. Raises InputError."""
        themes = [
            build_theme_spec(build_typed_theme(theme.name, theme.description, theme.category)) for theme in self.typed
        ]
        texts = [build_text_spec(text, self.source) for text in self.tasks]
        by_id = [*build_theme_specs(self.theme_ids), *build_environment_specs(self.environment_ids)]
        return [*choice.build_bundled_specs(self.bundled), *by_id, *self._list_filtered_items(), *themes, *texts]

    def _list_filtered_items(self) -> list[ItemSpec]:
        chosen = choice.ChosenItems()
        if self.themes is not None and not choice.add_themes(chosen, self.themes.build_row_filter()):
            raise InputError("No kept theme fits `themes`. Change the filter, or leave it out.")
        if self.environments is not None and not choice.add_environments(chosen, self.environments.build_row_filter()):
            raise InputError("No environment fits `environments`. Change the filter, or leave it out.")
        return list(chosen.specs.values())


class CloneIn(BodyIn):
    """Changes of a clone. `settings` holds only the different ones. `items` are ids of items of the level `theme` that
    the batch began with; without it, all of them are taken."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"settings": {"seed": 8}, "items": [1, 2]}]})

    name: ShortText = ""
    items: Annotated[list[Id] | None, Field(min_length=1, max_length=MOST_THEMES)] = None
    settings: dict[str, Any] = {}
    start: bool = True


class ResumeIn(BodyIn):
    """Resumption of a batch. A batch that reached its cap needs a higher one."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"cap": 10.0}]})

    cap: Annotated[Money | None, Field(description="A new spend cap; left out keeps the one there is.")] = None


class RetryIn(BodyIn):
    """Selection among all failed items: `item` names one, `stage` those that ended there, `signature` those that ended
    alike (see the failures). `rejected`: rejected items too."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"stage": "assess"}]})

    item: Id | None = None
    stage: ShortText = ""
    signature: Annotated[Text, Field(max_length=300)] = ""
    rejected: bool = False


class LimitsIn(BodyIn):
    """Limits on the cost and the number of themes of an annotator's batch."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"annotator_cap": 5.0, "annotator_themes": 50}]})

    annotator_cap: Money
    annotator_themes: Annotated[int, Field(ge=1, le=MOST_THEMES)]


class LimitsOut(Schema):
    """Limits on the cost and the number of themes of an annotator's batch."""

    annotator_cap: float
    annotator_themes: int


def build_settings(changes: dict[str, Any], before: BatchSettings | None = None) -> BatchSettings:
    """Return the settings with these changes; a `preset` among them sets its values first. Raises InputError, which
    names the field."""
    values = (before or BatchSettings()).model_dump(mode="json")
    chosen = changes.get("preset", values["preset"])
    if chosen != values["preset"]:
        if not isinstance(chosen, str) or chosen not in TITLES:
            raise InputError(
                f"settings.preset: there is no preset {str(chosen)[:60]!r}; take one of {', '.join(TITLES)}."
            )
        values = apply_preset(values, chosen)
    try:
        return BatchSettings.model_validate(_merge_settings(values, changes))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"settings.{place}: {str(first['msg']).removeprefix('Value error, ')}.") from None


def _merge_settings(known: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    merged = dict(known)
    for name, value in changes.items():
        inner = merged.get(name)
        merged[name] = _merge_settings(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return merged


class BatchQuery(PageQuery):
    state: Annotated[State | None, Field(description="In this state.")] = None
    variant: Annotated[Variant | None, Field(description="Whose way to environments and tasks.")] = None


class BatchLine(Schema):
    """A batch in a list. `spent` is the known cost of all replies: that of `unpriced` ones is unknown. `lost` counts
    requests without a reply. `note`: the reason why it is stopped. `away`: the endpoint that it waits for; it resumes
    once that answers."""

    id: int
    name: str
    state: str
    variant: str
    note: str
    away: str
    cap: float | None
    spent: float
    unpriced: int
    requests: int
    lost: int
    scripted: bool
    created_by: Annotated[str | None, Field(validation_alias="created_by.username")] = None
    cloned_from: Annotated[int | None, Field(validation_alias="cloned_from_id")] = None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class StageCountOut(Schema):
    """Items with this ending of a stage, and its usage for them; after a retry `count` shrinks, the usage stays."""

    stage: str
    state: str
    reason: str
    count: int
    seconds: float
    requests: int
    replayed: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    unpriced: int


class BatchOut(BatchLine):
    """A batch with its counts. `items` counts by level and state; `stages` is the funnel. `worked_seconds` counts the
    time in which a worker was at it, without pauses; null while it runs. `departures`: settings that depart from its
    preset."""

    settings: Json
    departures: list[DepartureOut]
    worked_seconds: float | None
    items: dict[str, dict[str, int]]
    stages: list[StageCountOut]


class DifferenceOut(Schema):
    name: str
    before: Json
    after: Json


class CloneOut(BatchOut):
    """A clone. `differences` are the settings that differ from those of the batch it was cloned from."""

    differences: list[DifferenceOut]


class ItemQuery(PageQuery):
    state: Annotated[ItemState | None, Field(description="In this state.")] = None
    level: Annotated[
        Literal["theme", "scenario", "task", "trajectory"] | None, Field(description="What is made of it.")
    ] = None
    stage: Annotated[ShortText, Field(description="Is in this stage, or ended there.")] = ""
    ended: Annotated[
        Literal["entered", "kept", "rejected", "failed", "repaired"] | None,
        Field(description="With `stage`: what it came to there, whatever became of the item since."),
    ] = None
    reason: Annotated[ShortText, Field(description="For this reason; with `ended` the stage's.")] = ""
    signature: Annotated[str, Field(max_length=300, description="Ended like this.")] = ""
    parent: Annotated[Id | None, Field(description="Below this item.")] = None
    open: Annotated[bool, Field(description="Waits or runs.")] = False

    @model_validator(mode="after")
    def _ended_somewhere(self) -> Self:
        if self.ended and not self.stage:
            raise ValueError("ended: say in which stage, with stage=")
        return self


class ItemLine(Schema):
    """An item in a list. `stage` is the next one, or the one that it ended in. `call_key`: the call whose reply was at
    fault."""

    id: int
    batch_id: int
    parent_id: int | None
    level: str
    path: str
    state: str
    stage: str
    reason: str
    message: str
    signature: str
    call_key: str
    starts: int
    seconds: float
    cost: float


class StageRunOut(Schema):
    """The result of a stage in its last try. `output` is its draft, or the evidence of a rejection; `used` its roles,
    prompts (by hash) and seeds; the cost of `unpriced` replies is unknown."""

    stage: str
    state: str
    reason: str
    message: str
    call_key: str
    calls: list[str]
    seconds: float
    requests: int
    replayed: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    unpriced: int
    used: Json
    attempt: int
    output: Json = None


class ProductOut(Schema):
    """The product of an item, and its provenance."""

    environment_id: int | None
    version_id: int | None
    scenario_id: int | None
    task_id: int | None
    trajectory_id: int | None
    provenance: Json


class ItemOut(ItemLine):
    runs: list[StageRunOut]
    product: ProductOut | None
    attempt_id: Annotated[int | None, Field(description="Of a rejected trajectory: what the teacher did.")]


class CallQuery(PageQuery):
    state: Annotated[Literal["sent", "done", "failed", "aside"] | None, Field(description="In this state.")] = None
    role: Annotated[ShortText, Field(description="Asked as this role.")] = ""
    stage: Annotated[ShortText, Field(description="Asked in this stage.")] = ""
    lost: Annotated[bool, Field(description="Only those of which a request gave no reply that was stored.")] = False
    read: Annotated[
        Literal["repaired", "unusable"] | None, Field(description="Whose reply was repaired in its form, or of no use.")
    ] = None
    model: Annotated[str, Field(max_length=300, description="Asked of this model (`endpoint/model`).")] = ""


class CallLine(Schema):
    """A call in a list. `open` requests are in flight, or were when a process ended; `lost` have no stored reply.
    `cost` null: unknown."""

    id: int
    key: str
    batch_id: int | None
    item_id: int | None
    path: str
    role: str
    stage: str
    sample: int
    model: str
    state: str
    prompt_tokens: int
    completion_tokens: int
    requests: int
    lost: int
    open: int
    seconds: float
    cost: float | None
    reason: str
    error: str
    created_at: datetime


class CallOut(CallLine):
    request: Json
    reply: Json


class FailureOut(Schema):
    """Items that ended alike; `item` is the first of them, `call_key` the call at fault there, if there was one."""

    signature: str
    state: str
    stage: str
    reason: str
    count: int
    item: int
    message: str
    call_key: str
