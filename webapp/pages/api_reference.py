"""The API's reference as a page: its OpenAPI schema, rendered on the server, so that nothing runs in the browser."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import require_scope
from webapp.api import load_schema
from webapp.common.error_responses import get_status
from webapp.common.query_params import Params
from webapp.common.rest import api_examples
from webapp.common.rest.problems import CLOSER, CODES, SAID
from webapp.workers import errors as worker_errors
from webapp.workers.serving import errors as serving_errors

BOUNDS = {
    "minimum": "≥",
    "maximum": "≤",
    "exclusiveMinimum": ">",
    "exclusiveMaximum": "<",
    "minLength": "length ≥",
    "maxLength": "length ≤",
    "maxItems": "items ≤",
}
UNBOUNDED = 2**31 - 1
PAGE = re.compile("PageOf_(.+)_")


@dataclass(frozen=True)
class PropertyRow:
    """A parameter or a property. `type` is a list of (text, schema it links to)."""

    name: str
    type: list[tuple[str, str]]
    required: bool
    note: str
    place: str = ""


@dataclass(frozen=True)
class Entry:
    id: str
    method: str
    path: str
    scope: str
    summary: str
    text: str
    parameters: list[PropertyRow]
    body: list[tuple[str, str]]
    answers: list[tuple[str, list[tuple[str, str]]]]
    curl: str

    @property
    def words(self) -> str:
        """The text that a search looks in: path, method, name, texts and the names and notes of its parameters."""
        told = (f"{row.name} {row.note}" for row in self.parameters)
        parts = (self.method, self.path, self.id, self.id.replace("_", " "), self.summary, self.text, *told)
        return " ".join(parts).lower()


@dataclass
class Reference:
    groups: dict[str, list[Entry]] = field(default_factory=dict)
    schemas: list[tuple[str, str, list[PropertyRow]]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(map(len, self.groups.values()))

    def found(self, text: str) -> Reference:
        """Return operations that hold every word, and schemas whose name or text does."""
        words = text.lower().split()
        groups = {
            name: [one for one in entries if all(word in f"{name} {one.words}" for word in words)]
            for name, entries in self.groups.items()
        }
        schemas = [row for row in self.schemas if all(word in f"{row[0]} {row[1]}".lower() for word in words)]
        return Reference({name: entries for name, entries in groups.items() if entries}, schemas)


def describe_type(schema: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the words of a type, those that name a schema with its name as the link."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        item = PAGE.fullmatch(name)
        return [("page of ", ""), (item[1], item[1])] if item else [(name, name)]
    for joined in ("anyOf", "oneOf", "allOf"):
        if joined in schema:
            words: list[tuple[str, str]] = []
            for part in schema[joined]:
                words += [*([(" or ", "")] if words else []), *describe_type(part)]
            return words
    if "enum" in schema or "const" in schema:
        return [(", ".join(f"“{value}”" for value in schema.get("enum", [schema.get("const")])), "")]
    if schema.get("type") == "array":
        return [("list of ", ""), *describe_type(schema.get("items", {}))]
    if schema.get("type") == "object" and "properties" in schema:
        words = [("{", "")]
        for name, part in schema["properties"].items():
            words += [*([(", ", "")] if len(words) > 1 else []), (f"{name}: ", ""), *describe_type(part)]
        return [*words, ("}", "")]
    spelled = {"binary": "file", "date-time": "date and time"}
    return [(spelled.get(schema.get("format", ""), str(schema.get("type", "any JSON"))), "")]


def build_row(name: str, schema: dict[str, Any], required: bool, place: str = "") -> PropertyRow:
    known = {bound: schema[bound] for bound in BOUNDS if bound in schema and schema[bound] < UNBOUNDED}
    remarks = [f"{BOUNDS[bound]} {value}" for bound, value in known.items()]
    if schema.get("default") not in (None, ""):
        remarks.append(f"default {schema['default']}")
    note = ". ".join(part for part in (schema.get("description", "").rstrip("."), ", ".join(remarks)) if part)
    return PropertyRow(name, describe_type(schema), required, note, place)


def describe_content_type(content: dict[str, Any]) -> list[tuple[str, str]]:
    media, body = next(iter(content.items()))
    inner = body.get("schema", {}).get("properties", {}).get("response", body.get("schema", {}))
    return describe_type(inner) if inner else [(media, "")]


def format_example(site: str, method: str, path: str, details: dict[str, Any], schemas: dict[str, Any]) -> str:
    """Return an operation as a call in the shell, with the first example of its body."""
    content = details.get("requestBody", {}).get("content", {})
    body_schema = content.get("application/json", {}).get("schema", {})
    # An optional body is an alternative to null.
    references = [schema["$ref"] for schema in (body_schema, *body_schema.get("anyOf", [])) if "$ref" in schema]
    body = schemas[references[0].rpartition("/")[2]]["examples"][0] if references else None
    parts = content.get("multipart/form-data", {}).get("schema", {}).get("properties", {})
    url = site + re.sub(r"{\w+}", "1", path)
    bound = any(one["name"] == "If-Match" and one["required"] for one in details["parameters"])
    return api_examples.format_curl_call(
        method.upper(), url, body, {part: f"{part}.json" for part in parts}, bound=bound
    )


def build_entry(method: str, path: str, details: dict[str, Any], curl: str) -> Entry:
    parameters = [
        build_row(parameter["name"], parameter["schema"], parameter["required"], parameter["in"])
        for parameter in details["parameters"]
    ]
    answers = [
        (str(status), describe_content_type(answer["content"]) if answer.get("content") else [("nothing", "")])
        for status, answer in details["responses"].items()
        if status != "default"
    ]
    body = details.get("requestBody", {}).get("content", {})
    return Entry(
        details["operationId"],
        method.upper(),
        path,
        details["x-scope"] or "",
        details["summary"],
        details.get("description", ""),
        parameters,
        describe_content_type(body) if body else [],
        answers,
        curl,
    )


@lru_cache(maxsize=4)
def build_reference(site: str) -> Reference:
    """Return the reference, read once a process and address of the site: operations do not change while it runs."""
    schema = load_schema()
    listing = Reference()
    for path, methods in schema["paths"].items():
        for method, details in methods.items():
            curl = format_example(site, method, path, details, schema["components"]["schemas"])
            listing.groups.setdefault(details.get("tags", ["other"])[0], []).append(
                build_entry(method, path, details, curl)
            )
    text = json.dumps(schema)
    for name in sorted(schema["components"]["schemas"]):
        if PAGE.fullmatch(name) or f'/{name}"' not in text:
            continue
        model = schema["components"]["schemas"][name]
        required = model.get("required", [])
        rows = [build_row(key, value, key in required) for key, value in model.get("properties", {}).items()]
        listing.schemas.append((name, model.get("description", ""), rows))
    return listing


@require_scope("read")
@require_safe
def show_reference(request: HttpRequest) -> HttpResponse:
    """Show the whole reference, or what `?q=` finds in it."""
    text = Params(request.GET).search_text("q")
    whole = build_reference(request.build_absolute_uri("/").rstrip("/"))
    context = {
        "reference": whole.found(text) if text else whole,
        "text": text,
        "searched": bool(text),
        "all_operations": whole.count,
        "problems": list_problem_rows(),
    }
    return render(request, "api/reference.html", context)


def list_problem_rows() -> list[tuple[int, str, str]]:
    """Return (status, code, meaning) of every kind of problem, by status."""
    rows = [(status, code, SAID.get(status, "")) for status, code in CODES.items()]
    rows += [(status, code, meaning) for code, (status, meaning) in CLOSER.items()]
    rows += [(get_status(kind), kind.code, kind.meaning) for kind in (*worker_errors.KINDS, *serving_errors.KINDS)]
    return sorted(rows, key=lambda row: row[0])
