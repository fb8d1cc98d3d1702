"""Attempts of a batch in the API: query and response."""

from __future__ import annotations

from typing import Annotated, Literal

from django.db.models import Q, QuerySet
from ninja import Schema
from pydantic import Field

from webapp.batches.models import AttemptRole, BatchAttempt
from webapp.common.rest.paging import PageQuery
from webapp.common.rest.types import Id
from webapp.trajectories.schemas import OutcomeName


class AttemptQuery(PageQuery):
    role: Annotated[Literal["solver", "teacher"] | None, Field(description="Made as this role.")] = None
    kept: Annotated[bool | None, Field(description="Whether there is a trajectory of it.")] = None
    outcome: Annotated[OutcomeName | None, Field(description="`none`: nothing judged it.")] = None
    item: Annotated[Id | None, Field(description="Of this task or trajectory of the batch.")] = None

    def rows(self, batch: int) -> QuerySet[BatchAttempt]:
        """Return the requested attempts of a batch. An attempt's outcome is in its own row or in that of its
        trajectory."""
        rows = BatchAttempt.objects.filter(item__batch_id=batch).select_related("item", "trajectory")
        rows = rows.defer("item__spec", *(f"trajectory__{name}" for name in ("record", "matrix", "provenance")))
        rows = rows.filter(role=self.role) if self.role else rows
        rows = rows.filter(item=self.item) if self.item else rows
        rows = rows if self.kept is None else rows.filter(trajectory__isnull=not self.kept)
        if self.outcome is None:
            return rows
        if self.outcome == "none":
            return rows.filter(Q(trajectory=None) | Q(trajectory__outcome=""), outcome="")
        return rows.filter(Q(outcome=self.outcome) | Q(outcome="", trajectory__outcome=self.outcome))


class BatchAttemptOut(Schema):
    """One attempt of a batch's item at a task. `solver`: a try at the task's reference; otherwise a teacher's.

    If no trajectory of it is kept, `unkept` and `message` give the reason; an `infra_error` counts in no rate.
    `rejected` is the filter by which the batch excluded a kept trajectory from training data.
    """

    id: int
    item_id: int
    path: Annotated[str, Field(validation_alias="item.path")]
    role: str
    solver: bool
    ordinal: int
    conversational: bool | None
    trajectory_id: int | None
    outcome: str
    reward: float | None
    rejected: str
    unkept: str
    message: str

    @staticmethod
    def resolve_solver(row: BatchAttempt) -> bool:
        return row.role == AttemptRole.SOLVER

    @staticmethod
    def resolve_outcome(row: BatchAttempt) -> str:
        return row.outcome or (row.trajectory.outcome if row.trajectory else "")

    @staticmethod
    def resolve_conversational(row: BatchAttempt) -> bool | None:
        return row.trajectory.conversational if row.trajectory else None

    @staticmethod
    def resolve_reward(row: BatchAttempt) -> float | None:
        return row.trajectory.reward if row.trajectory else None

    @staticmethod
    def resolve_rejected(row: BatchAttempt) -> str:
        return row.trajectory.rejected if row.trajectory else ""
