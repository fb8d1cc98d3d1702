"""Attempts that a page of the statistics counts, and the lists that show exactly those."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse
from django.utils import timezone

from webapp.environments.models import Environment
from webapp.pages.demo_content import SOURCE as DEMO
from webapp.scenarios.models import Task
from webapp.trajectories.models import Trajectory

WINDOWS = (7, 30, 90)
"""Days that a page can be narrowed to."""
NEWEST = 20_000
"""Attempts that are counted: more would take longer than a page may."""


@dataclass(frozen=True)
class AttemptScope:
    """The attempts of one environment, policy or time, or all that are over. `days` is 0 if time does not matter.

    Attempts without an environment are never counted, those of the training demo only if they are asked for.
    """

    environment: int | None = None
    policy: str = ""
    days: int = 0
    demo: bool = False

    @property
    def narrowed(self) -> bool:
        return bool(self.environment or self.policy or self.days)

    @cached_property
    def since(self) -> date | None:
        """The first day that counts, in UTC."""
        return timezone.now().astimezone(UTC).date() - timedelta(days=self.days - 1) if self.days else None

    @property
    def leave_out(self) -> str:
        """The source of environments whose attempts are not counted."""
        return "" if self.demo or self.environment else DEMO

    @cached_property
    def from_id(self) -> int | None:
        """The number of the oldest attempt that counts; None if all of them do."""
        rows = self._select_attempts().order_by("-id").values_list("pk", flat=True)
        beyond = list(rows[NEWEST - 1 : NEWEST + 1])
        return beyond[0] if len(beyond) > 1 else None

    def attempts(self) -> QuerySet[Trajectory]:
        """Return the newest `NEWEST` attempts that are over."""
        rows = self._select_attempts()
        return rows.filter(pk__gte=self.from_id) if self.from_id is not None else rows

    def _select_attempts(self) -> QuerySet[Trajectory]:
        rows = Trajectory.objects.filter(live=False, environment__isnull=False).order_by()
        if self.environment:
            rows = rows.filter(environment=self.environment)
        elif self.leave_out and Environment.objects.filter(source=DEMO).exists():
            rows = rows.exclude(environment__in=Environment.objects.filter(source=DEMO))
        if self.policy:
            rows = rows.filter(policy=self.policy)
        if self.since:
            rows = rows.filter(created_at__gte=datetime.combine(self.since, time.min, UTC))
        return rows

    def tasks(self) -> QuerySet[Task]:
        """Return the tasks; a policy and a time do not narrow them."""
        rows = Task.objects.order_by()
        if self.environment:
            return rows.filter(environment=self.environment)
        return rows.exclude(environment__source=DEMO) if self.leave_out else rows

    def build_attempts_url(self, **more: Any) -> str:
        """Return the address of the list of these attempts, narrowed by `more`."""
        parameters = {
            "environment": self.environment,
            "made_by": self.policy,
            "since": self.since.isoformat() if self.since else "",
            "leave_out": self.leave_out,
            "from_id": self.from_id,
            **more,
        }
        return (
            f"{reverse('trajectories:list')}?{urlencode({name: value for name, value in parameters.items() if value})}"
        )

    def build_tasks_url(self, **more: Any) -> str:
        """Return the address of the list of these tasks, narrowed by `more`."""
        parameters = {
            "environment": f"id:{self.environment}" if self.environment else "",
            "leave_out": self.leave_out,
            **more,
        }
        return f"{reverse('scenarios:tasks')}?{urlencode({name: value for name, value in parameters.items() if value})}"
