"""JSON Schemas of a training job's configuration, from the models of `training.config`.

A whole configuration is a discriminated union by `type`. `changes` name some fields of one: their models here have the
same fields, descriptions and ranges, none required, since what is left out keeps the preset's value. Values are checked
where the changes meet the preset (`training.presets.change`), so these models describe and never validate.
"""

from __future__ import annotations

import copy
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, GetJsonSchemaHandler, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import list_schema

from training.config import EvaluationJob, Reinforcement, Supervised
from webapp.rest.types import Json, Text

ABOUT = "Fields with other values than the preset's. {}"
NOTHING_ELSE = ConfigDict(extra="forbid")


class DescribedBy:
    """Give a field the JSON Schema of `model`, and leave its validation as it is."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # A part of another schema, with a `ref` and within allOf, is a component of its own: else pydantic writes the
        # whole model out here.
        named = {**self.model.__pydantic_core_schema__, "ref": f"{self.model.__module__}.{self.model.__name__}:0"}
        return {"allOf": [handler(list_schema(cast(CoreSchema, named)))["items"]]}


@cache
def changes_model(model: type[BaseModel]) -> type[BaseModel]:
    """A model of the same fields, all of which may be left out."""
    fields: dict[str, Any] = {name: _optional(info, name) for name, info in model.model_fields.items()}
    return create_model(
        f"{model.__name__}Changes", __config__=NOTHING_ELSE, __doc__=ABOUT.format(model.__doc__), **fields
    )


def _optional(info: FieldInfo, name: str) -> tuple[Any, FieldInfo]:
    """The field as one that may be left out; a part that is a model, or one of several, may be given in part."""
    field = copy.copy(info)
    field.default, field.default_factory, field.discriminator = None, None, None
    field.json_schema_extra = _drop_default
    models = _models_of(info.annotation)
    if len(models) == 1:
        return changes_model(models[0]), field
    if models:
        return _changed_variant(name, models), field
    return info.annotation, field


def _variant_fields(model: type[BaseModel]) -> dict[str, Any]:
    fields: dict[str, Any] = {key: _optional(info, key) for key, info in model.model_fields.items() if key != "kind"}
    return {"kind": (model.model_fields["kind"].annotation, ...), **fields}


def _bounds_of(info: FieldInfo) -> tuple[Any, ...]:
    return (*info.metadata, Field(description=info.description))


def _drop_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def _models_of(annotation: Any) -> list[type[BaseModel]]:
    """The models of a type that is a model or a union of models; of any other type none."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, type(int | str)) else (annotation,)
    found = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
    return found if len(found) == len(parts) else []


def _changed_variant(name: str, models: list[type[BaseModel]]) -> Any:
    """Fields of one variant, named by its `kind`; or without a `kind` fields of the variant that the preset has."""
    named = [
        create_model(
            f"{model.__name__}Changes",
            __config__=NOTHING_ELSE,
            __doc__=ABOUT.format(model.__doc__),
            **_variant_fields(model),
        )
        for model in models
    ]
    types: dict[str, list[Any]] = {}
    for model in models:
        for key, info in model.model_fields.items():
            if key != "kind":
                types.setdefault(key, []).append(Annotated[info.annotation, *_bounds_of(info)])
    fields: dict[str, Any] = {
        key: (reduce(or_, several), Field(default=None, json_schema_extra=_drop_default))
        for key, several in types.items()
    }
    unnamed = create_model(
        f"{name.capitalize()}OfPresetChanges",
        __config__=NOTHING_ELSE,
        __doc__=f"Fields of the `{name}` that the preset has, whose `kind` stays.",
        **fields,
    )
    return Annotated[reduce(or_, named), Field(discriminator="kind")] | unnamed


SupervisedChanges = Annotated[dict[Text, Json], DescribedBy(changes_model(Supervised))]
ReinforcementChanges = Annotated[dict[Text, Json], DescribedBy(changes_model(Reinforcement))]
EvaluationChanges = Annotated[dict[Text, Json], DescribedBy(changes_model(EvaluationJob))]
"""Fields of the configuration with other values than the preset's, nested."""
