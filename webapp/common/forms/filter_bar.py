"""The form of filters above a list: its rows are rendered as in every form, its values are read by the list itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import lru_cache
from typing import Any

from django import forms
from django.http import HttpRequest
from django.utils.safestring import SafeString, mark_safe

from webapp.common.forms.rows import PlainInput, PlainSearch, PlainSelect, build_options
from webapp.common.paging import CURSORS

LONGEST_OPTION = 100


@dataclass(frozen=True)
class Chip:
    """One filter of a list: its label, what is chosen in `words` (empty: nothing), the address without it in `clear`.

    `field` is its row in the form; a filter without one came with a link, and `page` leads to what it names.
    """

    label: str
    words: str
    clear: str
    field: forms.BoundField | None = None
    page: str = ""

    @property
    def set(self) -> bool:
        return bool(self.words)

    @property
    def row(self) -> SafeString:
        """Its field's row of the form."""
        return _render_row(FieldLook.of(self.field)) if self.field is not None else mark_safe("")


@dataclass(frozen=True)
class FieldLook:
    """Everything that determines the row of a field in a form of filters: such a form is never bound and has no
    errors."""

    name: str
    label: str
    id: str
    value: str
    widgets: tuple[Any, ...]
    choices: tuple[Any, ...]
    field: forms.BoundField = dataclass_field(compare=False, repr=False)

    @classmethod
    def of(cls, field: forms.BoundField) -> FieldLook:
        widget = field.field.widget
        widgets = tuple(
            (type(one), tuple(one.attrs.items()))
            for one in (widget, *(widget.widgets if isinstance(widget, forms.MultiWidget) else ()))
        )
        choices = tuple(widget.choices) if isinstance(widget, forms.Select) else list_parameters(field)
        look_values = field.html_name, f"{field.label} {field.help_text}", field.id_for_label, repr(field.value())
        return cls(*look_values, widgets, choices, field)


@lru_cache(maxsize=256)
def _render_row(look: FieldLook) -> SafeString:
    """Render a row. A list has ten of them, which are the same for all users who have chosen nothing."""
    return look.field.as_field_group()


def build_url_without(request: HttpRequest, *names: str) -> str:
    """Return the address of a list without these parameters, from its first page on."""
    parameters = request.GET.copy()
    for name in (*names, *CURSORS):
        parameters.pop(name, None)
    return f"{request.path}?{parameters.urlencode()}" if parameters else request.path


class FilterForm(forms.Form):
    """Fields by the names of their query parameters, filled with the values that the list has read from the address.

    It is never bound: a filter with an invalid value is left out, and the list reports it.
    """

    template_name = "parts/filter_rows.html"
    use_required_attribute = False

    def __init__(self, chosen: Mapping[str, Any], fields: Mapping[str, forms.Field]) -> None:
        super().__init__(initial=dict(chosen), auto_id="filter_%s")
        self.fields.update(fields)

    @property
    def searches(self) -> list[forms.BoundField]:
        """The fields with a live search, which are beside the chips."""
        return [field for field in self.visible_fields() if isinstance(field.field.widget, PlainSearch)]

    def chips(self, request: HttpRequest) -> list[Chip]:
        """Return every other field as a chip, in the form's order."""
        searched = {field.name for field in self.searches}
        fields = [field for field in self.visible_fields() if field.name not in searched]
        return [
            Chip(str(field.label), describe_value(field), build_url_without(request, *list_parameters(field)), field)
            for field in fields
        ]


def list_parameters(field: forms.BoundField) -> tuple[str, ...]:
    widget = field.field.widget
    return widget.names if isinstance(widget, RangeWidget) else (field.name,)


def describe_value(field: forms.BoundField) -> str:
    """Return the value of a filter in words; empty if it is not set."""
    value, widget = field.value(), field.field.widget
    if isinstance(widget, RangeWidget):
        return describe_range(*widget.decompress(value))
    if value in (None, "", False):
        return ""
    if isinstance(widget, forms.CheckboxInput):
        return "yes"
    if isinstance(widget, forms.Select):
        return str(dict(widget.choices).get(str(value), value))
    return str(value)


