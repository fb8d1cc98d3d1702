"""Cells of lists, each rendered in one go: a list has hundreds of them, and Django would make ten pieces of each."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any
from urllib.parse import urlencode

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from synthesis.variant_settings import VARIANT_TITLES
from webapp.common.templatetags.show import number, plain, visible

register = template.Library()

ZERO = mark_safe('<span class="muted">0</span>')


class ColumnNode(template.Node):
    """The content between `column` and `endcolumn`, rendered if the list shows the column."""

    def __init__(self, name: str, nodelist: template.NodeList) -> None:
        self.name, self.nodelist = name, nodelist

    def render(self, context: template.Context) -> SafeString:
        return self.nodelist.render(context) if self.name in (context.get("shows") or ()) else mark_safe("")


@register.tag
def column(parser: Any, token: Any) -> ColumnNode:
    """Parse `{% column name %}`: the cell of a column; `shows` holds the names of those that a user sees."""
    _, name = token.split_contents()
    nodelist = parser.parse(("endcolumn",))
    parser.delete_first_token()
    return ColumnNode(name, nodelist)


@register.simple_tag(takes_context=True)
def pick(context: template.Context, pk: int, named: Any) -> SafeString:
    """Return the cell with the box that selects a row, which is called `named`; `picked`: ids that are ticked at
    first."""
    checked = " checked" if pk in (context.get("picked") or ()) else ""
    return mark_safe(
        f'<td class="pick"><label><input type="checkbox" name="ids" value="{pk:d}" form="bulk" data-pick '
        f'aria-label="Select {escape(plain(named))}"{checked}></label></td>'
    )


@register.simple_tag
def row_link(text: Any, url: str, kind: str = "", pk: int = 0) -> SafeString:
    """Return the link of a row: its text, whole in the title; read out with its kind and number, if they are given."""
    title = escape(plain(text))
    said = f' aria-label="{escape(kind)} {pk:d}: {title}"' if kind else ""
    return mark_safe(f'<a href="{escape(url)}" data-row-link title="{title}"{said}>{visible(text)}</a>')


@register.filter
def variant_title(name: str) -> SafeString | str:
    """Return the title of a variant of the pipeline; a dash if no batch made the row."""
    return escape(VARIANT_TITLES.get(name, name)) if name else mark_safe("&ndash;")


@register.filter
def with_marks(pieces: Iterable[tuple[str, bool]]) -> SafeString:
    """Return a text in pieces, each of which is marked or not."""
    return mark_safe("".join(f"<mark>{visible(text)}</mark>" if on else visible(text) for text, on in pieces))


@register.simple_tag
def only_link(text: Any, url: str, value: Any) -> SafeString:
    """Return a link that narrows a list to the value it names; `url` is the result of `query_to`."""
    return mark_safe(f'<a href="{escape(url)}{value:d}" title="Only {escape(plain(text))}">{visible(text)}</a>')


@register.simple_tag
def counted(value: int, one: str, url: str, place: str | int = "", zero: bool = False, many: str = "") -> SafeString:
    """Return a number that links to what it counts: `url` and the `place` there. Zero is a link only with `zero`."""
    if not value and not zero:
        return ZERO
    shown = number(value)
    words = one if value == 1 else many or f"{one}s"
    return mark_safe(f'<a href="{escape(url)}{escape(str(place))}" aria-label="{shown} {escape(words)}">{shown}</a>')


@register.simple_tag(takes_context=True)
def query_to(context: template.Context, name: str) -> str:
    """Return this list from its first row on, narrowed by `name` to a value that each row adds."""
    left_out = {name, "after", "before", "last", "at"}
    kept = {key: values for key, values in context["request"].GET.lists() if key not in left_out}
    return f"?{urlencode(kept, doseq=True)}&{name}=" if kept else f"?{name}="


@register.simple_tag
def url_to(name: str, parameter: str) -> str:
    """Return the address of a list, narrowed by `parameter` to a value that each row adds."""
    return f"{reverse(name)}?{parameter}="


@register.simple_tag
def failure_reason(reason: Any) -> SafeString:
    """Return why an attempt failed (`webapp.trajectories.failure_reason.FailureReason`), each part as a link."""
    if not reason:
        return mark_safe("")
    parts = [
        f'<a href="{escape(part.url)}">{escape(part.text)}</a>' if part.url else escape(part.text)
        for part in reason.parts
    ]
    dot = ' <span aria-hidden="true">·</span> '
    return mark_safe(f'<span class="reason" title="{escape(str(reason))}">{dot.join(parts)}</span>')
