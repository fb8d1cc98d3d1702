"""Template filters that name the parts that a kind of verifier decides: checks, criteria, assertions."""

from __future__ import annotations

from django import template

from webapp.scenarios.verifiers import name_verdict

register = template.Library()


@register.filter
def verdict_name(kind: str) -> str:
    """Return the name of one of the parts that a kind of verifier decides."""
    return name_verdict(kind)


@register.filter
def verdict_names(kind: str) -> str:
    """Return the name of several of these parts."""
    return name_verdict(kind, 2)