def describe_range(low: Any, high: Any) -> str:
    """Return a range in words; empty if it has no end."""
    if low is None and high is None:
        return ""
    if high is None:
        return f"from {low}"
    return f"up to {high}" if low is None else f"{low} to {high}"


def make_select(
    label: str,
    choices: Iterable[str | tuple[Any, Any]],
    *,
    first: str | None = "any",
    length: int = LONGEST_OPTION,
    keyed: str = "",
    **attrs: Any,
) -> forms.Field:
    """Return a choice of names, or of (value, words); `first` is the text of choosing nothing."""
    pairs = [(choice, choice) if isinstance(choice, str) else choice for choice in choices]
    widget = PlainSelect(attrs=attrs | _build_key_attributes(keyed))
    return forms.ChoiceField(label=label, choices=build_options(pairs, length, first=first), widget=widget)


def make_search(label: str, *, wide: bool = True, keyed: str = "", **attrs: Any) -> forms.Field:
    """Return a text field for a search; a wide one takes the room that is left."""
    widget = PlainSearch(
        attrs={"maxlength": 200, "placeholder": label}
        | attrs
        | ({"class": "wide"} if wide else {})
        | _build_key_attributes(keyed)
    )
    return forms.CharField(label=label, widget=widget)


def _build_key_attributes(does: str) -> dict[str, str]:
    """Return the attributes that make the key / lead to a field: one of each list, with a description of its action."""
    return {"data-key": "/", "data-does": does, "data-group": "List"} if does else {}


def make_text(label: str, **attrs: Any) -> forms.Field:
    return forms.CharField(label=label, widget=PlainInput(attrs={"maxlength": 200} | attrs))


def make_number(label: str, **attrs: Any) -> forms.Field:
    """Return a field for a number from 0 on; a fraction if `step` is `any`."""
    return forms.CharField(label=label, widget=forms.NumberInput(attrs={"min": 0} | attrs))


class RangeWidget(forms.MultiWidget):
    """Two numbers, from and to, each under a name of its own. The value is a list of both."""

    template_name = "parts/range.html"
    use_fieldset = True

    def __init__(self, names: tuple[str, str], shown: tuple[str, str], attrs: Mapping[str, Any]) -> None:
        self.names = names
        ends = [
            {"min": 0, "aria-label": end} | ({"placeholder": ghost} if ghost else {}) | dict(attrs)
            for end, ghost in zip(("at least", "at most"), shown, strict=True)
        ]
        super().__init__([forms.NumberInput(attrs=end) for end in ends])

    def decompress(self, value: Any) -> list[Any]:
        return list(value or (None, None))

    def get_context(self, name: str, value: Any, attrs: dict[str, Any] | None) -> dict[str, Any]:
        context = super().get_context(name, value, attrs)
        for widget, own in zip(context["widget"]["subwidgets"], self.names, strict=True):
            widget["name"] = own
        return context


def make_range(label: str, low: str, high: str, shown: tuple[str, str] = ("", ""), **attrs: Any) -> forms.Field:
    """Return a field for a range, as the query parameters `low` and `high`; `shown` are their placeholders."""
    return forms.Field(label=label, widget=RangeWidget((low, high), shown, attrs))


def make_day(label: str) -> forms.Field:
    return forms.DateField(label=label, widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"))


def make_checkbox(label: str) -> forms.Field:
    """Return a checkbox that sends 1 when it is ticked."""
    return forms.BooleanField(label=label, widget=forms.CheckboxInput(attrs={"value": "1"}))


def make_hidden_fields(values: Mapping[str, Any]) -> dict[str, forms.Field]:
    """Return hidden fields that carry the other parameters of the address; empty ones are left out."""
    kept = {name: value for name, value in values.items() if value is not False and value not in ("", None)}
    return {name: forms.CharField(initial=value, widget=forms.HiddenInput()) for name, value in kept.items()}
