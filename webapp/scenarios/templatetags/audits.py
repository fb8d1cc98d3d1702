"""Template filters and tags of audits."""

from __future__ import annotations

from functools import lru_cache

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from webapp.scenarios.audits.mutant_matrix import HeatCell, MutantLine
from webapp.scenarios.audits.remedies import find_remedy
from webapp.scenarios.models import TaskRevision

register = template.Library()


@register.filter
def remedy(kind: str, revision: TaskRevision) -> str:
    """Return what a person can do about a kind of fault of a revision."""
    return find_remedy(kind, revision)


@register.simple_tag
def mutant_cells(line: MutantLine) -> SafeString:
    """Return what a check notices, as shaded numbers; drawn at once, since a desk has dozens of them."""
    words = escape(line.words)
    cells = "".join(map(_cell, line.cells))
    return mark_safe(f'<span class="mutants" role="img" aria-label="{words}" title="{words}">{cells}</span>')


@lru_cache(maxsize=1024)
def _cell(cell: HeatCell) -> str:
    return f'<i class="heat heat-{cell.heat}" data-of="{escape(cell.head)}">{cell.count or ""}</i>'
