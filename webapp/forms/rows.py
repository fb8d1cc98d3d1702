"""How forms are drawn: one template for every row, inputs that show hidden characters, and the options of selects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.forms.renderers import TemplatesSetting
from django.utils.text import Truncator

from webapp.templatetags.show import plain

Options = list[tuple[Any, str]]


class RowRenderer(TemplatesSetting):
    """`field.as_field_group` draws a row by this template; a page that needs another row extends it."""

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


def options(rows: Iterable[tuple[Any, Any]], length: int, *, first: str | None = None) -> Options:
    """Values with their words, cut at `length`; `first` is the words of choosing nothing."""
    cut = [(value, Truncator(plain(words)).chars(length)) for value, words in rows]
    return cut if first is None else [("", first), *cut]


def offer(form: forms.BaseForm, name: str, choices: Options) -> None:
    """What the select of a field lists on this page. It is no rule: the field still takes what it took."""
    widget: Any = form.fields[name].widget
    widget.choices = choices
