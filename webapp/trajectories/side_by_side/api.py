"""Comparison of attempts over the API."""

from __future__ import annotations

from django.http import HttpRequest
from ninja import Query, Router

from webapp.common.rest.auth import require_scope
from webapp.trajectories.side_by_side import queries
from webapp.trajectories.side_by_side.schemas import ComparisonQuery, TrajectoryComparisonOut
from webapp.trajectories.side_by_side.table import Comparison, compare_attempts

router = Router(tags=["trajectories"])


@router.get("/trajectories/compare", auth=require_scope("read"), response=TrajectoryComparisonOut)
def compare_trajectories(request: HttpRequest, query: Query[ComparisonQuery]) -> Comparison:
    """Compare two to four attempts at one task: the point at which they part, their steps aligned, their checks side by
    side."""
    return compare_attempts(queries.require_attempts(queries.read_ids([query.ids])), query.start)
