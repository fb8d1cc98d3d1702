"""API schemas of scenarios, tasks and checks."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from synthesis.contracts import VerifierKind
from synthesis.stages import Variant
from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import BodyIn, Id, Json, ShortText
from webapp.scenarios.answers.answer_form import read_answer_form, read_form_and_expected
from webapp.scenarios.models import PASS_AT, PolicyPass, TaskDifficulty, TaskRevision
from webapp.scenarios.queries import DifficultyName
from webapp.scenarios.verifiers.verifier_schemas import FrameOut, VerifierOut, serialize_verifier
from webapp.scenarios.withheld.filters import WithheldName

Knob = Literal[
    "walk_steps", "weak_share", "independent_share", "unique_tools", "invocations", "branches", "aggregations"
]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]


class ScenarioQuery(PageQuery):
    environment: Annotated[Id | None, Field(description="Of this environment.")] = None


class ScenarioLine(Schema):
    id: int
    environment_id: int
    version_id: int
    name: str
    task_count: int
    state_hash: Annotated[str, Field(validation_alias="initial_id", description="SHA-256 of the initial state.")]
    created_at: datetime


class StateOut(Schema):
    """A state in its lossless encoding: sets, tuples and keys that are not texts are tagged objects."""

    hash: str
    state: Json


class TaskFilterQuery(BodyIn):
    """Filters as query parameters, and as a part of bodies: there an unknown filter is refused, since it would select
    more."""

    model_config = ConfigDict(strict=False)  # query parameters are texts

    q: Annotated[ShortText, Field(description="Text in the title, the key or the instruction.")] = ""
    environment: Annotated[
        ShortText, Field(description="An id, part of the name, or the whole key; `id:12`: this one alone.")
    ] = ""
    category: Annotated[ShortText, Field(description="The category of the environment, written whole.")] = ""
    finding: Annotated[ShortText, Field(description="A kind of finding, `any` or `none`.")] = ""
    audit: Annotated[
        Literal["", "green", "red", "incomplete", "unproven", "stale", "none"],
        Field(description="`none`: not audited."),
    ] = ""
    fault: Annotated[ShortText, Field(description="A kind of fault that the audit found.")] = ""
    review: Annotated[
        Literal["", "draft", "in_review", "changes_requested", "approved", "rejected", "superseded"],
        Field(
            description="What people decided on the current revision; `superseded`: it cannot be attempted any more."
        ),
    ] = ""
    verifier: Annotated[Literal["", VerifierKind], Field(description="What judges: a kind of verifier.")] = ""
    variant: Annotated[
        Literal["", Variant, "none"],
        Field(description="Whose pipeline made it; `none`: no batch did."),
    ] = ""
    knob: Annotated[
        Literal["", Knob], Field(description="A measure of difficulty that `knob_from` and `knob_to` bound.")
    ] = ""
    knob_from: Annotated[float | None, Field(ge=0, description="Minimum of what `knob` names.")] = None
    knob_to: Annotated[float | None, Field(ge=0, description="What `knob` names is below this value.")] = None
    ten: Annotated[
        int | None, Field(ge=0, le=PASS_AT, description="Number of a policy's first ten attempts that solved it.")
    ] = None
    ten_by: Annotated[ShortText, Field(description="The policy that `ten` counts attempts of, its whole name.")] = ""
    withheld: Annotated[
        WithheldName,
        Field(description="Variants that withhold `any`thing, a `tool`, a `parameter`; `none`: the others."),
    ] = ""
    low: Annotated[Share | None, Field(description="What doing nothing scores at least.")] = None
    high: Annotated[Share | None, Field(description="What doing nothing scores at most.")] = None
    fewest: Annotated[Count | None, Field(description="Checks at least.")] = None
    most: Annotated[Count | None, Field(description="Checks at most.")] = None
    difficulty: Annotated[
        DifficultyName,
        Field(description="By judged attempts: none made, none or all solved it, or so many tenths, from 0 to 9."),
    ] = ""
    source: Annotated[ShortText, Field(description="Its source, such as starter.")] = ""
    leave_out: Annotated[ShortText, Field(max_length=32, description="Not in environments of this source.")] = ""

    def values(self) -> dict[str, Any]:
        """Return the filters that are set, as `queries.tasks` takes them."""
        filters = self.model_dump(exclude={"limit", "cursor", "sort"})
        return {name: value for name, value in filters.items() if value not in (None, "")}


class TaskQuery(TaskFilterQuery, PageQuery):
    sort: Annotated[
        Literal[
            "-id",
            "id",
            "-do_nothing",
            "do_nothing",
            "-check_count",
            "check_count",
            "-finding_count",
            "-trajectory_count",
        ],
        Field(description="Descending with a minus."),
    ] = "-id"


class TaskLine(Schema):
    """A task. `do_nothing` is the reward of an agent that does nothing; null if nothing could be scored."""

    id: int
    environment_id: int
    environment: Annotated[str, Field(validation_alias="environment.name")]
    source: str
    key: str
    title: str
    check_count: int
    finding_count: int
    trajectory_count: int
    do_nothing: float | None
    audit_state: Annotated[
        str, Field(description="green, red, incomplete, unproven, stale; empty if it was never audited.")
    ]
    review_state: Annotated[str, Field(description="draft, in_review, changes_requested, approved, rejected.")]
    superseded: Annotated[bool, Field(description="Whether its current revision cannot be attempted any more.")]
    verifier_kind: Annotated[str, Field(description="checks, golden, rubric or script.")]
    withheld: Annotated[
        str,
        Field(description="Of a variant the tool that it withholds, or tool(parameter): the right thing is to say so."),
    ]
    parent_id: Annotated[int | None, Field(description="Of a variant: the task that it was made of.")]
    variant: Annotated[str, Field(description="The variant of the pipeline that made it; empty if no batch did.")]
    created_at: datetime


class CheckOut(Schema):
    """A check. `mark` is its result on the initial state: a `goal` is false there, a `guard` true. Each assertion of a
    script is a check; the comparison with a golden state is the first one, without a source."""

    id: int
    position: int
    label: str
    source: str
    mark: str
    start_error: str


class TaskFindingOut(Schema):
    id: int
    kind: str
    severity: str
    place: str
    message: str
    data: Json


class RevisionLine(Schema):
    id: int
    task_id: int
    scenario_id: int
    number: int
    content_hash: str
    verifier_kind: Annotated[str, Field(description="checks, golden, rubric or script.")]
    score_rule: str
    verifier_hash: str
    do_nothing: float | None
    created_at: datetime


class AnswerFieldOut(Schema):
    """One field of the answer form that an agent submits; it may leave out those that are not `required`."""

    name: str
    type: str
    description: str
    unit: str
    tolerance: float
    choices: list[str]
    items: AnswerFieldOut | None
    ordered: bool
    fields: list[AnswerFieldOut]
    required: bool


class WithheldOut(Schema):
    """A tool or parameter that attempts cannot see or call; `parameter` is empty if the whole tool is withheld."""

    tool: str
    parameter: str


class DifficultyOut(Schema):
    """Difficulty as `Difficulty` counts it; null is what tasks of its kind do not have."""

    walk_steps: int | None
    weak_share: float | None
    independent_share: float | None
    unique_tools: int | None
    invocations: int | None
    branches: int | None
    aggregations: int | None


class ConsistencyOut(Schema):
    """Agreement of solver runs: `solved` of `runs` passed within `turn_limit` turns when the task was made, the answers
    of `alike` equal each other, and by the `rule` `agree` of the first or the second had to."""

    runs: int
    solved: int
    agree: int
    turn_limit: int
    turns: list[int]
    alike: int | None
    rule: str


class PolicyPassOut(Schema):
    """Plain attempts of a policy: `solved` of the `tried` ones; `ten` of the first ten, null if there are fewer."""

    policy: str
    tried: int
    solved: int
    ten: int | None


class RevisionOut(RevisionLine):
    instruction: str
    variant: Annotated[str, Field(description="The variant of the pipeline that made it; empty if no batch did.")]
    difficulty: Annotated[DifficultyOut | None, Field(description="null: it has no reference to count.")]
    consistency: Annotated[ConsistencyOut | None, Field(description="null: no solver was asked several times.")]
    passes: Annotated[list[PolicyPassOut], Field(description="Pass@10 by policy.")]
    answer_form: Annotated[list[AnswerFieldOut], Field(description="Empty if the task asks for no form.")]
    expected_answer: Annotated[
        dict[str, Json],
        Field(description="The expected value of each field that is compared; a check reads the others."),
    ]
    verifier: Annotated[VerifierOut, Field(description="What judges, whole, but for the golden state's content.")]
    frame: Annotated[FrameOut | None, Field(description="null: whatever no check looks at may change.")]
    withheld: Annotated[WithheldOut | None, Field(description="null: all tools are offered.")]
    superseded: Annotated[str, Field(description="Why it cannot be attempted any more; empty for one that counts.")]
    checks: Annotated[
        list[CheckOut],
        Field(description="What scores list verdicts on, in this order, of every kind of verifier but a rubric."),
    ]
    findings: list[TaskFindingOut]

    @staticmethod
    def resolve_difficulty(row: TaskRevision) -> TaskDifficulty | None:
        return getattr(row, "difficulty", None)

    @staticmethod
    def resolve_passes(row: TaskRevision) -> list[PolicyPass]:
        return sorted(row.passes.all(), key=lambda one: one.policy)

    @staticmethod
    def resolve_answer_form(row: TaskRevision) -> list[AnswerFieldOut]:
        return [AnswerFieldOut(**field.model_dump()) for field in read_answer_form(row)]

    @staticmethod
    def resolve_verifier(row: TaskRevision) -> VerifierOut:
        return serialize_verifier(row)

    @staticmethod
    def resolve_expected_answer(row: TaskRevision) -> dict[str, Any]:
        return read_form_and_expected(row)[1]


class TaskOut(TaskLine):
    scenario_id: int
    version_id: Annotated[int, Field(validation_alias="scenario.version_id")]
    current: RevisionOut | None
