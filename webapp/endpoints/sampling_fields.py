"""Form fields of how a role's model is sampled: temperature and the like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from synthesis.llm.calls import Sampling

USUAL = "as the server does"
EFFORTS = [("", USUAL), *((name, name) for name in ("none", "minimal", "low", "medium", "high"))]


@dataclass(frozen=True)
class SamplingRow:
    """A role with its bound fields."""

    role: str
    fields: list[forms.BoundField]


def add_fields(form: forms.Form, roles: Iterable[str], usual: Mapping[str, Sampling]) -> None:
    """Add five fields for each role, filled in with its defaults."""
    for role in roles:
        defaults = usual.get(role, Sampling())
        for name, field in _make_fields().items():
            form.fields[_build_field_name(role, name)] = field
            form.initial.setdefault(_build_field_name(role, name), getattr(defaults, name))


def _make_fields() -> dict[str, forms.Field]:
    def make_number_field(label: str, least: float, most: float) -> forms.Field:
        return forms.FloatField(label=label, min_value=least, max_value=most, required=False)

    def make_integer_field(label: str, least: int, most: int) -> forms.Field:
        return forms.IntegerField(label=label, min_value=least, max_value=most, required=False)

    return {
        "temperature": make_number_field("Temperature", 0, 2),
        "top_p": make_number_field("Top p", 0.01, 1),
        "max_tokens": make_integer_field("Most tokens", 1, 1_000_000),
        "reasoning_effort": forms.ChoiceField(label="Reasoning effort", choices=EFFORTS, required=False),
        "seed": make_integer_field("Seed", 0, 2**31 - 1),
    }


def _build_field_name(role: str, name: str) -> str:
    return f"sampling_{role}_{name}"


def build_sampling_rows(form: forms.Form, roles: Iterable[str]) -> list[SamplingRow]:
    return [
        SamplingRow(role, [form[_build_field_name(role, name)] for name in Sampling.model_fields]) for role in roles
    ]


def read_sampling(cleaned: Mapping[str, Any], roles: Iterable[str]) -> dict[str, Sampling]:
    """Return the values of a valid form, by role; an empty field leaves the choice to the server."""
    sampling_by_role = {}
    for role in roles:
        values = {name: cleaned.get(_build_field_name(role, name)) for name in Sampling.model_fields}
        sampling_by_role[role] = Sampling.model_validate(
            {name: value for name, value in values.items() if value not in (None, "")}
        )
    return sampling_by_role


def has_fields(data: Mapping[str, Any], roles: Iterable[str]) -> bool:
    """Return whether a sent form has these fields at all; a form of another page may leave them out."""
    return any(_build_field_name(role, name) in data for role in roles for name in Sampling.model_fields)
