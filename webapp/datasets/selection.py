"""Selection of tasks or trajectories for a dataset: a filter, its query and its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    Avg,
    BigIntegerField,
    Case,
    Count,
    Exists,
    FloatField,
    Func,
    OuterRef,
    QuerySet,
    Subquery,
    Value,
    When,
)
from pydantic import Field, ValidationError, model_validator

from synthesis.contracts import Frozen, VerifierKind
from synthesis.errors import InputError
from synthesis.formats.sft import Shape
from synthesis.stages import ActionRange
from synthesis.tasks.trajectory_filters import FilterSettings
from training.config import SettingName
from training.dataset import ApartBy, DatasetKind
from webapp.scenarios.models import Task
from webapp.scenarios.withheld.filters import WithheldName, build_withheld_filter
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.models import Node
from webapp.taxonomy.queries import select_subtree
from webapp.trajectories.models import Trajectory
from webapp.trajectories.totals import SCORED

MOST_ENVIRONMENTS = 1_000
MOST_APART = 20
Number = Annotated[int, Field(ge=1, le=2**63 - 1)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]
DatasetId = Annotated[str, Field(min_length=4, max_length=60)]
Share = Annotated[float, Field(ge=0, le=1)]
Reward = Annotated[float, Field(ge=-1_000_000, le=1_000_000, allow_inf_nan=False)]
Words = Annotated[str, Field(max_length=200)]
AuditName = Literal["", "green", "red", "incomplete", "unproven", "stale", "none"]
ApprovalName = Literal["", "approved", "draft", "in_review", "changes_requested", "rejected"]
LikenessPart = Literal["most", "least", "random"]
OutcomeName = Literal["", "solved", "failed", "agent_error", "program_error", "infra_error", "truncated", "cancelled"]
OF_TRAJECTORIES = ("outcome", "low", "high", "reasoning", "mask_history", "least_reward", "actions")


class Likeness(Frozen):
    """Half of the environments that a filter finds, by how alike they are to a given set in topic and tools (EnvScaler
    5.3): the most alike, the least, or a random half to compare with, drawn by `seed`.

    The set is the environments of a frozen `dataset` (ds-…), of a `category`, of a `source`, or those that are named;
    they themselves stay out.
    """

    part: LikenessPart
    dataset: Annotated[str, Field(max_length=60)] = ""
    category: Number | None = None
    source: Annotated[str, Field(max_length=32)] = ""
    environments: Annotated[tuple[Number, ...], Field(max_length=MOST_ENVIRONMENTS)] = ()
    seed: Seed = 0

    @model_validator(mode="after")
    def _names_one_set(self) -> Self:
        named = (self.dataset, self.category, self.source, self.environments)
        if sum(bool(what) for what in named) != 1:
            raise ValueError("name one set to compare with: a dataset, a category, a source or environments")
        return self


class DatasetSelection(Frozen):
    """A filter of tasks or trajectories. A field that is not set does not narrow; `category` is a label with all below
    it.

    `verifier` is the kind of a task's verifier, `withheld` what tasks withhold from their attempts (`any`, `none`,
    `tool`, `parameter`). `approval` is the review state of the revision: of a task its current one, of a trajectory the
    one that it was made at. Of the environments that are found, `likeness` keeps half, and `environment_count` so many,
    drawn by `environment_seed`: a larger number holds all that a smaller one does (EnvScaler 5.4). `apart_from` are
    datasets that share no environment, or no behaviour, with this one.

    `pass_low` to `pass_high` is the share of solved among the judged attempts that are here at a task's current
    revision, of policies whose name begins with `policy`, if there are at least `attempts` of them. Of tasks, `setting`
    says how they are to be attempted; of trajectories, how they were. The last ones are for trajectories: `low` to
    `high` is their reward, followed by the settings of the export for training.
    """

    kind: DatasetKind = "tasks"
    source: Annotated[str, Field(max_length=32)] = ""
    category: Number | None = None
    environments: Annotated[tuple[Number, ...], Field(max_length=MOST_ENVIRONMENTS)] = ()
    setting: SettingName | Literal[""] = ""
    audit: AuditName = ""
    approval: ApprovalName = ""
    verifier: VerifierKind | Literal[""] = ""
    withheld: WithheldName = ""
    likeness: Likeness | None = None
    environment_count: Annotated[int | None, Field(ge=1, le=1_000_000)] = None
    environment_seed: Seed = 0
    apart_from: Annotated[tuple[DatasetId, ...], Field(max_length=MOST_APART)] = ()
    apart_by: ApartBy = "environment"
    policy: Words = ""
    attempts: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    pass_low: Share | None = None
    pass_high: Share | None = None
    outcome: OutcomeName = ""
    low: Reward | None = None
    high: Reward | None = None
    reasoning: bool = True
    mask_history: bool = False
    least_reward: Share = 1.0
    actions: ActionRange = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for low, high in (("pass_low", "pass_high"), ("low", "high")):
            ends = getattr(self, low), getattr(self, high)
            if None not in ends and ends[0] > ends[1]:
                raise ValueError(f"{high}: the higher end is below the lower one")
        if self.kind == "tasks" and (strange := [name for name in OF_TRAJECTORIES if name in self.chosen()]):
            raise ValueError(f"{strange[0]}: is for datasets of trajectories; leave it out for tasks")
        return self

    def chosen(self) -> dict[str, Any]:
        """Return what differs from choosing all, as JSON."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def by_attempts(self) -> bool:
        """True if tasks are chosen by the results of attempts at them."""
        return self.pass_low is not None or self.pass_high is not None or bool(self.attempts)

    @property
    def samples_environments(self) -> bool:
        """True if some of the environments that it finds are drawn."""
        return self.likeness is not None or self.environment_count is not None

    @property
    def shape(self) -> Shape:
        return Shape(format="trl", reasoning=self.reasoning, mask_history=self.mask_history)

    @property
    def sifting(self) -> FilterSettings:
        return FilterSettings(least_reward=self.least_reward, action_range=self.actions)


