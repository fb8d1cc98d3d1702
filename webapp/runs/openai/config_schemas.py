"""JSON Schemas of a training job's configuration, from the models of `training.config`.

A whole configuration is a discriminated union by `type`. `changes` name some fields of one: their models here have the
same fields, descriptions and ranges, none required, since what is left out keeps the preset's value. Values are checked
when the changes are applied to the preset (`training.presets.change_preset`), so these models describe and never
validate."""

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
from webapp.common.rest.types import Json, Text

ABOUT = "Fields with other values than the preset's. {}"
NOTHING_ELSE = ConfigDict(extra="forbid")


class DescribedBy:
    """Annotation that gives a field the JSON Schema of `model`, and leaves its validation as it is."""

    def __init__(self, model: type[BaseModel]) -> None:
        self.model = model

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # A part of another schema, with a `ref` and within allOf, is a component of its own: else pydantic writes the
        # whole model out here.
        named = {**self.model.__pydantic_core_schema__, "ref": f"{self.model.__module__}.{self.model.__name__}:0"}
        return {"allOf": [handler(list_schema(cast(CoreSchema, named)))["items"]]}


@cache
def build_changes_model(model: type[BaseModel]) -> type[BaseModel]:
    """Build a model of the same fields, all of which may be left out."""
    fields: dict[str, Any] = {name: _make_optional(info, name) for name, info in model.model_fields.items()}
    return create_model(
        f"{model.__name__}Changes", __config__=NOTHING_ELSE, __doc__=ABOUT.format(model.__doc__), **fields
    )


def _make_optional(info: FieldInfo, name: str) -> tuple[Any, FieldInfo]:
    """Return the field as one that may be left out; a part that is a model, or one of several, may be given in part."""
    field = copy.copy(info)
    field.default, field.default_factory, field.discriminator = None, None, None
    field.json_schema_extra = _drop_default
    models = _list_models(info.annotation)
    if len(models) == 1:
        return build_changes_model(models[0]), field
    if models:
        return _build_variant_changes(name, models), field
    return info.annotation, field


def _build_variant_fields(model: type[BaseModel]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        key: _make_optional(info, key) for key, info in model.model_fields.items() if key != "kind"
    }
    return {"kind": (model.model_fields["kind"].annotation, ...), **fields}


def _get_bounds(info: FieldInfo) -> tuple[Any, ...]:
    return (*info.metadata, Field(description=info.description))


def _drop_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


def _list_models(annotation: Any) -> list[type[BaseModel]]:
    """Return the models of a type that is a model or a union of models; an empty list for any other type."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, type(int | str)) else (annotation,)
    models = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
    return models if len(models) == len(parts) else []


def _build_variant_changes(name: str, models: list[type[BaseModel]]) -> Any:
    """Build the type of one variant's fields, named by its `kind`; or without a `kind` of fields of the preset's
    variant."""
    named = [
        create_model(
            f"{model.__name__}Changes",
            __config__=NOTHING_ELSE,
            __doc__=ABOUT.format(model.__doc__),
            **_build_variant_fields(model),
        )
        for model in models
    ]
    types: dict[str, list[Any]] = {}
    for model in models:
        for key, info in model.model_fields.items():
            if key != "kind":
                types.setdefault(key, []).append(Annotated[info.annotation, *_get_bounds(info)])
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


SupervisedChanges = Annotated[dict[Text, Json], DescribedBy(build_changes_model(Supervised))]
ReinforcementChanges = Annotated[dict[Text, Json], DescribedBy(build_changes_model(Reinforcement))]
EvaluationChanges = Annotated[dict[Text, Json], DescribedBy(build_changes_model(EvaluationJob))]
"""Fields of the configuration with other values than the preset's, nested."""
