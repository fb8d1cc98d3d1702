"""What every template knows: the rail and the person's rights."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from webapp.accounts.access import SCOPES

RAIL = (
    ("environments", "Environments", "environments:list"),
    ("tasks", "Tasks", "scenarios:tasks"),
    ("trajectories", "Trajectories", "trajectories:list"),
    ("jobs", "Jobs", "jobs:list"),
    ("import", "Import", "pages:import"),
)


def house(request: HttpRequest) -> dict[str, Any]:
    role = getattr(request.user, "role", "") if getattr(request, "user", None) else ""
    return {"rail": RAIL, "scopes": SCOPES.get(role, frozenset())}
