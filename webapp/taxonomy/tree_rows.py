"""The rows of the tree as HTML. Written in code and not in a template: a page may hold thousands of them, and a
template takes a tenth of a millisecond for each."""

from __future__ import annotations

from collections.abc import Sequence

from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from webapp.common.templatetags.show import percent, plain, visible
from webapp.taxonomy.models import NodeCounts
from webapp.taxonomy.queries import Branch

STATES = (
    ("green", "good", "✓", "with a green audit", "green"),
    ("red", "bad", "✕", "with a red audit", "red"),
    ("unaudited", "muted", "○", "without a verdict of an audit", "not audited"),
)
"""Column of the counts, class, icon, what its title says, what a screen reader says."""


def render_tree_rows(
    branches: Sequence[Branch],
    parent: int = 0,
    rest: int = 0,
    start: int = 0,
    selected: int = 0,
    *,
    changes: bool = False,
    order: str = "name",
) -> SafeString:
    """Return the children of one node (0: the first level) as `li` elements; `rest` more, from `start` on, are a link
    away.

    With `changes` each has a link to its actions. `order` is their order.
    """
    parts: list[str] = []
    _render_items(parts, branches, selected, changes)
    if rest:
        parts.append(_render_more_link(parent, rest, start, order))
    return mark_safe("".join(parts))  # every value was escaped on its way in


def render_task_states(counts: NodeCounts) -> SafeString:
    """Return how many tasks there are, and how many of them an audit found green, red, or has not judged."""
    if not counts.tasks:
        return mark_safe('<span class="all muted" data-word="tasks">0</span>')
    parts = [f'<span class="all" data-word="task{_plural_ending(counts.tasks)}">{counts.tasks:,}</span>']
    for column, kind, icon, title, word in STATES:
        value = getattr(counts, column)
        if value > 0:
            parts.append(
                f'<span class="{kind}" title="{value:,} {title}"><span aria-hidden="true">{icon}</span>{value:,}'
                f'<span class="visually-hidden"> {word}</span></span>'
            )
    return mark_safe("".join(parts))


def _render_items(parts: list[str], branches: Sequence[Branch], selected: int, changes: bool) -> None:
    for branch in branches:
        node = branch.node
        expanded = f' aria-expanded="{_format_bool(branch.is_open)}"' if node.counts.children else ""
        stop = 0 if node.level == 1 and branch.place == 1 else -1
        cells = _render_cells(branch) + (_render_menu(branch) if changes else "")
        parts.append(
            f'<li role="treeitem" id="n{node.pk}" data-node="{node.pk}" aria-level="{node.level}" '
            f'aria-setsize="{branch.size}" aria-posinset="{branch.place}" '
            f'aria-selected="{_format_bool(node.pk == selected)}"{expanded} tabindex="{stop}" '
            f'aria-label="{escape(branch.said)}">\n<div class="node">{cells}</div>\n'
        )
        if branch.is_open:
            parts.append('<ul role="group">')
            _render_items(parts, branch.nodes, selected, changes)
            if branch.rest:
                parts.append(_render_more_link(node.pk, branch.rest, len(branch.nodes)))
            parts.append("</ul>")
        parts.append("</li>")


def _render_cells(branch: Branch) -> str:
    node, counts = branch.node, branch.counts
    twist = '<span class="twist"></span>'
    if branch.toggle:
        does = f"{'Close' if branch.is_open else 'Open'} {plain(node.name)}"
        twist = (
            f'<a class="twist" href="{escape(branch.toggle)}" aria-label="{escape(does)}">'
            '<span aria-hidden="true"></span></a>'
        )
    tasks = f'<span class="tasks">{render_task_states(counts)}</span>' if counts.tasks else ZERO_TASKS
    rate = f'<span class="num" data-word="pass rate">{percent(counts.pass_rate)}</span>' if counts.scored else NO_RATE
    kind = "name hit" if branch.hit else "name"
    return (
        f'{twist}<a class="{kind}" href="{node.get_absolute_url()}">{visible(node.name)}</a>'
        f"{_render_number(counts.environments, 'environment')}{_render_number(counts.themes, 'theme')}{tasks}{rate}"
    )


def _render_menu(branch: Branch) -> str:
    node = branch.node
    return (
        f'<a class="acts" href="{node.get_absolute_url()}change/" tabindex="-1" '
        f'aria-label="Change {escape(plain(node.name))}">\u22ef</a>'
    )


ZERO_TASKS = '<span class="tasks zero"><span class="all">0</span></span>'
NO_RATE = '<span class="num zero">\u2013</span>'


def _render_number(value: int, word: str) -> str:
    if not value:
        return '<span class="num zero">0</span>'
    return f'<span class="num" data-word="{word}{_plural_ending(value)}">{value:,}</span>'


def _render_more_link(parent: int, rest: int, start: int, order: str = "name") -> str:
    href = f"{reverse('taxonomy:node', args=[parent])}?tab=labels" if parent else ""
    href = href or f"{reverse('taxonomy:index')}?start={start}{f'&amp;sort={order}' if order != 'name' else ''}"
    return (
        f'<li role="none" class="rest" data-rest="{parent}" data-start="{start}"><a href="{href}" role="treeitem" '
        f'tabindex="-1">Show more labels{f" ({rest:,})" if parent else ""}</a></li>'
    )


def _format_bool(value: bool) -> str:
    return "true" if value else "false"


def _plural_ending(value: int) -> str:
    return "" if value == 1 else "s"
