"""Reads for the pages of people, tokens and the audit log."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.db.models import QuerySet
from django.http import QueryDict

from webapp.accounts.models import ApiToken, AuditEntry, Role, User
from webapp.query_params import Params

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


def users(text: str, role: str) -> QuerySet[User]:
    rows = User.objects.only("username", "role", "is_active", "last_login", "date_joined")
    if text:
        rows = rows.filter(username__icontains=text)
    return rows.filter(role=role) if role in Role.values else rows


def tokens(owner: User | None) -> QuerySet[ApiToken]:
    """One person's tokens, or everybody's."""
    rows = ApiToken.objects.select_related("user").defer("hash")
    return rows.filter(user=owner) if owner else rows


@dataclass(frozen=True)
class AuditFilters:
    """`problems` says which parts of the link could not be understood. `until` is a whole day."""

    actor: str = ""
    action: str = ""
    since: date | None = None
    until: date | None = None
    problems: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        return bool(self.actor or self.action or self.since or self.until)


LEFT_OUT = {
    "since": "From must be a day such as 2026-01-31; it was left out.",
    "until": "To must be a day such as 2026-01-31; it was left out.",
}
"""What the page says of a filter that cannot be understood."""


def read_audit_filters(query: QueryDict) -> AuditFilters:
    """The filters that an address names."""
    params = Params(query)
    actor, action = (params.text(name, 150, strip=True) for name in ("actor", "action"))
    since, until = params.day("since"), params.day("until")
    return AuditFilters(actor, action, since, until, tuple(params.told(LEFT_OUT)))


def audit_entries(filters: AuditFilters) -> QuerySet[AuditEntry]:
    rows = AuditEntry.objects.all()
    if filters.actor:
        named = User.objects.filter(username=filters.actor).values("pk")[:1]
        rows = rows.filter(actor=named)
    if filters.action:
        rows = rows.filter(action=filters.action)
    if filters.since:
        rows = rows.filter(at__gte=datetime.combine(filters.since, time(), UTC))
    if filters.until and filters.until < date.max:
        rows = rows.filter(at__lt=datetime.combine(filters.until + timedelta(days=1), time(), UTC))
    return rows
