"""API of uploaded files, in OpenAI's shapes: `/files`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal

from asgiref.sync import sync_to_async
from django.core.files.storage import default_storage
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from ninja import File, Form, Query, Router, Schema, UploadedFile
from pydantic import Field

from webapp.common.errors import Conflict
from webapp.common.rest.auth import get_acting_user, require_scope
from webapp.common.rest.idempotency import idempotent
from webapp.common.rest.openai_lists import A_PAGE, After, PublicId, build_unknown_row_problem
from webapp.common.rest.problems import FieldError, Problem
from webapp.common.rest.types import ShortText, describe_file_answer
from webapp.datasets import file_uploads, queries
from webapp.datasets.file_schemas import FileDeleted, FileList, FileOut, serialize_file, serialize_made_file
from webapp.datasets.models import StoredFile

router = Router(tags=["training"])
BLOCK = 1 << 20
CONTENT = describe_file_answer("application/jsonl", "The file as it is kept")
CONTENT["responses"][200]["content"] |= describe_file_answer("text/csv", "")["responses"][200]["content"]


class FilesQuery(Schema):
    after: After = ""
    limit: Annotated[int, Field(ge=1, le=1_000, description=A_PAGE)] = 100
    order: Annotated[Literal["asc", "desc"], Field(description="`desc`: the newest first.")] = "desc"
    purpose: Annotated[
        ShortText, Field(description="Only files of this purpose: `fine-tune` or `fine-tune-results`.")
    ] = ""


def get_file_or_404(file: str) -> StoredFile:
    row = queries.list_uploaded_files().filter(public_id=file).first()
    if row is None:
        raise Problem(404, f"There is no file {file[:60]!r}. GET /files lists them.")
    return row


@router.post("/files", auth=require_scope("train"), response=FileOut)
@idempotent
def upload_file(
    request: HttpRequest,
    file: Annotated[UploadedFile, File(description="JSON Lines: tasks or trajectories.")],
    purpose: Annotated[ShortText, Form(description="`fine-tune`.")],
    kind: Annotated[
        Literal["", "tasks", "trajectories"], Form(description="What its rows are; left out, its first line says it.")
    ] = "",
    bad_lines: Annotated[
        Literal["refuse", "leave_out"],
        Form(description="`leave_out`: lines with problems are left out and listed in the report; the rest is kept."),
    ] = "refuse",
) -> Any:
    """Upload training data, one JSON object a line. It is checked line by line; one with problems is not kept.

    With `bad_lines=leave_out` its good lines are kept, and only their bytes and hash count. A large file is answered
    with the status `uploaded` and checked by a job.
    """
    if purpose != file_uploads.PURPOSE:
        fault = FieldError(loc=["form", "purpose"], message=f"Must be {file_uploads.PURPOSE}", code="unknown")
        raise Problem(422, f"purpose: {fault.message}: files here are training data.", errors=[fault])
    try:
        return serialize_file(file_uploads.store_file(get_acting_user(request), file, kind, bad_lines == "leave_out"))
    except file_uploads.BadFile as error:
        problems = error.report.problems if error.report else ()
        faults = [
            FieldError(
                loc=["file", "file", problem.line, *([problem.place] if problem.place else [])],
                message=problem.message,
                code="line",
            )
            for problem in problems
        ]
        whole = [FieldError(loc=["file", "file"], message=str(error), code="unusable")]
        rows = error.keepable
        way_out = f" Send bad_lines=leave_out to keep its other {rows} row{'s' * (rows > 1)}." if rows else ""
        raise Problem(422, f"{error}{way_out}", errors=faults or whole) from error


@router.get("/files", auth=require_scope("read"), response=FileList)
def list_files(request: HttpRequest, query: Query[FilesQuery]) -> Any:
    """Uploaded files and the result files of training jobs that ended, newest first unless `order` is `asc`."""
    try:
        files, more = queries.list_file_page(query.purpose, query.after, query.limit, newest=query.order == "desc")
    except StoredFile.DoesNotExist as error:
        raise build_unknown_row_problem(query.after) from error
    serialized = [
        serialize_made_file(file) if isinstance(file, queries.MadeFile) else serialize_file(file) for file in files
    ]
    return {
        "object": "list",
        "data": serialized,
        "first_id": serialized[0]["id"] if serialized else None,
        "last_id": serialized[-1]["id"] if serialized else None,
        "has_more": more,
    }


@router.get("/files/{file}", auth=require_scope("read"), response=FileOut)
def get_file(request: HttpRequest, file: PublicId) -> Any:
    """One file with the report of its check, or the file of a training job's results."""
    made = queries.find_made_file(file)
    return serialize_made_file(made) if made is not None else serialize_file(get_file_or_404(file))


@router.delete("/files/{file}", auth=require_scope("train"), response=FileDeleted)
def delete_file(request: HttpRequest, file: PublicId) -> Any:
    """Delete a file that no dataset was made of. A training job's results stay: 409."""
    source = queries.find_file_source(file)
    if source is not None and source.find(file) is not None:
        raise Conflict(f"The file {file} cannot be deleted: {source.why_kept}")
    row = get_file_or_404(file)
    file_uploads.delete_file(get_acting_user(request), row)
    return {"id": row.public_id, "object": "file", "deleted": True}


@router.get("/files/{file}/content", auth=require_scope("read"), openapi_extra=CONTENT)
def get_file_content(request: HttpRequest, file: PublicId) -> HttpResponseBase:
    """The file as it was uploaded; without the lines that were left out of it. A training job's results are CSV."""
    made_file = queries.find_made_file(file)
    if made_file is not None:
        response = HttpResponse(made_file.content, content_type=f"{made_file.media_type}; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="{made_file.id}.csv"'
        response["X-Content-Type-Options"] = "nosniff"
        return response
    row = get_file_or_404(file)
    try:
        opened = default_storage.open(row.stored, "rb")
    except OSError as error:
        raise Problem(404, f"The content of {row.public_id} is no longer here; upload the file again.") from error

    async def read_blocks() -> AsyncIterator[bytes]:
        with opened:
            while block := await sync_to_async(opened.read)(BLOCK):
                yield block

    answer = StreamingHttpResponse(read_blocks(), content_type="application/jsonl")
    # The name is the server's own: the uploader's name of the file is in its `filename`.
    answer["Content-Disposition"] = f'attachment; filename="{row.public_id}.jsonl"'
    answer["Content-Length"] = str(row.bytes)
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
