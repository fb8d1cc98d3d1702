"""What every template knows: the rail and the person's rights."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from webapp.accounts.access import SCOPES, Scope

THEMES = ("auto", "light", "dark")
RAIL: tuple[tuple[str, str, str, Scope], ...] = (
    ("labels", "Taxonomy", "taxonomy:index", "read"),
    ("environments", "Environments", "environments:list", "read"),
    ("tasks", "Tasks", "scenarios:tasks", "read"),
    ("recorded", "Trajectories", "trajectories:list", "read"),
    ("jobs", "Jobs", "jobs:list", "read"),
    ("import", "Import", "pages:import", "synthesise"),
    ("models", "Models", "endpoints:list", "admin"),
)
"""Key (its first letter follows `g`), label, URL name and the scope that shows it."""
RAIL_OF_APP = {
    "taxonomy": "labels",
    "environments": "environments",
    "scenarios": "tasks",
    "trajectories": "recorded",
    "jobs": "jobs",
    "endpoints": "models",
}


def house(request: HttpRequest) -> dict[str, Any]:
    role = getattr(request.user, "role", "") if getattr(request, "user", None) else ""
    scopes = SCOPES.get(role, frozenset())
    match = request.resolver_match
    key = RAIL_OF_APP.get(match.app_name, match.url_name or "") if match else ""
    theme = request.COOKIES.get("theme", "auto")
    return {
        "rail": [(key, label, name) for key, label, name, scope in RAIL if scope in scopes],
        "rail_key": key,
        "scopes": scopes,
        "theme": theme if theme in THEMES else "auto",
    }
