"""OpenAPI 3.0 and 3.1 and Swagger 2 documents: each operation is a tool, its parameters are one JSON schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.records import ToolSpec
from synthesis.formats.values import clean_text, read_text_field, require_record
from synthesis.json_reader import get_json_type
from synthesis.prompts.tool_text import shorten_parameters
from synthesis.tool_documents.schemas import SchemaReader, follow_references

METHODS = ("get", "put", "post", "delete", "patch", "options", "head", "trace")
MOST_OPERATIONS = 1_000
PARAMETER_CHARS = 50_000
"""Of what one operation takes, as JSON: what is more is outlined, as deep as there is room."""
MOST_RETURNED = 40
"""Fields of a response that a description names."""
PLACES = ("path", "query", "header", "cookie")
NO_PARAMETERS = {"accept", "content-type", "authorization"}
"""Headers that the specification takes for no parameters."""
ABOUT_PARAMETER = (
    "name",
    "in",
    "required",
    "schema",
    "content",
    "style",
    "explode",
    "allowReserved",
    "collectionFormat",
)


@dataclass(frozen=True)
class Operation:
    """A method of a path, with the parameters that all methods of the path take."""

    path: str
    method: str
    fields: dict[str, Any]
    shared: list[Any]
    place: str

    @property
    def line(self) -> str:
        """Its method and path, as a request begins."""
        return f"{self.method} {self.path}"


def is_openapi(document: Any) -> bool:
    """Return whether a document declares itself an OpenAPI or Swagger document, of any version."""
    return isinstance(document, dict) and ("openapi" in document or "swagger" in document)


def read_operations(document: dict[str, Any]) -> tuple[ToolSpec, ...]:
    """Read every operation as a tool, in the order of the document. Raises FormatError."""
    _require_version(document)
    tools: list[ToolSpec] = []
    names: dict[str, Operation] = {}
    reader = SchemaReader(document)
    for operation in _list_operations(document):
        tool = _read_operation(reader, operation, _name_operation(operation, names))
        names[tool.name] = operation
        tools.append(tool)
        if len(tools) > MOST_OPERATIONS:
            raise FormatError("paths", f"more than {MOST_OPERATIONS:,} operations; split the document")
    if not tools:
        raise FormatError("paths", "holds no operation, so there is no tool to take from it")
    return tuple(tools)


def _require_version(document: dict[str, Any]) -> None:
    version = document.get("openapi", document.get("swagger"))
    if not re.match(r"(3\.[01](\.|$)|2\.0$|2$)", str(version)):
        name = "openapi" if "openapi" in document else "swagger"
        raise FormatError(name, f"version {str(version)[:20]!r}; OpenAPI 3.0 and 3.1 and Swagger 2.0 are read")


def _list_operations(document: dict[str, Any]) -> Iterator[Operation]:
    paths = require_record(document.get("paths", {}), "paths")
    for path, item in paths.items():
        if path.startswith("x-"):
            continue
        place = f"paths.{path}"
        fields = require_record(follow_references(document, item, place), place)
        shared = _read_list(fields, "parameters", place)
        for method in fields:
            if method.lower() in METHODS:
                operation_place = f"{place}.{method}"
                operation = require_record(fields[method], operation_place)
                yield Operation(path, method.lower(), operation, shared, operation_place)


def _read_list(fields: dict[str, Any], name: str, place: str) -> list[Any]:
    value = fields.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise FormatError(f"{place}.{name}", f"expected a list, found a {get_json_type(value)}")
    return value


def _name_operation(operation: Operation, names: dict[str, Operation]) -> str:
    """Return the name of an operation in letters, digits and underscores: its id, or its method and path.

    Raises FormatError: its id is that of another.
    """
    given_id, place = _read_id(operation), operation.place
    name_candidates = [re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") for text in (given_id, operation.line)]
    name = name_candidates[0] or name_candidates[1]
    name = name if name[:1].isalpha() else f"call_{name}"
    if name not in names:
        return name
    if _read_id(names[name]) == given_id:
        reason = f"the name {given_id or name!r} is also that of {names[name].place}; give each operation its own"
        raise FormatError(f"{place}.operationId", reason)
    return next(
        numbered_name for number in range(2, MOST_OPERATIONS + 3) if (numbered_name := f"{name}_{number}") not in names
    )


def _read_id(operation: Operation) -> str:
    return read_text_field(operation.fields, "operationId", operation.place).strip()


def _read_operation(reader: SchemaReader, operation: Operation, name: str) -> ToolSpec:
    document, place = reader.document, operation.place
    properties: dict[str, Any] = {}
    required: list[str] = []
    body: tuple[Any, bool, str] | None = None
    form: list[dict[str, Any]] = []
    for key, value, where in _list_parameters(document, operation):
        if value["in"] == "body":  # Swagger 2
            body = value.get("schema", {}), value.get("required") is True, f"{where}.schema"
            continue
        if value["in"] == "formData":
            form.append(value)
            continue
        argument = key if key not in properties else f"{key}_{value['in']}"
        properties[argument] = _read_parameter(document, reader, value, where)
        if value.get("required") is True or value["in"] == "path":
            required.append(argument)
    if form and body is None:
        body = _build_form(form), True, f"{place}.parameters"
    body = _find_request_body(document, operation) or body
    if body is not None:
        _add_body(document, reader, body, properties, required)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if definitions := reader.take_definitions():
        schema["$defs"] = definitions
    schema = shorten_parameters(schema, PARAMETER_CHARS)
    return ToolSpec(name=name, description=_describe_operation(document, operation), parameters=schema)


def _list_parameters(document: dict[str, Any], operation: Operation) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield each parameter once by name and place; those of the operation replace those of its path."""
    merged: dict[tuple[str, str], tuple[dict[str, Any], str]] = {}
    own_parameters = _read_list(operation.fields, "parameters", operation.place)
    above = operation.place.rsplit(".", 1)[0]
    all_parameters = [(item, f"{above}.parameters[{index}]") for index, item in enumerate(operation.shared)]
    all_parameters += [(item, f"{operation.place}.parameters[{index}]") for index, item in enumerate(own_parameters)]
    for item, place in all_parameters:
        value = require_record(follow_references(document, item, place), place)
        name, where = read_text_field(value, "name", place, required=True), value.get("in")
        if where not in (*PLACES, "body", "formData"):
            raise FormatError(f"{place}.in", f"{str(where)[:40]!r}; a parameter is in {', '.join(PLACES)}")
        if where == "header" and name.lower() in NO_PARAMETERS:
            continue
        merged[name, where] = value, place
    for (name, _), (value, place) in merged.items():
        yield name, value, place


