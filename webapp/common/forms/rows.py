"""Rendering of forms: one template for every row, inputs that show hidden characters, and the options of selects."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from django import forms
from django.forms.renderers import TemplatesSetting
from django.forms.utils import flatatt
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from webapp.common.templatetags.show import cut, plain

Options = list[tuple[Any, str]]


class RowRenderer(TemplatesSetting):
    """Renderer whose `field.as_field_group` uses this template; a page that needs another row extends it."""

    field_template_name = "parts/field.html"


class PlainInput(forms.TextInput):
    """A line of text whose control and bidirectional characters are seen as escapes."""

    def format_value(self, value: Any) -> str | None:
        text = super().format_value(value)
        return None if text is None else plain(text)


class PlainSearch(PlainInput):
    input_type = "search"


class PlainTextarea(forms.Textarea):
    """The same over several lines."""

    def format_value(self, value: Any) -> str | None:
        text = super().format_value(value)
        return None if text is None else plain(text)


class PlainSelect(forms.Select):
    """A select without groups, drawn in one go: Django renders two templates for each option."""

    def render(self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None) -> SafeString:
        pairs = tuple(("" if value is None else str(value), str(words)) for value, words in self.choices)
        built = {"name": name, **self.build_attrs(self.attrs, attrs)}
        return format_html("<select{}>{}</select>", flatatt(built), _render_options(pairs, self.format_value(value)[0]))


@lru_cache(maxsize=64)
def _render_options(pairs: tuple[tuple[str, str], ...], chosen: str) -> SafeString:
    """Return the options of a select as HTML; those of a list's filters are the same for all users."""
    drawn = [
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>{escape(words)}</option>'
        for value, words in pairs
    ]
    return mark_safe("".join(drawn))


def build_options(rows: Iterable[tuple[Any, Any]], length: int, *, first: str | None = None) -> Options:
    """Return values with their words, cut at `length`; `first` is the text of choosing nothing."""
    pairs = [(value, cut(plain(words), length)) for value, words in rows]
    return pairs if first is None else [("", first), *pairs]


def offer_options(form: forms.BaseForm, name: str, choices: Options) -> None:
    """Set the options that the select of a field lists on this page. They do not restrict what the field accepts."""
    widget: Any = form.fields[name].widget
    widget.choices = choices
