"""Answer forms: typed fields in which an agent submits the answer of a task."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from synthesis.contracts.base import Frozen

AnswerType = Literal[
    "number",
    "money",
    "date",
    "time",
    "duration",
    "enumeration",
    "id",
    "name",
    "list",
    "record",
    "boolean",
    "text",
]
"""`number`, `money` and `duration` are JSON numbers in the field's unit, `date` is `YYYY-MM-DD`, `time` `HH:MM`."""


class AnswerField(Frozen):
    """One field of an answer form: the content and type of a part of the answer.

    `unit` is the unit of a number (kg, EUR, minutes), `tolerance` the allowed deviation, in the same unit (minutes for
    a `time`). An `enumeration` names its `choices`, a `list` the field of each of its `items` and whether it must be
    `ordered`, a `record` its `fields`. A field that is not `required` may be omitted.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,49}$")
    type: AnswerType = "text"
    description: str = Field(default="", max_length=300)
    unit: str = Field(default="", max_length=40)
    tolerance: float = Field(default=0, ge=0, le=1e9)
    choices: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(default=(), max_length=100)
    items: AnswerField | None = None
    ordered: bool = False
    fields: tuple[AnswerField, ...] = Field(default=(), max_length=20)
    required: bool = True

    @model_validator(mode="after")
    def _require_consistent(self) -> AnswerField:
        needed = {"enumeration": bool(self.choices), "list": self.items is not None, "record": bool(self.fields)}
        names = {"enumeration": "choices", "list": "items", "record": "fields"}
        for kind, is_given in needed.items():
            if is_given != (self.type == kind):
                raise ValueError(f"`{names[kind]}` belong to a field of type {kind}, and to no other")
        if self.tolerance and self.type not in ("number", "money", "duration", "time"):
            raise ValueError("only numbers, amounts, durations and times have a tolerance")
        if len({field.name for field in self.fields}) < len(self.fields):
            raise ValueError("two of its `fields` have the same name")
        return self