def _read_parameter(document: dict[str, Any], reader: SchemaReader, value: dict[str, Any], place: str) -> Any:
    """Return a parameter's schema with its description; Swagger 2 writes the schema into the parameter itself."""
    if "schema" in value:
        schema = reader.read(value["schema"], f"{place}.schema")
    elif isinstance(value.get("content"), dict) and value["content"]:
        schema = reader.read(_choose_content(value["content"], place).get("schema", {}), f"{place}.content")
    else:
        schema = reader.read({key: part for key, part in value.items() if key not in ABOUT_PARAMETER}, place)
    about = read_text_field(value, "description", place)
    if not about or not isinstance(schema, dict):
        return schema
    return {**schema, "description": about} if "$ref" not in schema else {"allOf": [schema], "description": about}


def _build_form(fields: list[dict[str, Any]]) -> dict[str, Any]:
    """Build the body that the `formData` parameters of Swagger 2 form together."""
    properties = {
        field["name"]: {key: part for key, part in field.items() if key not in ABOUT_PARAMETER} for field in fields
    }
    required = [field["name"] for field in fields if field.get("required") is True]
    return {"type": "object", "properties": properties, "required": required}


def _find_request_body(document: dict[str, Any], operation: Operation) -> tuple[Any, bool, str] | None:
    """Find the schema of the operation's request body (OpenAPI 3), and whether it is required."""
    if "requestBody" not in operation.fields:
        return None
    place = f"{operation.place}.requestBody"
    body = require_record(follow_references(document, operation.fields["requestBody"], place), place)
    content = require_record(body.get("content", {}), f"{place}.content")
    if not content:
        return None
    chosen_content = _choose_content(content, f"{place}.content")
    return chosen_content.get("schema", {}), body.get("required") is True, f"{place}.content.schema"


