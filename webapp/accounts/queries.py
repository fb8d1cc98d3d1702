"""Reads for the pages of people and tokens."""

from __future__ import annotations

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.db.models import Q, QuerySet

from webapp.accounts.models import ApiToken, User

OF_PROGRAM = Q(password__startswith=UNUSABLE_PASSWORD_PREFIX)
"""Accounts of programs: sign-in is not possible, they only have API tokens."""


def list_tokens(owner: User | None) -> QuerySet[ApiToken]:
    """Return one user's tokens, or those of all users."""
    rows = ApiToken.objects.select_related("user").defer("hash")
    return rows.filter(user=owner) if owner else rows