def parse_selection(values: dict[str, Any]) -> DatasetSelection:
    """Return a selection from values by field. Raises InputError, which names the field."""
    try:
        return DatasetSelection.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        why = str(first["msg"]).removeprefix("Value error, ")
        raise InputError(f"selection.{place}: {why}" if place else f"selection.{why}") from None


def select_tasks(choice: DatasetSelection, within: Sequence[int] | None = None) -> QuerySet[Task]:
    """Return the tasks that a choice of tasks finds, of the environments that were drawn (`within`) if some were."""
    rows = Task.objects.all()
    if within is not None:
        rows = rows.filter(environment__in=_unnest_ids(within))
    if choice.approval:
        rows = rows.filter(review_state=choice.approval)
    if choice.verifier:
        rows = rows.filter(verifier_kind=choice.verifier)
    if choice.withheld:
        rows = rows.filter(build_withheld_filter(choice.withheld))
    if choice.source:
        rows = rows.filter(source=choice.source)
    if choice.category is not None:
        rows = rows.filter(environment__node__in=_nodes_below(choice.category))
    if choice.environments:
        rows = rows.filter(environment__in=choice.environments)
    return _filter_by_attempts(_filter_by_audit(rows, choice), choice)


def select_trajectories(choice: DatasetSelection, within: Sequence[int] | None = None) -> QuerySet[Trajectory]:
    """Return the trajectories that a choice of them finds, before they are checked one by one; `within` as in
    `select_tasks`."""
    rows = Trajectory.objects.filter(live=False)
    if within is not None:
        rows = rows.filter(environment__in=_unnest_ids(within))
    if choice.approval:
        rows = rows.filter(revision__review_state=choice.approval)
    if choice.verifier:
        rows = rows.filter(revision__verifier_kind=choice.verifier)
    if choice.withheld:
        rows = rows.filter(build_withheld_filter(choice.withheld, "task__"))
    if choice.source:
        rows = rows.filter(source=choice.source)
    if choice.category is not None:
        rows = rows.filter(environment__node__in=_nodes_below(choice.category))
    if choice.environments:
        rows = rows.filter(environment__in=choice.environments)
    if choice.setting:
        rows = rows.filter(conversational=choice.setting == "conversation")
    if choice.policy:
        rows = rows.filter(policy__startswith=choice.policy)
    if choice.outcome:
        rows = rows.filter(outcome=choice.outcome)
    if choice.low is not None:
        rows = rows.filter(reward__gte=choice.low)
    if choice.high is not None:
        rows = rows.filter(reward__lte=choice.high)
    if choice.audit or choice.by_attempts:
        fitting = _filter_by_attempts(_filter_by_audit(Task.objects.filter(pk=OuterRef("task_id")), choice), choice)
        rows = rows.filter(Exists(fitting))
    return rows


def _unnest_ids(pks: Sequence[int]) -> Func:
    """Return keys as one parameter: a hundred thousand parameters are too many for a query."""
    listed = Value(list(pks), output_field=ArrayField(BigIntegerField()))
    return Func(listed, template="SELECT unnest(%(expressions)s)", output_field=BigIntegerField())


def _nodes_below(category: int) -> QuerySet[Node, Any]:
    node = find_present_node(category)
    return select_subtree(node) if node else Node.objects.none().values("pk")


def _filter_by_audit(rows: QuerySet[Task], choice: DatasetSelection) -> QuerySet[Task]:
    if not choice.audit:
        return rows
    return rows.filter(audit_state="" if choice.audit == "none" else choice.audit)


def _filter_by_attempts(rows: QuerySet[Task], choice: DatasetSelection) -> QuerySet[Task]:
    """Filter tasks by the results of their judged attempts.

    Attempts without a reward were not judged and do not count, except those that a program ended.
    """
    if not choice.by_attempts:
        return rows
    least = max(choice.attempts, 1)
    judged_attempts = Trajectory.objects.filter(SCORED, task=OuterRef("pk"), revision=OuterRef("current"), live=False)
    if choice.policy:
        judged_attempts = judged_attempts.filter(policy__startswith=choice.policy)
    grouped = judged_attempts.order_by().values("task")
    solved = Avg(Case(When(outcome="solved", then=Value(1.0)), default=Value(0.0), output_field=FloatField()))
    rows = rows.filter(trajectory_count__gte=least).annotate(
        judged=Subquery(grouped.annotate(number=Count("pk")).values("number")),
        share=Subquery(grouped.annotate(share=solved).values("share")),
    )
    rows = rows.filter(judged__gte=least)
    if choice.pass_low is not None:
        rows = rows.filter(share__gte=choice.pass_low - 1e-9)
    return rows if choice.pass_high is None else rows.filter(share__lte=choice.pass_high + 1e-9)
