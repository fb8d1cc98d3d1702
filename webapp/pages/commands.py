"""Pages and commands that the search offers: pages of the rail, filtered lists, and named views and queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.urls import reverse

from webapp.accounts.access import SCOPES
from webapp.accounts.template_context import RAIL
from webapp.common.lists.models import SavedView
from webapp.common.lists.registry import PAGES
from webapp.review.models import ReviewQueue

MOST_NAMED = 200
"""Number of saved views, and of queues, that are searched, the newest first."""


@dataclass(frozen=True)
class Command:
    """A page with its label and purpose; `label` is a text of any user if it names a view or a queue."""

    label: str
    note: str
    url: str
    key: str = ""


COMMANDS: tuple[tuple[str, str, str, str], ...] = (
    ("New batch", "synthesise", "batches:new", "grow environments from themes"),
    ("New training job", "train", "runs:new", "SFT or GRPO"),
    ("New dataset", "train", "datasets:new", "freeze tasks or trajectories"),
    ("Upload training files", "train", "datasets:files", "JSON Lines"),
    ("Import environments, trajectories, themes", "synthesise", "pages:import", "EnvScaler files, MCP servers"),
    ("Themes", "read", "taxonomy:themes", "what environments grow from"),
    ("Decisions", "read", "review:history", "what people decided, with undo"),
    ("Edits", "read", "edits:list", "drafts of tools and tasks"),
    ("API tokens", "read", "accounts:tokens", "your account"),
    ("API reference", "read", "api-reference", "every operation"),
    ("Account and password", "read", "accounts:profile", "your account"),
    ("Users", "admin", "pages:users", "people and roles"),
    ("Audit log", "admin", "pages:audit_log", "who did what"),
)
"""Label, scope that shows it, URL name, what it is for; besides the pages of the rail."""
HOLDS = {
    "labels": "labels, themes, sessions",
    "environments": "tools, versions, assessments",
    "tasks": "scenarios, checks, audits",
    "recorded": "attempts, runs, replay of a trajectory",
    "queues": "queues, decisions",
    "fine-tuning": "jobs, datasets, evaluations",
    "statistics": "outcomes and cost over time",
    "models": "endpoints, roles, prices",
}
"""What pages of the rail hold, in words that people search for."""
FILTERED: tuple[tuple[str, str, str], ...] = (
    ("Tasks with a red audit", "scenarios:tasks", "audit=red"),
    ("Tasks that are not audited", "scenarios:tasks", "audit=none"),
    ("Tasks in review", "scenarios:tasks", "review=in_review"),
    ("Tasks with changes requested", "scenarios:tasks", "review=changes_requested"),
    ("Approved tasks", "scenarios:tasks", "review=approved"),
    ("Failed trajectories", "trajectories:list", "outcome=failed"),
    ("Solved trajectories", "trajectories:list", "outcome=solved"),
    ("Failed jobs", "jobs:list", "state=failed"),
    ("Running jobs", "jobs:list", "state=running"),
)
"""Label, URL name and filter of lists that people ask for by what they hold."""


def iterate_commands(user: Any) -> Iterator[Command]:
    """Yield what a person may open, pages of the rail first."""
    scopes = SCOPES.get(getattr(user, "role", ""), frozenset())
    rail = [(label, scope, name, HOLDS.get(key, "page"), f"g {key[0]}") for key, label, name, scope in RAIL]
    entries = [("Home", "read", "pages:home", "page", "g h"), *rail, *((*command, "") for command in COMMANDS)]
    for label, scope, name, note, key in entries:
        if scope in scopes:
            yield Command(label, note, reverse(name), key)
    if "read" not in scopes:
        return
    for label, name, query in FILTERED:
        yield Command(label, "list", f"{reverse(name)}?{query}")
    queues = ReviewQueue.objects.filter(is_open=True).order_by("-pk").values_list("pk", "name")[:MOST_NAMED]
    for pk, name_of_queue in queues:
        yield Command(name_of_queue, "review queue", reverse("review:queue", args=[pk]))
    views = SavedView.objects.filter(Q(owner=user.pk) | Q(shared=True), list_name__in=PAGES).order_by("-pk")
    for view in views[:MOST_NAMED]:
        yield Command(view.name, "saved view", f"{reverse(PAGES[view.list_name])}?{view.query}")