def _choose_content(content: dict[str, Any], place: str) -> dict[str, Any]:
    """Choose JSON among the media types, else a form, else the first."""
    for pattern in ("application/json", r".*\+json", ".*json.*", ".*form.*", ".*"):
        for media, value in content.items():
            if re.fullmatch(pattern, media.partition(";")[0].strip(), re.IGNORECASE | re.DOTALL):
                return require_record(value, f"{place}.{media}")
    return {}


def _add_body(
    document: dict[str, Any],
    reader: SchemaReader,
    body: tuple[Any, bool, str],
    properties: dict[str, Any],
    required: list[str],
) -> None:
    """Add the body's fields to the parameters; a body that is no plain object, or whose fields share names with
    parameters, becomes one argument `body`.
    """
    schema, is_required, place = body
    plain = follow_references(document, schema, place)
    fields: Any = plain.get("properties") if isinstance(plain, dict) else None
    is_plain = isinstance(fields, dict) and fields and not {"allOf", "anyOf", "oneOf"} & plain.keys()
    if not is_plain or fields.keys() & properties.keys():
        name = "body" if "body" not in properties else "request_body"
        properties[name] = reader.read(schema, place)
        required += [name] if is_required else []
        return
    for name, field in fields.items():
        properties[name] = reader.read(field, f"{place}.properties.{name}")
    required_fields = plain.get("required")
    if is_required and isinstance(required_fields, list):
        required += [name for name in required_fields if isinstance(name, str) and name in fields]


def _describe_operation(document: dict[str, Any], operation: Operation) -> str:
    """Describe an operation: its summary, its description, and its successful response."""
    fields, place = operation.fields, operation.place
    parts = [read_text_field(fields, "summary", place).strip(), read_text_field(fields, "description", place).strip()]
    parts = list(dict.fromkeys(part for part in parts if part))
    if fields.get("deprecated") is True:
        parts.append("Deprecated.")
    returned = _describe_response(document, fields, place)
    parts += [f"Returns: {returned}"] if returned else []
    return "\n\n".join(parts) or f"{operation.method.upper()} {clean_text(operation.path)}"


def _describe_response(document: dict[str, Any], fields: dict[str, Any], place: str) -> str:
    responses = require_record(fields.get("responses") or {}, f"{place}.responses")
    code = next((code for code in sorted(responses) if re.match(r"2(\d\d|XX)$", code, re.IGNORECASE)), "default")
    if code not in responses:
        return ""
    place = f"{place}.responses.{code}"
    response = require_record(follow_references(document, responses[code], place), place)
    content = response.get("content")
    if isinstance(content, dict) and content:
        schema = _choose_content(content, f"{place}.content").get("schema")
    else:
        schema = response.get("schema")  # Swagger 2
    words = [read_text_field(response, "description", place).strip(), _name_fields(document, schema, place)]
    return ". ".join(word.rstrip(".") for word in words if word)


def _name_fields(document: dict[str, Any], schema: Any, place: str) -> str:
    """Name the fields of a response, of one item if it is a list."""
    value = follow_references(document, schema, place)
    of_list = isinstance(value, dict) and value.get("type") == "array"
    if of_list:
        value = follow_references(document, value.get("items"), place)
    fields = value.get("properties") if isinstance(value, dict) else None
    if not isinstance(fields, dict) or not fields:
        return ""
    names = ", ".join(clean_text(name) for name in list(fields)[:MOST_RETURNED])
    more_text = f" and {len(fields) - MOST_RETURNED} more" if len(fields) > MOST_RETURNED else ""
    return f"{'A list of objects' if of_list else 'An object'} with {names}{more_text}"
