"""Refusal of unknown parameters: a misspelled filter or file would do something else than was meant."""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.http.multipartparser import MultiPartParserError
from ninja.operation import Operation
from ninja.params.models import FileModel, FormModel, QueryModel

from webapp.rest.problems import ERRORS_SHOWN, FieldError, Problem, response


def names_of(operation: Operation, kind: type) -> set[str]:
    models: list[Any] = [model for model in operation.models if issubclass(model, kind)]
    return {name for model in models for name in getattr(model, "__ninja_flatten_map__", model.model_fields)}


def strict(operation: Operation) -> None:
    """Let a mounted operation refuse parameters and form parts that it does not know, for who may call it."""
    run, rules = operation.run, operation.auth_callbacks
    parameters, files, texts = (names_of(operation, kind) for kind in (QueryModel, FileModel, FormModel))
    deep = tables_of(operation)

    @wraps(run)
    def checked(request: HttpRequest, **path: Any) -> HttpResponseBase:
        try:
            for rule in rules:
                rule(request)
        except Problem:
            return run(request, **path)  # says who may not
        problem = (
            encoding_problem(request)
            or refusal("query", request.GET, parameters | in_tables(request.GET, deep))
            or (form_problem(request, files, texts) if files else None)
        )
        return response(request, problem) if problem else run(request, **path)

    operation.run = checked  # type: ignore[method-assign]


def tables_of(operation: Operation) -> set[str]:
    """Parameters of the address that are spelled `name[key]=value`, as the operation's schema declares them."""
    parameters = (operation.openapi_extra or {}).get("parameters", [])
    return {parameter["name"] for parameter in parameters if parameter.get("style") == "deepObject"}


def in_tables(sent: Any, tables: set[str]) -> set[str]:
    """The parameters that are entries of a table: `metadata[run]`."""
    return {name for name in sent if name.endswith("]") and name.partition("[")[0] in tables and "[" in name}


def encoding_problem(request: HttpRequest) -> Problem | None:
    if request.headers.get("Content-Encoding", "identity").lower() == "identity":
        return None
    return Problem(415, "Send the body without Content-Encoding. A file in a form may be gzipped itself.")


def form_problem(request: HttpRequest, files: set[str], texts: set[str]) -> Problem | None:
    try:
        return refusal("form", request.POST, texts) or refusal("file", request.FILES, files)
    except MultiPartParserError as error:
        message = f"The form could not be read: {str(error)[:200].rstrip('.')}."
        return Problem(400, message, code="malformed_body")


def refusal(place: str, sent: Any, known: set[str]) -> Problem | None:
    """The problem of unknown fields. `place` is where they were: `query`, `form` for a text, `file` for a file."""
    unknown = sorted(set(sent) - known)
    if not unknown:
        return repetition(place, sent)
    takes = f"It takes {', '.join(sorted(known))}." if known else "It takes none."
    if place == "form" and not known:
        takes = "Only files are taken (curl: -F name=@file)."
    errors = [
        FieldError(loc=[place, ascii(name[:100])[1:-1]], message="Not known here", code="unknown")
        for name in unknown[:ERRORS_SHOWN]
    ]
    return Problem(422, f"{place}.{errors[0].loc[1]}: this operation knows no such field. {takes}", errors=errors)


def repetition(place: str, sent: Any) -> Problem | None:
    """The problem of a parameter given twice: no operation takes a list, so one value would be left out."""
    twice = sorted(name for name in sent if len(sent.getlist(name)) > 1)
    if not twice:
        return None
    errors = [FieldError(loc=[place, name], message="Given more than once", code="repeated") for name in twice]
    return Problem(422, f"{place}.{twice[0]}: given more than once; one value is taken.", errors=errors)
