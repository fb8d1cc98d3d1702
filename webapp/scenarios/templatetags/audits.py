"""Template filters of audits."""

from __future__ import annotations

from django import template

from webapp.scenarios.audits.remedies import remedy_of

register = template.Library()


@register.filter
def remedy(kind: str) -> str:
    """What a person can do about a kind of fault."""
    return remedy_of(kind)
