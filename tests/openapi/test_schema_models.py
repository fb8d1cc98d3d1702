"""The API's OpenAPI document names each model once, and describes the settings of training jobs as they are."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pydantic import BaseModel

from training.config import EvaluationJob, Reinforcement, Supervised
from webapp.api import list_operations, load_schema

COMPONENTS: dict[str, Any] = load_schema()["components"]["schemas"]
BOUNDS = ("description", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "enum", "type")


def models_of(kind: Any, found: set[type[BaseModel]]) -> set[type[BaseModel]]:
    """All models that a type holds, themselves among them."""
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in found:
        found.add(kind)
        for field in kind.model_fields.values():
            models_of(field.annotation, found)
    for part in get_args(kind):
        models_of(part, found)
    return found


def test_no_two_models_share_a_name() -> None:
    """Ninja keeps the last one of a name: operations of the others would be described by it."""
    found: set[type[BaseModel]] = set()
    for operation in list_operations():
        for kind in (*operation.models, *operation.response_models.values()):
            models_of(kind, found)
    named: dict[str, list[str]] = {}
    for model in found:
        if model.__name__ in COMPONENTS:
            named.setdefault(model.__name__, []).append(f"{model.__module__}.{model.__qualname__}")
    assert len(named) > 200
    assert {name: places for name, places in named.items() if len(places) > 1} == {}


@pytest.mark.parametrize("model", [Supervised, Reinforcement, EvaluationJob])
def test_changes_are_described_like_the_configuration_they_change(model: type[BaseModel]) -> None:
    compared = 0
    for part in models_of(model, set()):
        whole, changes = part.model_json_schema(mode="validation"), COMPONENTS.get(f"{part.__name__}Changes")
        if changes is None:
            assert part.__name__ == "Phase", "only what stands in a list is given whole"
            continue
        assert changes["properties"].keys() == whole["properties"].keys()
        assert changes.get("required", []) in ([], ["kind"])
        assert changes["additionalProperties"] is False
        for name, field in whole["properties"].items():
            told = {key: field[key] for key in BOUNDS if key in field}
            assert told == {key: changes["properties"][name][key] for key in told}, f"{part.__name__}.{name}"
            assert "default" not in changes["properties"][name], "what is left out keeps the preset's value"
            compared += len(told)
    assert compared > 20


def test_variants_are_told_apart_by_their_kind() -> None:
    config = COMPONENTS["EnvariumOut"]["properties"]["config"]
    assert config["discriminator"]["propertyName"] == "type"
    assert len(config["oneOf"]) == 3
    for name, variants in (("horizon", 4), ("tuning", 2)):
        named, unnamed = COMPONENTS["ReinforcementChanges"]["properties"][name]["anyOf"]
        assert named["discriminator"]["propertyName"] == "kind"
        assert len(named["oneOf"]) == variants
        assert "kind" not in COMPONENTS[unnamed["$ref"].rpartition("/")[2]]["properties"]
