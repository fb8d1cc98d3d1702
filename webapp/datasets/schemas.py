"""Schemas of the API of datasets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import BeforeValidator, ConfigDict, Field

from synthesis.contracts import VerifierKind
from synthesis.stages import ActionRange
from training.config import SettingName
from training.dataset import ApartBy, DatasetKind, Split, SplitUnit
from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import BodyIn, Id, ShortText
from webapp.datasets.evidence.near_duplicates import NearDuplicate
from webapp.datasets.preview import DatasetPreview
from webapp.datasets.selection import (
    MOST_APART,
    MOST_ENVIRONMENTS,
    ApprovalName,
    AuditName,
    DatasetSelection,
    LikenessPart,
    OutcomeName,
    parse_selection,
)
from webapp.scenarios.withheld.filters import WithheldName

PublicId = Annotated[str, Field(max_length=60)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
Reward = Annotated[float, Field(ge=-1_000_000, le=1_000_000, allow_inf_nan=False)]


def _to_tuple(value: Any) -> Any:
    """Convert a list to a tuple: JSON has no tuples, and bodies are strict."""
    return tuple(value) if isinstance(value, list) else value


class LikenessIn(BodyIn):
    """Half of the environments that the filter finds, by how alike they are to a given set in topic and tools. The set
    is the environments of one of `dataset` (ds-…), `category`, `source` or `environments`; they themselves stay out."""

    part: Annotated[LikenessPart, Field(description="The most alike half, the least, or a random one.")]
    dataset: PublicId = ""
    category: Id | None = None
    source: Annotated[ShortText, Field(max_length=32)] = ""
    environments: Annotated[tuple[Id, ...], BeforeValidator(_to_tuple), Field(max_length=MOST_ENVIRONMENTS)] = ()
    seed: Annotated[Seed, Field(description="Of the random half.")] = 0


class SelectionIn(BodyIn):
    """The filter. Fields from `outcome` on are for trajectories."""

    kind: DatasetKind = "tasks"
    source: Annotated[ShortText, Field(max_length=32)] = ""
    category: Annotated[Id | None, Field(description="A label of the taxonomy, with all below it.")] = None
    environments: Annotated[tuple[Id, ...], BeforeValidator(_to_tuple), Field(max_length=MOST_ENVIRONMENTS)] = ()
    setting: SettingName | Literal[""] = ""
    audit: AuditName = ""
    approval: Annotated[
        ApprovalName,
        Field(description="Review state: of a task's current revision, of a trajectory's the one it was made at."),
    ] = ""
    verifier: Annotated[
        VerifierKind | Literal[""],
        Field(description="What judges a task; of a trajectory, at the revision that it was made at."),
    ] = ""
    withheld: Annotated[
        WithheldName,
        Field(description="Variants that withhold `any`thing, a `tool`, a `parameter`; `none`: the others."),
    ] = ""
    likeness: LikenessIn | None = None
    environment_count: Annotated[
        int | None,
        Field(ge=1, le=1_000_000, description="So many; a larger number holds a smaller one's."),
    ] = None
    environment_seed: Annotated[Seed, Field(description="Draws them.")] = 0
    apart_from: Annotated[
        tuple[PublicId, ...],
        BeforeValidator(_to_tuple),
        Field(max_length=MOST_APART, description="Frozen datasets (ds-…) to share nothing with."),
    ] = ()
    apart_by: Annotated[ApartBy, Field(description="What is not shared with them.")] = "environment"
    policy: ShortText = ""
    attempts: Annotated[int, Field(ge=0, le=1_000_000, description="Least number of judged attempts.")] = 0
    pass_low: Annotated[Share | None, Field(description="Least share of solved among a task's judged attempts.")] = None
    pass_high: Share | None = None
    outcome: OutcomeName = ""
    low: Annotated[Reward | None, Field(description="Least reward.")] = None
    high: Reward | None = None
    reasoning: bool = True
    mask_history: Annotated[bool, Field(description="One row a turn, of which that turn alone is learnt.")] = False
    least_reward: Share = 1.0
    actions: Annotated[ActionRange, BeforeValidator(_to_tuple)] = None


class DatasetSplitIn(BodyIn):
    unit: Annotated[
        SplitUnit,
        Field(
            description="What is never on both sides. `behaviour`: instruction and reference calls; rows without a "
            "reference are left out."
        ),
    ] = "environment"
    test_share: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.2
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 0

    def split(self) -> Split:
        return Split.model_validate(self.model_dump())


class DatasetIn(BodyIn):
    """Either a `selection`, or a `file` that was uploaded (`file-…`)."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"selection": {"kind": "tasks", "source": "starter", "audit": "green"}}]}
    )

    name: ShortText = ""
    selection: SelectionIn | None = None
    file: PublicId = ""
    licence: Annotated[
        ShortText, Field(max_length=100, description="Under which the rows may be used, for the dataset's card.")
    ] = ""
    split: DatasetSplitIn = Field(default_factory=DatasetSplitIn)
    dry_run: Annotated[bool, Field(description="Say what it would come to, and store nothing.")] = False

    def choice(self) -> DatasetSelection:
        """Return the selection. Raises InputError, which names the field."""
        return parse_selection((self.selection or SelectionIn()).model_dump())


class DatasetQuery(PageQuery):
    kind: Annotated[DatasetKind | None, Field(description="Only those of tasks, or of trajectories.")] = None
    state: Annotated[Literal["freezing", "ready", "failed"] | None, Field(description="Only in this state.")] = None
    archived: Annotated[bool, Field(description="The archived ones instead of the others.")] = False


class DatasetLine(Schema):
    id: str = Field(validation_alias="public_id")
    object: Literal["dataset"] = "dataset"
    name: str
    kind: DatasetKind
    source: Literal["selection", "file"]
    state: Literal["freezing", "ready", "failed"]
    error: str
    sentence: Annotated[str, Field(description="What has to be shown with every result on this dataset.")]
    split_unit: Annotated[SplitUnit | None, Field(description="What the split keeps together; null: nothing held out.")]
    sha256: str
    train_rows: int
    test_rows: int
    environments: int
    bytes: int
    archived: bool
    created_at: datetime
    job: Annotated[int | None, Field(description="The background job that freezes it.", validation_alias="job_id")]


class DatasetOut(DatasetLine):
    selection: dict[str, Any]
    file: Annotated[str | None, Field(description="The uploaded file that it was made of.")]
    split: dict[str, Any]
    manifest: dict[str, Any]
    licence: str
    left_out: Annotated[dict[str, int], Field(description="Why rows of the selection are not in it.")]
    characters: Annotated[dict[str, float], Field(description="Of each row: mean, 95th percentile, most.")]
    same_content: Annotated[list[str], Field(description="Older and newer datasets with the same hash.")]


class NearDuplicatesOut(Schema):
    """Held-out rows that are nearly the same as one to learn from: `rows` of them, of which pairs are listed."""

    object: Literal["list"] = "list"
    threshold: Annotated[float | None, Field(description="Null: sides were not compared, as nothing is held out.")]
    rows: int
    data: list[NearDuplicate]


class LookOut(DatasetPreview):
    """A dry run: nothing was stored."""

    object: Literal["dataset.dry_run"] = "dataset.dry_run"
