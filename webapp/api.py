"""`/api/v1`: the NinjaAPI that mounts each app's router. How to add one is in CONTRIBUTING.md."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI, Router
from ninja.constants import NOT_SET
from ninja.errors import ValidationError, ValidationErrorContext
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from webapp.batches.api import router as batches
from webapp.batches.yields.api import router as batch_yields
from webapp.common.rest import etags, problems
from webapp.common.rest.auth import Needs, require_scope
from webapp.common.rest.strict import make_strict
from webapp.common.rest.types import BodyParser
from webapp.datasets.api import router as datasets
from webapp.datasets.export.api import router as dataset_exports
from webapp.datasets.file_api import router as files
from webapp.edits.api import router as edits
from webapp.edits.beside.api import router as beside_human_work
from webapp.endpoints.api import router as endpoints
from webapp.environments.api import router as environments
from webapp.environments.assessment_api import router as assessments
from webapp.environments.tool_graph.api import router as tool_edges
from webapp.jobs.api import router as jobs
from webapp.labelling.api import router as labelling
from webapp.labelling.results.agreement_api import router as agreement
from webapp.pages.statistics.ecosystem_api import router as ecosystem
from webapp.review.rest.decision_api import router as decisions
from webapp.review.rest.hold_api import router as holds
from webapp.review.rest.queue_api import router as review_queues
from webapp.review.rest.remark_api import router as remarks
from webapp.runs.alerts.api import router as alerts
from webapp.runs.api import router as fine_tuning
from webapp.runs.comparison.api import router as job_comparison
from webapp.runs.curves.api import router as curve_files
from webapp.runs.evaluations.api import router as evaluations
from webapp.runs.local.api import router as demo
from webapp.scenarios.api import router as scenarios
from webapp.scenarios.audits.api import router as audits
from webapp.scenarios.frames.api import router as frames
from webapp.scenarios.golden.api import router as golden
from webapp.taxonomy.api import router as taxonomy
from webapp.taxonomy.changes.api import router as tree_changes
from webapp.taxonomy.near_duplicates.api import router as near_duplicates
from webapp.trajectories.api import router as trajectories
from webapp.trajectories.export.api import router as training
from webapp.trajectories.forks.api import router as forks
from webapp.trajectories.rollouts.api import router as rollouts
from webapp.trajectories.side_by_side.api import router as side_by_side
from webapp.workers.api import router as workers
from webapp.workers.serving.api import router as served_models
from webapp.workers.serving.worker_api import router as serving_workers

ROUTERS: list[tuple[str, Router]] = [
    ("", endpoints),
    ("", taxonomy),
    ("", near_duplicates),
    ("", tree_changes),
    ("", environments),
    ("", assessments),
    ("", tool_edges),
    ("", scenarios),
    ("", audits),
    ("", frames),
    ("", golden),
    ("", training),
    ("", forks),
    ("", side_by_side),  # /trajectories/compare, before /trajectories/{pk}
    ("", trajectories),
    ("", rollouts),
    ("", review_queues),
    ("", holds),
    ("", remarks),
    ("", decisions),  # /review/{kind}/{pk}, after what has a name in the place of the kind
    ("", agreement),
    ("", labelling),
    ("", edits),
    ("", beside_human_work),
    ("", batches),
    ("", batch_yields),
    ("", files),
    ("", datasets),
    ("", dataset_exports),
    ("", fine_tuning),
    ("", curve_files),
    ("", evaluations),
    ("", alerts),
    ("", job_comparison),
    ("", demo),
    ("", workers),
    ("", serving_workers),
    ("", served_models),
    ("", ecosystem),
    ("", jobs),
]
SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API token: `envr_<prefix>_<secret>`."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": settings.SESSION_COOKIE_NAME,
        "description": "A signed-in browser; writes also need the header X-CSRFToken.",
    },
}
PATH_PARAMETERS = {
    "pk": "The id of the object.",
    "kind": "What it is: task, tool or trajectory.",
    "job": "The id of the job.",
    "number": "The first is 1.",
    "index": "The first is 0.",
    "worker": "The id of the worker.",
    "checkpoint": "The id of the checkpoint.",
    "export": "The id of the export.",
    "step": "The trainer's step.",
}
PUBLIC_IDS = {
    "dataset": "ds-3f1c0a9be2d44c7718a6b5f0",
    "export": "dsx-3f1c0a9be2d44c7718a6b5f0",
    "file": "file-3f1c0a9be2d44c7718a6b5f0",
    "group": "3f1c0a9b-e2d4-4c77-98a6-b5f00a1b2c3d",
    "job": "ftjob-3f1c0a9be2d44c7718a6b5f0",
    "worker": "wk-3f1c0a9be2d44c7718a6b5f0",
    "checkpoint": "ftckpt-3f1c0a9be2d44c7718a6b5f0",
    "deployment": "dep-3f1c0a9be2d44c7718a6b5f0",
    "question": "3f1c0a9be2d44c7718a6b5f0",
}
"""Path parameters that are public ids if they are text, each with an example."""


class Api(NinjaAPI):
    """Ninja with entity tags on its answers, and a schema that names scopes and problems."""

    def validation_error_from_error_contexts(self, error_contexts: list[ValidationErrorContext]) -> ValidationError:
        """Return the faults of a request, each in its place; very many are counted, but never built."""
        counted = sum(context.pydantic_validation_error.error_count() for context in error_contexts)
        if counted <= problems.ERRORS_BUILT:
            return super().validation_error_from_error_contexts(error_contexts)
        return problems.build_too_many_faults(error_contexts[0].model, counted)

    def create_response(self, request: HttpRequest, data: Any, **how: Any) -> HttpResponse:
        response = super().create_response(request, data, **how)
        return etags.add_etag(request, response) if response.status_code == 200 else response

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(self, **how: Any) -> OpenAPISchema:
        """Return Ninja's OpenAPI 3.1 with scopes, and a problem as every operation's default answer."""
        schema = super().get_openapi_schema(**how)
        problem = problems.ProblemOut.model_json_schema(ref_template="#/components/schemas/{model}")
        schema["components"]["schemas"] |= {**problem.pop("$defs"), "Problem": problem}
        for component in schema["components"]["schemas"].values():
            drop_object_defaults(component)
        schema["components"]["securitySchemes"] = SECURITY
        content = {problems.CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        scopes = {self.get_openapi_operation_id(operation): find_scope(operation) for operation in list_operations()}
        for methods in schema["paths"].values():
            methods.pop("head", None)
            for details in methods.values():
                for parameter in details["parameters"]:
                    describe_parameter(parameter)
                for part in list_file_schemas(details):
                    drop_null(part)
                details["responses"]["default"] = {"description": "A problem (RFC 9457)", "content": content}
                scope = scopes[details["operationId"]]
                details["x-scope"] = scope
                details["security"] = [] if scope == "public" else [{name: []} for name in SECURITY]
        return schema


api = Api(
    title="Envarium",
    version="1",
    description=(
        "Environments, tasks and trajectories of this installation, and the jobs that make them.\n\n"
        "Every write of review takes `If-Match`, and answers 412 if the object changed since it was read. A write over "
        "what others may have written needs it (428 without): a queue's settings, opening and closing it, giving an "
        "item to a person or taking it over, sending it on, a decision and its undoing, a draft, an edit, a frame. It "
        "may be left out where a write only appends or is bound to the caller's own hold: remarks, heartbeats, skip "
        "and unskip, give back, the next item. A bulk decision names in its body how each task was seen."
    ),
    urls_namespace="api",
    openapi_url=None,
    docs_url=None,
    parser=BodyParser(),
)
problems.install_handlers(api)
for prefix, router in ROUTERS:
    api.add_router(prefix, router)


@api.get("/openapi.json", auth=require_scope("public"), include_in_schema=False)
def openapi(request: HttpRequest) -> Any:
    """This API as OpenAPI 3.1."""
    return load_schema()


@lru_cache(maxsize=1)
def load_schema() -> OpenAPISchema:
    """Return the schema, made once a process: operations do not change while it runs."""
    return api.get_openapi_schema()


def describe_parameter(parameter: dict[str, Any]) -> None:
    """Describe a parameter as OpenAPI does: the meaning of one in the path, and one example instead of the list that
    Ninja writes for JSON Schema."""
    name = parameter["name"]
    examples = parameter.pop("examples", [])
    if examples:
        parameter["example"] = examples[0]
    if parameter["in"] == "path" and name in PUBLIC_IDS and parameter["schema"].get("type") == "string":
        parameter |= {"description": f"The id of the {name}.", "example": PUBLIC_IDS[name]}
    elif parameter["in"] == "path" and name == "path":
        parameter |= {"description": "The file, as it is listed.", "example": "model.safetensors"}
    elif parameter["in"] == "path" and name == "role":
        parameter |= {"description": "What the model is to be: the user, or the judge.", "example": "user"}
    elif parameter["in"] == "path":
        parameter |= {"description": PATH_PARAMETERS[name], "example": 1}
    drop_null(parameter["schema"])


def list_file_schemas(operation: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the schemas of the files that an operation takes."""
    form = operation.get("requestBody", {}).get("content", {}).get("multipart/form-data", {})
    return list(form.get("schema", {}).get("properties", {}).values())


