"""An API description of thirty operations, as large services have them: schemas in circles, in all three dialects."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

Dialect = Literal["3.0.3", "3.1.0", "2.0"]
RESOURCES = {
    "category": {"parent": "Category", "children": ["Category"]},
    "item": {"category": "Category", "substitutes": ["Item"], "weight_g": "integer"},
    "order": {"customer": "Customer", "lines": ["OrderLine"], "note": "string"},
    "customer": {"orders": ["Order"], "is_blocked": "boolean"},
    "shipment": {"order": "Order", "next": "Shipment"},
    "count": {"item": "Item", "corrected_by": "Count", "number": "integer"},
}
ORDER_LINE = {"item": "Item", "order": "Order", "amount": "integer"}


def build_warehouse(dialect: Dialect = "3.0.3") -> dict[str, Any]:
    """Build a document with five operations on each of six kinds of records, which refer to one another."""
    schemas = {name.capitalize(): _build_schema(fields) for name, fields in RESOURCES.items()}
    schemas["OrderLine"] = _build_schema(ORDER_LINE)
    paths: dict[str, Any] = {}
    for name in RESOURCES:
        paths[f"/{name}s"] = {"get": _list(name, dialect), "post": _write(name, "create", dialect)}
        paths[f"/{name}s/{{{name}_id}}"] = {
            "parameters": [{"name": f"{name}_id", "in": "path", "required": True} | _typed("string", dialect)],
            "get": _describe(name, "show", dialect),
            "patch": _write(name, "change", dialect),
            "delete": {"operationId": f"delete-{name}", "responses": {"204": {"description": "Gone."}}},
        }
    info = {"title": "Warehouse", "version": "1", "description": "Items, orders and what leaves the house."}
    if dialect != "2.0":
        return {"openapi": dialect, "info": info, "paths": paths, "components": {"schemas": schemas}}
    text = json.dumps({"swagger": "2.0", "info": info, "paths": paths, "definitions": schemas})
    moved: dict[str, Any] = json.loads(re.sub("#/components/schemas/", "#/definitions/", text))
    return moved


def _build_schema(fields: dict[str, Any]) -> dict[str, Any]:
    properties = {"id": {"type": "string", "readOnly": True}} | {name: _refer(kind) for name, kind in fields.items()}
    return {"type": "object", "required": [next(iter(fields))], "properties": properties}


def _refer(kind: str | list[str]) -> dict[str, Any]:
    if isinstance(kind, list):
        return {"type": "array", "items": _refer(kind[0])}
    return {"type": kind} if kind.islower() else {"$ref": f"#/components/schemas/{kind}"}


def _typed(kind: str, dialect: Dialect) -> dict[str, Any]:
    return {"type": kind} if dialect == "2.0" else {"schema": {"type": kind}}


def _answer(schema: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    if dialect == "2.0":
        return {"200": {"description": "What was asked for.", "schema": schema}}
    return {"200": {"description": "What was asked for.", "content": {"application/json": {"schema": schema}}}}


def _list(name: str, dialect: Dialect) -> dict[str, Any]:
    schema = {"type": "array", "items": _refer(name.capitalize())}
    limit = {"name": "limit", "in": "query"} | _typed("integer", dialect)
    about = f"List {name}s."
    return {
        "operationId": f"list-{name}s", "summary": about, "parameters": [limit], "responses": _answer(schema, dialect),
    }  # fmt: skip


def _describe(name: str, verb: str, dialect: Dialect) -> dict[str, Any]:
    about = f"{verb.capitalize()} a {name}."
    return {
        "operationId": f"{verb}-{name}", "summary": about, "responses": _answer(_refer(name.capitalize()), dialect),
    }  # fmt: skip


def _write(name: str, verb: str, dialect: Dialect) -> dict[str, Any]:
    schema = _refer(name.capitalize())
    operation = _describe(name, verb, dialect)
    if dialect == "2.0":
        return operation | {"parameters": [{"name": "body", "in": "body", "required": True, "schema": schema}]}
    return operation | {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
