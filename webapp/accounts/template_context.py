"""Context of every template: the rail, the user's rights, and whether the disk has room."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from webapp.accounts.access import POWERS, SCOPES, Scope
from webapp.common.colour_schemes import COLOUR_SCHEMES
from webapp.common.disk import get_disk

RAIL: tuple[tuple[str, str, str, Scope], ...] = (
    ("labels", "Taxonomy", "taxonomy:index", "read"),
    ("environments", "Environments", "environments:list", "read"),
    ("tasks", "Tasks", "scenarios:tasks", "read"),
    ("recorded", "Trajectories", "trajectories:list", "read"),
    ("batches", "Batches", "batches:list", "read"),
    ("queues", "Review", "review:queues", "read"),
    ("fine-tuning", "Training", "runs:list", "read"),
    ("workers", "Workers", "workers:list", "read"),
    ("statistics", "Statistics", "pages:ecosystem", "read"),
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
    "batches": "batches",
    "review": "queues",
    "runs": "fine-tuning",
    "datasets": "fine-tuning",
    "workers": "workers",
    "jobs": "jobs",
    "endpoints": "models",
}
RAIL_OF_PAGE = {"ecosystem": "statistics", "ecosystem-themes": "statistics"} | dict.fromkeys(
    ("attempt-pictures", "call-pictures", "review-pictures"), "statistics"
)
"""Pages above the apps, by URL name, if it is not the key itself."""


def find_rail_key(app: str, page: str) -> str:
    """Return the entry of the rail that a page belongs to."""
    return RAIL_OF_APP.get(app) or RAIL_OF_PAGE.get(page, page)


@cache
def list_rail_entries(role: str) -> tuple[tuple[str, str, str], ...]:
    """Return key, label and address of each entry of the rail that a role has."""
    scopes = SCOPES.get(role, frozenset())
    return tuple((key, label, reverse(name)) for key, label, name, scope in RAIL if scope in scopes)


@cache
def list_powers(role: str) -> frozenset[str]:
    """Return the powers of a role beyond its scopes, by the names of `POWERS`."""
    return frozenset(name for name, (roles, _) in POWERS.items() if role in roles)


def add_site_context(request: HttpRequest) -> dict[str, Any]:
    """Return what the page around every screen shows: the rail, rights, room on the disk, the colour scheme."""
    role = getattr(request.user, "role", "") if getattr(request, "user", None) else ""
    scopes = SCOPES.get(role, frozenset())
    match = request.resolver_match
    key = find_rail_key(match.app_name, match.url_name or "") if match else ""
    theme = request.COOKIES.get("theme", "auto")
    return {
        "rail": list_rail_entries(role),
        "rail_key": key,
        "scopes": scopes,
        "powers": list_powers(role),
        "disk": get_disk(),
        "theme": theme if theme in COLOUR_SCHEMES else "auto",
    }
