"""Tasks that the page of difficulty counts, as SQL and as lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from webapp.environments.models import Environment
from webapp.pages.demo_content import SOURCE as DEMO
from webapp.pages.statistics.attempt_scope import AttemptScope
from webapp.scenarios.models import PolicyPass, Task, TaskDifficulty

NEWEST = 50_000
"""Tasks that are counted: more would take longer than a page may."""


@dataclass(frozen=True)
class TaskScope:
    """Tasks of one environment or variant, or all that have a reference. With a `policy` only its attempts count.

    Attempts are plain ones: no conversations, no forks, no attempts at a reference. Those of earlier revisions of a
    task are left out.
    """

    environment: int | None = None
    variant: str = ""
    policy: str = ""
    demo: bool = False

    @property
    def narrowed(self) -> bool:
        return bool(self.environment or self.variant or self.policy)

    @property
    def leave_out(self) -> str:
        """The source of environments whose tasks are not counted."""
        return "" if self.demo or self.environment else DEMO

    @property
    def attempts(self) -> AttemptScope:
        """The attempts at these tasks; a variant does not narrow them."""
        return AttemptScope(self.environment, self.policy, demo=self.demo)

    def select_tasks(self) -> tuple[str, list[Any]]:
        """Return a query of (id, variant, revision, environment) of the tasks, and its parameters."""
        conditions, parameters = ["one.current_id IS NOT NULL"], list[Any]()
        if self.environment:
            conditions.append("one.environment_id = %s")
            parameters.append(self.environment)
        if self.variant:
            conditions.append("one.variant = %s")
            parameters.append("" if self.variant == "none" else self.variant)
        if self.leave_out and Environment.objects.filter(source=DEMO).exists():
            conditions.append(
                f"one.environment_id NOT IN (SELECT id FROM {Environment._meta.db_table} WHERE source = %s)"
            )
            parameters.append(DEMO)
        query = (
            f"SELECT one.id, one.variant, one.current_id AS revision_id FROM {Task._meta.db_table} AS one "
            f"WHERE {' AND '.join(conditions)} ORDER BY one.id DESC LIMIT {NEWEST}"
        )
        return query, parameters

    def select_measured(self) -> tuple[str, list[Any]]:
        """Return a query of the measured tasks' variant, knobs, and plain attempts (tried, solved), with parameters."""
        tasks, parameters = self.select_tasks()
        of_policy = "WHERE policy = %s" if self.policy else ""
        passes = f"SELECT revision_id, tried, solved FROM {PolicyPass._meta.db_table} {of_policy}"
        if not self.policy:
            passes = (
                f"SELECT revision_id, sum(tried) AS tried, sum(solved) AS solved FROM {PolicyPass._meta.db_table} "
                "GROUP BY revision_id"
            )
        query = (
            f"SELECT task.variant, knob.*, coalesce(pass.tried, 0)::bigint AS tried, "
            f"coalesce(pass.solved, 0)::bigint AS solved FROM ({tasks}) AS task "
            f"JOIN {TaskDifficulty._meta.db_table} AS knob ON knob.revision_id = task.revision_id "
            f"LEFT JOIN ({passes}) AS pass ON pass.revision_id = task.revision_id"
        )
        return query, [*parameters, *([self.policy] if self.policy else [])]

    def build_tasks_url(self, **more: Any) -> str:
        """Return the address of the list of these tasks, narrowed by `more`."""
        parameters = {
            "environment": f"id:{self.environment}" if self.environment else "",
            "variant": self.variant,
            "leave_out": self.leave_out,
            **more,
        }
        set_parameters = {name: value for name, value in parameters.items() if value not in ("", None)}
        return f"{reverse('scenarios:tasks')}?{urlencode(set_parameters)}"
