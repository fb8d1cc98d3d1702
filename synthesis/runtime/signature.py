"""The working JSON schema of a tool, derived from its signature, and its differences from an imported schema."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

from synthesis.contracts import Finding
from synthesis.runtime.program import Method, MethodParameter
from synthesis.syntax import UNREADABLE, parse_expression, read_literal

Schema = dict[str, Any]
_SIMPLE = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "complex": "number",
    "bool": "boolean",
    "dict": "object",
    "Dict": "object",
    "Mapping": "object",
    "MutableMapping": "object",
    "OrderedDict": "object",
    "defaultdict": "object",
    "DefaultDict": "object",
    "Counter": "object",
    "list": "array",
    "List": "array",
    "Sequence": "array",
    "Iterable": "array",
    "Collection": "array",
    "MutableSequence": "array",
    "tuple": "array",
    "Tuple": "array",
    "None": "null",
    "NoneType": "null",
}
_DEPTH = 12
WORDS = 1_000
"""Characters of what a parameter's description may have."""
_ARGUMENT = re.compile(r"^\s*(\w+)\s*(?:\([^)]*\))?\s*:\s*(\S.*)$")
_SECTION = re.compile(r"^\s*(Args|Arguments|Parameters|Returns|Raises|Constraints|Notes?|Edge cases|Yields)\s*:?\s*$")


def derive_working_schema(method: Method) -> Schema:
    """Return the JSON schema of a method's arguments: types from annotations, `required` if without a default.

    A type that the annotation does not give, or that JSON cannot express, is left open.
    """
    properties: dict[str, Schema] = {}
    required: list[str] = []
    open_ended = False
    words = _read_descriptions(method.docstring)
    for parameter in method.parameters:
        if parameter.kind == "var_keyword":
            open_ended = True
        if parameter.kind in ("var_keyword", "var_positional"):
            continue
        properties[parameter.name] = _build_property(parameter, words.get(parameter.name, ""))
        if parameter.default is None:
            required.append(parameter.name)
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": open_ended,
    }


def _build_property(parameter: MethodParameter, words: str) -> Schema:
    schema = parse_annotation_schema(parameter.annotation)
    if parameter.default is not None:
        try:
            value = read_literal(parameter.default)
            json.dumps(value, allow_nan=False)
        except (TypeError, *UNREADABLE):
            pass
        else:
            # `x: str = None` means an optional text, whatever the annotation says.
            schema = _join_schemas([schema, {"type": "null"}]) if value is None else schema
            schema = schema | {"default": value}
    return schema | ({"description": words} if words else {})


def parse_annotation_schema(annotation: str) -> Schema:
    """Return the schema of an annotation's source text; `{}` (anything) if it has no usable type."""
    if not annotation:
        return {}
    try:
        return _build_schema(parse_expression(annotation).body, _DEPTH)
    except UNREADABLE:
        return {}


def _build_schema(node: ast.expr, depth: int) -> Schema:
    if depth <= 0:
        return {}
    if isinstance(node, ast.Constant):
        if node.value is None:
            return {"type": "null"}
        return parse_annotation_schema(node.value) if isinstance(node.value, str) else {}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _join_schemas([_build_schema(node.left, depth - 1), _build_schema(node.right, depth - 1)])
    if isinstance(node, ast.Subscript):
        return _build_subscript_schema(_get_name(node.value), node.slice, depth)
    json_type = _SIMPLE.get(_get_name(node))
    return {"type": json_type} if json_type else {}


def _get_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _build_subscript_schema(name: str, inner: ast.expr, depth: int) -> Schema:
    parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    if name == "Optional":
        return _join_schemas([_build_schema(parts[0], depth - 1), {"type": "null"}])
    if name == "Union":
        return _join_schemas([_build_schema(part, depth - 1) for part in parts])
    if name == "Literal":
        return _build_literal_schema(parts)
    if name in ("Annotated", "Required", "NotRequired", "Final"):
        return _build_schema(parts[0], depth - 1)
    kind = _SIMPLE.get(name)
    if kind == "object":
        values = _build_schema(parts[1], depth - 1) if len(parts) == 2 else {}
        return {"type": "object"} | ({"additionalProperties": values} if values else {})
    if kind == "array":
        if name in ("tuple", "Tuple") and len(parts) != 1:
            uniform = len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is ...
            if not uniform:
                return {"type": "array", "minItems": len(parts), "maxItems": len(parts)}
        items = _build_schema(parts[0], depth - 1)
        return {"type": "array"} | ({"items": items} if items else {})
    return {"type": kind} if kind else {}


