"""Lists of users and of the audit log: their columns and filters."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from webapp.accounts.models import AuditEntry, Role, User
from webapp.common.lists import list_filters
from webapp.common.lists.columns import Column, RowList
from webapp.common.lists.list_filters import ListFilter

USERS = RowList(
    "users",
    "Users",
    (
        Column("username", "Username", ascending="username", descending="-username", needed=True),
        Column("role", "Role", ascending="role", descending="-role"),
        Column("state", "State"),
        Column("login", "Last sign-in", ascending="last_login", descending="-last_login"),
        Column("added", "Added", ascending="id", descending="-id"),
    ),
    default_order="username",
)
AUDIT_LOG = RowList(
    "audit",
    "Audit log",
    (
        Column("at", "When (UTC)", ascending="id", descending="-id", needed=True),
        Column("actor", "Who"),
        Column("action", "Action"),
        Column("object", "On"),
        Column("detail", "Detail"),
        Column("via", "Through"),
        Column("address", "Address", extra=True),
    ),
)
ACTIONS = (
    "login",
    "login.lock",
    "user.create",
    "user.role",
    "user.activate",
    "user.deactivate",
    "user.password",
    "password.change",
    "token.create",
    "token.revoke",
)
"""Suggested in the filter; other apps write others, and any can be typed."""
STATES = [("active", "active"), ("deactivated", "deactivated")]
USER_FILTERS = (
    list_filters.make_contains_filter("q", "Username", "username"),
    list_filters.make_choice_filter("role", "Role", Role.choices),
    ListFilter(
        "state",
        "State",
        lambda params, key: params.choice(key, dict(STATES)),
        lambda rows, value: rows.filter(is_active=value == "active"),
        lambda: list_filters.filter_bar.make_select("State", STATES),
    ),
)


def _filter_by_actor(rows: QuerySet[Any], username: str) -> QuerySet[Any]:
    return rows.filter(actor=User.objects.filter(username=username).values("pk")[:1])


def _filter_by_object(rows: QuerySet[Any], subject: str) -> QuerySet[Any]:
    sort, _, key = subject.partition(":")
    return rows.filter(object_type=sort, object_id=key)


AUDIT_FILTERS = (
    ListFilter(
        "actor",
        "Who",
        lambda params, key: params.search_text(key, 150),
        _filter_by_actor,
        lambda: list_filters.filter_bar.make_search("Username", keyed="Search", maxlength=150),
    ),
    list_filters.make_equals_filter("action", "Action", list="actions", maxlength=64),
    list_filters.make_since_filter("since", "From", "at"),
    list_filters.make_until_filter("until", "To", "at"),
    ListFilter("on", "On", lambda params, key: params.text(key, 100), _filter_by_object),
)


def user_rows() -> QuerySet[User]:
    return User.objects.only("username", "role", "is_active", "last_login", "date_joined")


def audit_rows() -> QuerySet[AuditEntry]:
    return AuditEntry.objects.all()
