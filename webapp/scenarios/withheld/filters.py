"""Filter by what tasks withhold: for their list, the API and datasets."""

from __future__ import annotations

from typing import Literal

from django.db.models import Q

WithheldName = Literal["", "any", "none", "tool", "parameter"]
CHOICES = [
    ("any", "something is withheld"),
    ("none", "nothing is withheld"),
    ("tool", "a tool is withheld"),
    ("parameter", "a parameter is withheld"),
]
WORDS = dict(CHOICES)


def build_withheld_filter(wanted: str, prefix: str = "") -> Q:
    """Return a filter for tasks that withhold what is wanted; `prefix` leads to the task (`task__`)."""
    nothing = Q(**{f"{prefix}withheld": ""})
    if wanted == "none":
        return nothing
    of_parameter = Q(**{f"{prefix}withheld__contains": "("})
    if wanted == "parameter":
        return of_parameter
    return ~nothing & ~of_parameter if wanted == "tool" else ~nothing
