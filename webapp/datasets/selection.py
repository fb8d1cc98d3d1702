"""Selection of tasks or trajectories for a dataset: a filter, its query and its words."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from django.db.models import Avg, Case, Count, Exists, FloatField, OuterRef, QuerySet, Subquery, Value, When
from pydantic import Field, ValidationError, model_validator

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from synthesis.formats.sft import Shape
from synthesis.stages import ActionRange
from synthesis.tasks.trajectory_filters import FilterSettings
from training.config import SettingName
from training.dataset import DatasetKind
from webapp.environments.models import Environment
from webapp.scenarios.models import Task
from webapp.taxonomy.former import present_node
from webapp.taxonomy.models import Node
from webapp.taxonomy.queries import subtree
from webapp.trajectories.models import Trajectory
from webapp.trajectories.totals import SCORED

MOST_ENVIRONMENTS = 1_000
Number = Annotated[int, Field(ge=1, le=2**63 - 1)]
Share = Annotated[float, Field(ge=0, le=1)]
Reward = Annotated[float, Field(ge=-1_000_000, le=1_000_000, allow_inf_nan=False)]
Words = Annotated[str, Field(max_length=200)]
AuditName = Literal["", "green", "red", "incomplete", "stale", "none"]
OutcomeName = Literal["", "solved", "failed", "agent_error", "program_error", "infra_error", "truncated", "cancelled"]
OF_TRAJECTORIES = ("outcome", "low", "high", "reasoning", "mask_history", "least_reward", "actions")


class DatasetSelection(Frozen):
    """A filter of tasks or trajectories. What is not named does not narrow; `category` is a label with all below it.

    `pass_low` to `pass_high` is the share of solved among the judged attempts that are here at a task's current
    revision, of policies whose name begins with `policy`, where there are at least `attempts` of them. Of tasks,
    `setting` says how they are to be attempted; of trajectories, how they were. The last ones are for trajectories:
    `low` to `high` is their reward, and what the export for training asks as well.
    """

    kind: DatasetKind = "tasks"
    source: Annotated[str, Field(max_length=32)] = ""
    category: Number | None = None
    environments: Annotated[tuple[Number, ...], Field(max_length=MOST_ENVIRONMENTS)] = ()
    setting: SettingName | Literal[""] = ""
    audit: AuditName = ""
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
        """What differs from choosing all, as JSON."""
        return self.model_dump(mode="json", exclude_defaults=True)

    @property
    def by_attempts(self) -> bool:
        """Whether tasks are chosen by how attempts at them went."""
        return self.pass_low is not None or self.pass_high is not None or bool(self.attempts)

    @property
    def shape(self) -> Shape:
        return Shape(format="trl", reasoning=self.reasoning, mask_history=self.mask_history)

    @property
    def sifting(self) -> FilterSettings:
        return FilterSettings(least_reward=self.least_reward, action_range=self.actions)


def choice_of(values: dict[str, Any]) -> DatasetSelection:
    """A choice out of values by field. Raises InputError, which names the field."""
    try:
        return DatasetSelection.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        why = str(first["msg"]).removeprefix("Value error, ")
        raise InputError(f"selection.{place}: {why}" if place else f"selection.{why}") from None


def tasks_of(choice: DatasetSelection) -> QuerySet[Task]:
    """The tasks that a choice of tasks finds."""
    rows = Task.objects.all()
    if choice.source:
        rows = rows.filter(source=choice.source)
    if choice.category is not None:
        rows = rows.filter(environment__node__in=_below(choice.category))
    if choice.environments:
        rows = rows.filter(environment__in=choice.environments)
    return _by_attempts(_audited(rows, choice), choice)


def trajectories_of(choice: DatasetSelection) -> QuerySet[Trajectory]:
    """The trajectories that a choice of them finds, before they are looked at one by one."""
    rows = Trajectory.objects.filter(live=False)
    if choice.source:
        rows = rows.filter(source=choice.source)
    if choice.category is not None:
        rows = rows.filter(environment__node__in=_below(choice.category))
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
        fitting = _by_attempts(_audited(Task.objects.filter(pk=OuterRef("task_id")), choice), choice)
        rows = rows.filter(Exists(fitting))
    return rows


def _below(category: int) -> QuerySet[Node, Any]:
    node = present_node(category)
    return subtree(node) if node else Node.objects.none().values("pk")


def _audited(rows: QuerySet[Task], choice: DatasetSelection) -> QuerySet[Task]:
    if not choice.audit:
        return rows
    return rows.filter(audit_state="" if choice.audit == "none" else choice.audit)


def _by_attempts(rows: QuerySet[Task], choice: DatasetSelection) -> QuerySet[Task]:
    """Attempts that nobody could judge (their reward is missing) are none, but for those that a program ended."""
    if not choice.by_attempts:
        return rows
    least = max(choice.attempts, 1)
    judged = Trajectory.objects.filter(SCORED, task=OuterRef("pk"), revision=OuterRef("current"), live=False)
    if choice.policy:
        judged = judged.filter(policy__startswith=choice.policy)
    grouped = judged.order_by().values("task")
    solved = Avg(Case(When(outcome="solved", then=Value(1.0)), default=Value(0.0), output_field=FloatField()))
    rows = rows.filter(trajectory_count__gte=least).annotate(
        judged=Subquery(grouped.annotate(number=Count("pk")).values("number")),
        share=Subquery(grouped.annotate(share=solved).values("share")),
    )
    rows = rows.filter(judged__gte=least)
    if choice.pass_low is not None:
        rows = rows.filter(share__gte=choice.pass_low - 1e-9)
    return rows if choice.pass_high is None else rows.filter(share__lte=choice.pass_high + 1e-9)


def words(choice: DatasetSelection) -> list[tuple[str, str]]:
    """The choice in words: (field, value). Names are those of now."""
    lines: list[tuple[str, str]] = [("Rows", choice.kind)]
    if choice.source:
        lines.append(("Source", choice.source))
    if choice.category is not None:
        node = present_node(choice.category)
        lines.append(
            ("Category", f"{node.name}, with all below" if node else f"label {choice.category}, which is gone")
        )
    if choice.environments:
        lines.append(("Environments", _environments(choice.environments)))
    if choice.setting:
        lines.append(("Setting", choice.setting))
    if choice.audit:
        lines.append(("Audit", {"none": "not audited"}.get(choice.audit, choice.audit)))
    if choice.policy:
        lines.append(("Policy", f"begins with {choice.policy}"))
    if choice.by_attempts:
        band = _band(choice.pass_low, choice.pass_high)
        least = max(choice.attempts, 1)
        lines.append(("Solved share of a task", f"{band}, of at least {least} judged attempt{'s' * (least != 1)}"))
    return lines + (_words_of_trajectories(choice) if choice.kind == "trajectories" else [])


def _words_of_trajectories(choice: DatasetSelection) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = [("Outcome", choice.outcome)] if choice.outcome else []
    if choice.low is not None or choice.high is not None:
        lines.append(("Reward", _band(choice.low, choice.high)))
    lines.append(("Least reward to learn from", f"{choice.least_reward:g}"))
    if choice.actions:
        own = choice.actions if isinstance(choice.actions, str) else "{} to {}".format(*choice.actions)
        lines.append(("Actions", "as released" if own == "released" else own))
    lines.append(("Reasoning", "kept" if choice.reasoning else "stripped"))
    lines.append(("A row is", "one turn, the turns before it masked" if choice.mask_history else "a whole trajectory"))
    return lines


def _band(low: float | None, high: float | None) -> str:
    if low is None and high is None:
        return "any"
    if low is None or high is None:
        return f"at most {high:g}" if low is None else f"at least {low:g}"
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _environments(pks: tuple[int, ...], named: int = 5) -> str:
    names = list(Environment.objects.filter(pk__in=pks).order_by("name").values_list("name", flat=True)[:named])
    more = len(pks) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")


def title_of(choice: DatasetSelection) -> str:
    """A name for a dataset that nobody named."""
    told = [f"{what.lower()} {which}" for what, which in words(choice)[1:] if what in ("Source", "Category", "Audit")]
    if choice.environments:
        told.append(f"{len(choice.environments)} environment{'s' * (len(choice.environments) != 1)}")
    if choice.by_attempts:
        told.append(f"solved share {_band(choice.pass_low, choice.pass_high)}")
    return f"{choice.kind.capitalize()}: {', '.join(told) or 'all'}"[:200]
