"""Example calls of the API for a form or list, in shell and Python; the token comes from an environment variable."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from pydantic import BaseModel

TOKEN = "ENVARIUM_TOKEN"
FRESH_KEY = "$(date +%s)-$RANDOM$RANDOM"
"""Another one each time, in bash and zsh: not every machine has `uuidgen`, and without it the header is empty."""


@dataclass(frozen=True)
class ApiExample:
    """An example call, for `parts/copy_as.html`."""

    method: str
    url: str
    curl: str
    python: str


def build_api_call(
    request: HttpRequest,
    method: str,
    name: str,
    *,
    args: tuple[Any, ...] = (),
    query: dict[str, Any] | None = None,
    body: Any = None,
    files: dict[str, str] | None = None,
) -> ApiExample:
    """Return the example call of the operation `api:...` with these values.

    Empty values of `query` are left out; `body` is sent as JSON; `files` maps a field to the name of a local file.
    """
    filled = {key: value for key, value in (query or {}).items() if value not in (None, "")}
    url = request.build_absolute_uri(reverse(name, args=args)) + (f"?{urlencode(filled)}" if filled else "")
    return ApiExample(
        method,
        url,
        format_curl_call(method, url, body, files or {}),
        format_python_call(method, url, body, files or {}),
    )


def build_list_call(request: HttpRequest, name: str, query: type[BaseModel]) -> ApiExample:
    """Return the example call of this page's list: its filters have the names of the operation's parameters."""
    parameters = {key: request.GET.get(key) for key in query.model_fields if key not in ("limit", "cursor")}
    return build_api_call(request, "GET", name, query=parameters)


def format_curl_call(method: str, url: str, body: Any, files: dict[str, str], *, bound: bool = False) -> str:
    """Return a call in the shell; a `bound` one sends `If-Match` with the ETag of the object."""
    lines = [f"curl --fail-with-body {shlex.quote(url)}", f'-H "Authorization: Bearer ${TOKEN}"']
    if method != "GET" and not (body is not None or files):
        lines.insert(1, f"-X {method}")
    if method == "POST":
        lines.append(f'-H "Idempotency-Key: {FRESH_KEY}"')
    if bound:
        lines.append('-H "If-Match: $ETAG"')
    if body is not None:
        if method != "POST":
            lines.insert(1, f"-X {method}")
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body, ensure_ascii=True))}"]
    lines += [f"-F {shlex.quote(f'{field}=@{path}')}" for field, path in files.items()]
    return " \\\n  ".join(lines)


def format_python_call(method: str, url: str, body: Any, files: dict[str, str]) -> str:
    """Return a call in Python with httpx, which uploads files too."""
    lines = ["import os", *(["import uuid"] if method == "POST" else []), "", "import httpx", ""]
    lines.append(f'headers = {{"Authorization": f"Bearer {{os.environ[{TOKEN!r}]}}"}}')
    if method == "POST":
        lines.append('headers["Idempotency-Key"] = str(uuid.uuid4())')
    lines += ["answer = httpx.request(", f"    {method!r},", f"    {url!r},", "    headers=headers,"]
    if body is not None:
        lines.append(f"    json={body!a},")
    if files:
        opened = ", ".join(f"{field!r}: open({path!r}, 'rb')" for field, path in files.items())
        lines.append(f"    files={{{opened}}},")
    lines += [")", "print(answer.text)", "answer.raise_for_status()"]
    return "\n".join(lines)
