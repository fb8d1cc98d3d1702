"""Training data over the API: streamed at once, or made in the background and fetched."""

from __future__ import annotations

from typing import Annotated

from django.http import HttpRequest, StreamingHttpResponse
from django.shortcuts import get_object_or_404
from ninja import Query, Router
from pydantic import ConfigDict, Field, FiniteFloat

from synthesis.formats.sft import SftFormat, Shape
from synthesis.tasks.trajectory_filters import FilterSettings
from webapp.accounts.services import write_audit_entry
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.problems import Problem
from webapp.common.rest.types import BodyIn, Id, ShortText, describe_file_answer
from webapp.jobs.models import Job
from webapp.jobs.schemas import JobOut
from webapp.trajectories.export import services
from webapp.trajectories.export.archive import build_attachment, read_stored_file, stream_zip
from webapp.trajectories.export.lines import Export
from webapp.trajectories.export.spec import ExportSpec, build_selection, parse_range
from webapp.trajectories.schemas import Q_HELP, OutcomeName, ReplayName, Reward, TrajectorySelectionQuery
from webapp.trajectories.trajectory_list import Filters

router = Router(tags=["training data"])
ZIP = describe_file_answer("application/zip", "train.jsonl, one record a line, and manifest.json")
Format = Annotated[SftFormat, Field(description="What reads it: TRL, or LlamaFactory in two ways.")]
Reasoning = Annotated[bool, Field(description="Whether the agent's reasoning is kept.")]
MaskHistory = Annotated[bool, Field(description="One record for each turn, of which the last turn alone is learnt.")]
LeastReward = Annotated[FiniteFloat, Field(ge=0, le=1, description="Runs that earned less are left out.")]
Actions = Annotated[
    ShortText, Field(description="How many calls and messages a run may have: `3-29`, `released`, or empty for any.")
]


class TrainingQuery(TrajectorySelectionQuery):
    format: Format = "trl"
    reasoning: Reasoning = True
    mask_history: MaskHistory = False
    least_reward: LeastReward = 1.0
    actions: Actions = ""


class TrainingIn(BodyIn):
    """The filters of the list of trajectories, and the format of the export."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"format": "trl", "source": "starter"}]})

    q: Annotated[ShortText, Field(description=Q_HELP)] = ""
    outcome: OutcomeName | None = None
    replay: ReplayName | None = None
    environment: Id | None = None
    task: Id | None = None
    parent: Id | None = None
    policy: ShortText = ""
    source: Annotated[ShortText, Field(max_length=32)] = ""
    low: Reward | None = None
    high: Reward | None = None
    format: Format = "trl"
    reasoning: Reasoning = True
    mask_history: MaskHistory = False
    least_reward: LeastReward = 1.0
    actions: Actions = ""

    def filters(self) -> Filters:
        names = ("environment", "task", "parent", "policy", "source", "low", "high")
        chosen = {name: getattr(self, name) for name in names}
        return Filters(outcome=self.outcome or "", replay=self.replay or "", q=self.q.strip(), **chosen)


def build_export_spec(settings: TrainingQuery | TrainingIn) -> ExportSpec:
    """Return the export that a query or a body asks for. Raises InputError."""
    return ExportSpec(
        selection=build_selection(settings.filters()),
        shape=Shape(format=settings.format, reasoning=settings.reasoning, mask_history=settings.mask_history),
        sifting=FilterSettings(least_reward=settings.least_reward, action_range=parse_range(settings.actions)),
    )


@router.get("/trajectories/export/training", auth=require_scope("read"), openapi_extra=ZIP)
def export_training_data(request: HttpRequest, query: Query[TrainingQuery]) -> StreamingHttpResponse:
    """Export the runs that pass the list's filters and the training filters, as an archive with a manifest, newest
    first."""
    spec = build_export_spec(query)
    write_audit_entry(get_acting_user(request), "trajectories.export_training", **spec.summary())
    return build_attachment(stream_zip(Export(spec)))


@router.post("/exports/training", auth=require_scope("synthesise"), response={202: JobOut})
@idempotent
def create_training_export(request: HttpRequest, body: TrainingIn) -> Job:
    """Make the same archive in the background. Follow the job at /jobs/{id}."""
    return services.start_export(get_acting_user(request), build_export_spec(body))


@router.get("/exports/training/{job}", auth=require_scope("read"), openapi_extra=ZIP)
def fetch_training_export(request: HttpRequest, job: Id) -> StreamingHttpResponse:
    """Return the archive of an export that was made in the background, by the number of its job."""
    row = get_object_or_404(services.list_exports(), pk=job)
    name = services.find_export_file(row)
    if not name:
        raise Problem(404, f"The export {job} has no file: it is not done, or it was cleared away. Start it again.")
    write_audit_entry(get_acting_user(request), "trajectories.export_training", row, file=name)
    return build_attachment(read_stored_file(name))
