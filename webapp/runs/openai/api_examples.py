"""Calls of the API for a training form or list: curl, and Python with the `openai` client."""

from __future__ import annotations

from pprint import pformat
from typing import Any

from django.http import HttpRequest

from webapp.common.rest.api_examples import TOKEN, ApiExample, format_curl_call
from webapp.runs.spec import NewJob

SUFFIX = 64
PATH = "/api/v1/fine_tuning/jobs"
STANDARD = ("model", "training_file", "validation_file", "suffix", "seed", "method", "metadata")
"""What `client.fine_tuning.jobs.create` takes by name; the rest goes into `extra_body`."""


def build_body(asked: NewJob) -> dict[str, Any]:
    """Return the body of a request, without fields that have their default."""
    own = {"preset": asked.preset, "changes": asked.changes}
    method = {"type": asked.method, asked.method: {key: value for key, value in own.items() if value}}
    body: dict[str, Any] = {"model": asked.model, "training_file": asked.dataset, "method": method}
    optional = {
        "validation_file": asked.evaluation,
        "suffix": asked.name[:SUFFIX],
        "metadata": dict(asked.metadata),
        "after": asked.after,
        "engine": asked.engine if asked.engine != "transformers" else "",
        "user_model": asked.user_model,
        "judge_model": asked.judge_model,
        "calls_allowed": asked.calls_allowed if asked.calls_allowed != 100_000 else None,
    }
    return body | {key: value for key, value in optional.items() if value not in ("", None, {})}


def build_new_job_call(request: HttpRequest, asked: NewJob) -> ApiExample:
    body = build_body(asked)
    url = request.build_absolute_uri(PATH)
    return ApiExample(
        "POST", url, format_curl_call("POST", url, body, {}), _format_python(request, "create", _format_arguments(body))
    )


def build_list_call(request: HttpRequest) -> ApiExample:
    url = request.build_absolute_uri(PATH)
    lines = ["for job in client.fine_tuning.jobs.list(limit=20):", "    print(job.id, job.status)"]
    return ApiExample(
        "GET", url, format_curl_call("GET", url, None, {}), "\n".join([*_format_client(request), "", *lines])
    )


def _format_client(request: HttpRequest) -> list[str]:
    base = request.build_absolute_uri("/api/v1")
    client_line = f"client = OpenAI(base_url={base!r}, api_key=os.environ[{TOKEN!r}])"
    return ["import os", "", "from openai import OpenAI", "", client_line]


def _format_arguments(body: dict[str, Any]) -> list[str]:
    lines = [f"    {key}={_format_literal(body[key])}," for key in STANDARD if key in body]
    extra = {key: value for key, value in body.items() if key not in STANDARD}
    return [*lines, *([f"    extra_body={_format_literal(extra)},"] if extra else [])]


def _format_literal(value: Any) -> str:
    """Return a Python expression, on several lines if it is long."""
    return pformat(value, width=92, sort_dicts=False).replace("\n", "\n    ")


def _format_python(request: HttpRequest, act: str, arguments: list[str]) -> str:
    lines = [
        *_format_client(request),
        f"job = client.fine_tuning.jobs.{act}(",
        *arguments,
        ")",
        "print(job.id, job.status)",
    ]
    return "\n".join(lines)
