"""Refusal of unknown parameters: with a misspelled filter or file a request would do something else than was meant."""

from __future__ import annotations

from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.http.multipartparser import MultiPartParserError
from ninja.operation import Operation
from ninja.params.models import FileModel, FormModel, QueryModel

from webapp.common.rest.problems import ERRORS_SHOWN, FieldError, Problem, build_response


def list_field_names(operation: Operation, kind: type) -> set[str]:
    models: list[Any] = [model for model in operation.models if issubclass(model, kind)]
    return {name for model in models for name in getattr(model, "__ninja_flatten_map__", model.model_fields)}


def make_strict(operation: Operation) -> None:
    """Make a mounted operation refuse parameters and form parts that it does not know, after its access rule."""
    run, rules = operation.run, operation.auth_callbacks
    parameters, files, texts = (list_field_names(operation, kind) for kind in (QueryModel, FileModel, FormModel))
    deep = list_table_parameters(operation)

    @wraps(run)
    def run_checked(request: HttpRequest, **path: Any) -> HttpResponseBase:
        try:
            for rule in rules:
                rule(request)
        except Problem:
            return run(request, **path)  # answers with the problem
        problem = (
            find_encoding_problem(request)
            or find_field_problem("query", request.GET, parameters | find_table_entries(request.GET, deep))
            or (find_form_problem(request, files, texts) if files else None)
        )
        return build_response(request, problem) if problem else run(request, **path)

    operation.run = run_checked  # type: ignore[method-assign]


def list_table_parameters(operation: Operation) -> set[str]:
    """Return the parameters of the address that are spelled `name[key]=value`, as the operation's schema declares
    them."""
    parameters = (operation.openapi_extra or {}).get("parameters", [])
    return {parameter["name"] for parameter in parameters if parameter.get("style") == "deepObject"}


def find_table_entries(sent: Any, tables: set[str]) -> set[str]:
    """Return the parameters that are entries of a table: `metadata[run]`."""
    return {name for name in sent if name.endswith("]") and name.partition("[")[0] in tables and "[" in name}


def find_encoding_problem(request: HttpRequest) -> Problem | None:
    if request.headers.get("Content-Encoding", "identity").lower() == "identity":
        return None
    return Problem(415, "Send the body without Content-Encoding. A file in a form may be gzipped itself.")


def find_form_problem(request: HttpRequest, files: set[str], texts: set[str]) -> Problem | None:
    try:
        return find_field_problem("form", request.POST, texts) or find_field_problem("file", request.FILES, files)
    except MultiPartParserError as error:
        message = f"The form could not be read: {str(error)[:200].rstrip('.')}."
        return Problem(400, message, code="malformed_body")


def find_field_problem(place: str, sent: Any, known: set[str]) -> Problem | None:
    """Return the problem of unknown fields. `place` is their origin: `query`, `form` for a text, `file` for a file."""
    unknown = sorted(set(sent) - known)
    if not unknown:
        return find_repetition_problem(place, sent)
    takes = f"It takes {', '.join(sorted(known))}." if known else "It takes none."
    if place == "form" and not known:
        takes = "Only files are taken (curl: -F name=@file)."
    errors = [
        FieldError(loc=[place, ascii(name[:100])[1:-1]], message="Not known here", code="unknown")
        for name in unknown[:ERRORS_SHOWN]
    ]
    return Problem(422, f"{place}.{errors[0].loc[1]}: this operation knows no such field. {takes}", errors=errors)


def find_repetition_problem(place: str, sent: Any) -> Problem | None:
    """Return the problem of a parameter given twice: no operation takes a list, so one value would be left out."""
    twice = sorted(name for name in sent if len(sent.getlist(name)) > 1)
    if not twice:
        return None
    errors = [FieldError(loc=[place, name], message="Given more than once", code="repeated") for name in twice]
    return Problem(422, f"{place}.{twice[0]}: given more than once; one value is taken.", errors=errors)
