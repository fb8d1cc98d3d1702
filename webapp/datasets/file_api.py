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

from webapp.datasets import file_uploads, queries
from webapp.datasets.file_schemas import FileDeleted, FileList, FileOut, file_out, made_file_out
from webapp.datasets.models import StoredFile
from webapp.errors import Conflict
from webapp.rest.auth import needs, person
from webapp.rest.idempotency import idempotent
from webapp.rest.openai_lists import A_PAGE, After, PublicId, no_such_place
from webapp.rest.problems import FieldError, Problem
from webapp.rest.types import ShortText, file_of

router = Router(tags=["training"])
BLOCK = 1 << 20
CONTENT = file_of("application/jsonl", "The file as it is kept")
CONTENT["responses"][200]["content"] |= file_of("text/csv", "")["responses"][200]["content"]


class FilesQuery(Schema):
    after: After = ""
    limit: Annotated[int, Field(ge=1, le=1_000, description=A_PAGE)] = 100
    order: Annotated[Literal["asc", "desc"], Field(description="`desc`: the newest first.")] = "desc"
    purpose: Annotated[
        ShortText, Field(description="Only files of this purpose: `fine-tune` or `fine-tune-results`.")
    ] = ""


def find(file: str) -> StoredFile:
    row = queries.files().filter(public_id=file).first()
    if row is None:
        raise Problem(404, f"There is no file {file[:60]!r}. GET /files lists them.")
    return row


@router.post("/files", auth=needs("train"), response=FileOut)
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
        Form(description="`leave_out`: lines with problems are left out and told in the report; the rest is kept."),
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
        return file_out(file_uploads.store_file(person(request), file, kind, bad_lines == "leave_out"))
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


@router.get("/files", auth=needs("read"), response=FileList)
def list_files(request: HttpRequest, query: Query[FilesQuery]) -> Any:
    """Uploaded files and the result files of training jobs that ended, newest first unless `order` is `asc`."""
    try:
        files, more = queries.page_of_files(query.purpose, query.after, query.limit, newest=query.order == "desc")
    except StoredFile.DoesNotExist as error:
        raise no_such_place(query.after) from error
    listed = [made_file_out(file) if isinstance(file, queries.MadeFile) else file_out(file) for file in files]
    return {
        "object": "list",
        "data": listed,
        "first_id": listed[0]["id"] if listed else None,
        "last_id": listed[-1]["id"] if listed else None,
        "has_more": more,
    }


@router.get("/files/{file}", auth=needs("read"), response=FileOut)
def get_file(request: HttpRequest, file: PublicId) -> Any:
    """One file with the report of its check, or the file of a training job's results."""
    made = queries.find_made_file(file)
    return made_file_out(made) if made is not None else file_out(find(file))


@router.delete("/files/{file}", auth=needs("train"), response=FileDeleted)
def delete_file(request: HttpRequest, file: PublicId) -> Any:
    """Delete a file that no dataset was made of. A training job's results stay: 409."""
    source = queries.source_of(file)
    if source is not None and source.find(file) is not None:
        raise Conflict(f"The file {file} cannot be deleted: {source.why_kept}")
    row = find(file)
    file_uploads.delete_file(person(request), row)
    return {"id": row.public_id, "object": "file", "deleted": True}


@router.get("/files/{file}/content", auth=needs("read"), openapi_extra=CONTENT)
def get_file_content(request: HttpRequest, file: PublicId) -> HttpResponseBase:
    """The file as it was uploaded; without the lines that were left out of it. A training job's results are CSV."""
    made = queries.find_made_file(file)
    if made is not None:
        told = HttpResponse(made.content, content_type=f"{made.media_type}; charset=utf-8")
        told["Content-Disposition"] = f'attachment; filename="{made.id}.csv"'
        told["X-Content-Type-Options"] = "nosniff"
        return told
    row = find(file)
    try:
        opened = default_storage.open(row.stored, "rb")
    except OSError as error:
        raise Problem(404, f"The content of {row.public_id} is no longer here; upload the file again.") from error

    async def blocks() -> AsyncIterator[bytes]:
        with opened:
            while block := await sync_to_async(opened.read)(BLOCK):
                yield block

    answer = StreamingHttpResponse(blocks(), content_type="application/jsonl")
    # The name is the server's own: what the uploader called it stands in the file's `filename`.
    answer["Content-Disposition"] = f'attachment; filename="{row.public_id}.jsonl"'
    answer["Content-Length"] = str(row.bytes)
    answer["X-Content-Type-Options"] = "nosniff"
    return answer
