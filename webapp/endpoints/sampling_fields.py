"""Fields of forms that say how a role's model is asked: temperature and the like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms

from synthesis.llm.sampling import Sampling

USUAL = "as the server does"
EFFORTS = [("", USUAL), *((name, name) for name in ("none", "minimal", "low", "medium", "high"))]


@dataclass(frozen=True)
class SamplingRow:
    """A role with its bound fields."""

    role: str
    fields: list[forms.BoundField]


def add_fields(form: forms.Form, roles: Iterable[str], usual: Mapping[str, Sampling]) -> None:
    """Five fields a role, filled in with what is usual for it."""
    for role in roles:
        known = usual.get(role, Sampling())
        for name, field in _fields().items():
            form.fields[_name(role, name)] = field
            form.initial.setdefault(_name(role, name), getattr(known, name))


def _fields() -> dict[str, forms.Field]:
    def number(label: str, least: float, most: float) -> forms.Field:
        return forms.FloatField(label=label, min_value=least, max_value=most, required=False)

    def whole(label: str, least: int, most: int) -> forms.Field:
        return forms.IntegerField(label=label, min_value=least, max_value=most, required=False)

    return {
        "temperature": number("Temperature", 0, 2),
        "top_p": number("Top p", 0.01, 1),
        "max_tokens": whole("Most tokens", 1, 1_000_000),
        "reasoning_effort": forms.ChoiceField(label="Reasoning effort", choices=EFFORTS, required=False),
        "seed": whole("Seed", 0, 2**31 - 1),
    }


def _name(role: str, name: str) -> str:
    return f"sampling_{role}_{name}"


def rows(form: forms.Form, roles: Iterable[str]) -> list[SamplingRow]:
    return [SamplingRow(role, [form[_name(role, name)] for name in Sampling.model_fields]) for role in roles]


def chosen(cleaned: Mapping[str, Any], roles: Iterable[str]) -> dict[str, Sampling]:
    """What a valid form says, by role; an empty field leaves it to the server."""
    found = {}
    for role in roles:
        values = {name: cleaned.get(_name(role, name)) for name in Sampling.model_fields}
        found[role] = Sampling.model_validate(
            {name: value for name, value in values.items() if value not in (None, "")}
        )
    return found


def has_fields(data: Mapping[str, Any], roles: Iterable[str]) -> bool:
    """Whether a form that was sent has these fields at all: one from elsewhere may leave them out."""
    return any(_name(role, name) in data for role in roles for name in Sampling.model_fields)