def _build_literal_schema(parts: list[ast.expr]) -> Schema:
    values = [part.value for part in parts if isinstance(part, ast.Constant)]
    if len(values) != len(parts) or not all(isinstance(v, (str, int, bool, type(None))) for v in values):
        return {}
    kinds = {str: "string", bool: "boolean", int: "integer", type(None): "null"}
    types = list(dict.fromkeys(kinds[type(value)] for value in values))
    return {"type": types[0] if len(types) == 1 else types, "enum": values}


def _join_schemas(parts: list[Schema]) -> Schema:
    flat: list[Schema] = []
    for part in parts:
        if not part:
            return {}
        flat.extend(part["anyOf"] if set(part) == {"anyOf"} else [part])
    unique = [part for index, part in enumerate(flat) if part not in flat[:index]]
    if len(unique) == 1:
        return unique[0]
    if all(set(part) == {"type"} for part in unique):
        names = [n for part in unique for n in (part["type"] if type(part["type"]) is list else [part["type"]])]
        return {"type": list(dict.fromkeys(names))}
    return {"anyOf": unique}


def _read_descriptions(docstring: str) -> dict[str, str]:
    """Return the descriptions of parameters in the `Args:` section of a docstring, with further indented lines."""
    lines: dict[str, list[str]] = {}
    inside = False
    name, margin = "", 0
    for line in docstring.splitlines():
        section = _SECTION.match(line)
        if section:
            inside, name = section[1] in ("Args", "Arguments", "Parameters"), ""
            continue
        deep = len(line) - len(line.lstrip())
        further = bool(name and line.strip() and deep > margin)
        match = _ARGUMENT.match(line) if inside and not further else None
        if match:
            name, margin = "" if match[1] in lines else match[1], deep
            lines.setdefault(match[1], [match[2].strip()])
        elif further:
            lines[name].append(line.strip())
        else:
            name = ""
    return {name: " ".join(parts)[:WORDS] for name, parts in lines.items()}


def strip_arguments(docstring: str) -> str:
    """Return a docstring without its `Args:` section, for readers of the schema, which holds the same."""
    kept_lines: list[str] = []
    inside, margin = False, 0
    for line in docstring.splitlines():
        section = _SECTION.match(line)
        deep = len(line) - len(line.lstrip())
        if section:
            inside, margin = section[1] in ("Args", "Arguments", "Parameters"), deep
        elif inside and line.strip() and deep <= margin and not _ARGUMENT.match(line):
            inside = False
        if not inside:
            kept_lines.append(line)
    return "\n".join(kept_lines).strip()


def schema_findings(raw_schema: Any, method: Method) -> list[Finding]:
    """Return the differences of an imported schema from the working one. `data` names the parameter and both sides."""
    place = f"tools.{method.name}"
    working = derive_working_schema(method)
    if not isinstance(raw_schema, dict) or not isinstance(raw_schema.get("properties", {}), dict):
        message = "the schema is no object with properties"
        return [Finding(kind="schema_malformed", place=place, message=message)]
    raw: Schema = raw_schema.get("properties", {})
    required = raw_schema.get("required", [])
    required = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    own: Schema = working["properties"]
    findings: list[Finding] = []

    def add_finding(kind: str, name: str, message: str, **data: Any) -> None:
        where = f"{place}.{name}"
        findings.append(Finding(kind=kind, place=where, message=message, data={"parameter": name} | data))

    for name in raw:
        if name not in own and not working["additionalProperties"]:
            add_finding("unknown_parameter", name, f"the schema lists {name}, which {method.name} does not take")
    for name in own:
        if name not in raw:
            add_finding("missing_parameter", name, f"{method.name} takes {name}, which the schema does not list")
    for name in required:
        if name in own and name not in working["required"]:
            add_finding("required_with_default", name, f"the schema requires {name}, which has a default value")
    for name in working["required"]:
        if name in raw and name not in required:
            add_finding("required_missing", name, f"{name} has no default value, but the schema does not require it")
    for name in raw.keys() & own.keys():
        theirs, ours = _list_types(raw[name]), _list_types(own[name])
        if theirs and ours and theirs != ours and not _is_compatible(theirs, ours):
            message = f"the schema says {' or '.join(sorted(theirs))}, the signature {' or '.join(sorted(ours))}"
            add_finding("type_differs", name, message, schema=sorted(theirs), signature=sorted(ours))
    return findings


def _list_types(schema: Any) -> frozenset[str]:
    """Return the types that a schema names; empty if it names none."""
    if not isinstance(schema, dict):
        return frozenset()
    parts = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(parts, list):
        branches = [_list_types(part) for part in parts]
        return frozenset().union(*branches) if all(branches) else frozenset()
    names = schema.get("type")
    listed = names if isinstance(names, list) else [names]
    return frozenset(name for name in listed if isinstance(name, str))


def _is_compatible(theirs: frozenset[str], ours: frozenset[str]) -> bool:
    # An imported schema rarely says that a parameter may be null; leaving it out is no contradiction.
    return theirs == ours - {"null"}
