"""A tree with environments, people, and sessions on them, made through the models and services."""

from __future__ import annotations

from typing import Any

from tests.review.seed import named, people
from webapp.accounts.models import User
from webapp.environments.models import Environment, Tool, Version
from webapp.labelling.answers import LabelChoice, Placing, submit_label
from webapp.labelling.models import Label, LabelSession, Reservation
from webapp.labelling.reservations import pull_next
from webapp.labelling.sessions import SessionSettings, open_session
from webapp.taxonomy.services import place_paths

__all__ = ["environment", "grouped", "labelled", "merge_session", "named", "people", "place_session", "pulled", "tree"]
HOSTILE = "<img src=x onerror=alert(1)>\u202e"
PATHS = [
    ("Community", "Clubs"),
    ("Community", "Lending"),
    ("Finance", "Banking"),
    ("Finance", "Bookkeeping", "Club Accounts"),
    ("Finance", "Bookkeeping", "Payroll"),
    ("Travel", "Ticketing"),
]


def tree() -> dict[str, int]:
    """Three first-level nodes with what is below them; the id of each by its name."""
    return {path[-1]: pk for path, pk in place_paths(PATHS).items()}


def environment(
    name: str, node: int, tools: int = 3, rules: tuple[str, ...] = ("Fees are due in May.",)
) -> Environment:
    """One on a node, with a version, tools and rules."""
    row = Environment.objects.create(
        source="made", key=name, name=name, summary=f"What {name} does.", node_id=node, tool_count=tools
    )
    version = Version.objects.create(
        environment=row, number=1, content_hash=f"{row.pk:064}", class_name="Made", source="class Made: ...",
        rules=list(rules),
    )  # fmt: skip
    Tool.objects.bulk_create(
        Tool(version=version, position=number, name=f"do_{number}", kind="change" if number % 2 else "query")
        for number in range(tools)
    )
    row.current = version
    row.save(update_fields=["current"])
    return row


def place_session(maker: User, name: str = "Place environments", **more: Any) -> LabelSession:
    given = {"kind": "place", "places": "environment", "guideline": "Ask what the state holds.", "overlap": 2} | more
    return open_session(maker, SessionSettings(name=name, **given))


def merge_session(maker: User, name: str = "Merge labels", **more: Any) -> LabelSession:
    return open_session(maker, SessionSettings(name=name, kind="merge", **{"overlap": 3} | more))


def pulled(user: User, session: LabelSession) -> Reservation:
    row = pull_next(user, session)
    assert row is not None
    return row


def labelled(user: User, session: LabelSession, node: int | None, **more: Any) -> Label:
    """The person's next item, placed on a node."""
    return submit_label(user, pulled(user, session).pk, LabelChoice(placing=Placing(node), **more))


def grouped(
    user: User, session: LabelSession, groups: dict[str, list[int]], renamed: tuple[str, ...] = (), **more: Any
) -> Label:
    """The person's grouping of the labels; groups of one that are `renamed` rename their label."""
    given = [{"name": name, "labels": labels, "rename": name in renamed} for name, labels in groups.items()]
    return submit_label(user, pulled(user, session).pk, LabelChoice(groups=given, **more))