def drop_null(schema: dict[str, Any]) -> None:
    """Remove null from a schema: an optional parameter of an address or a form cannot be sent as null."""
    kinds = [kind for kind in schema.get("anyOf", []) if kind.get("type") != "null"]
    if len(kinds) == 1:
        del schema["anyOf"]
        schema.update(kinds[0])


def drop_object_defaults(schema: dict[str, Any]) -> None:
    """Drop defaults that are objects: their own fields have the same defaults, and client generators accept none."""
    for field in schema.get("properties", {}).values():
        if isinstance(field.get("default"), dict):
            del field["default"]


def list_operations() -> list[Operation]:
    """Return every operation that is mounted."""
    mounted = []
    for bound in api._get_bound_routers():
        for view in bound.path_operations.values():
            mounted += view.operations
    return mounted


def find_scope(operation: Operation) -> str | None:
    """Return the access rule of an operation; None if it has none, which the route test refuses."""
    rules = [callback.scope for callback in operation.auth_callbacks if isinstance(callback, Needs)]
    return rules[0] if len(rules) == 1 == len(operation.auth_callbacks) else None


def complete_operation(operation: Operation) -> None:
    """Complete an operation: HEAD answers what GET answers as JSON; all are strict."""
    if operation.methods == ["GET"] and operation.response_models.get(200, NOT_SET) is not NOT_SET:
        operation.methods.append("HEAD")
    make_strict(operation)


for operation in list_operations():
    complete_operation(operation)
