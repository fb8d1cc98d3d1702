"""Reads for the pages of people and tokens."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.accounts.models import ApiToken, User


def tokens(owner: User | None) -> QuerySet[ApiToken]:
    """One person's tokens, or everybody's."""
    rows = ApiToken.objects.select_related("user").defer("hash")
    return rows.filter(user=owner) if owner else rows
