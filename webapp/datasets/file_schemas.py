"""Schemas of uploaded files, in OpenAI's shapes."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Literal

from ninja import Schema

from webapp.common.rest.openai_lists import to_unix_seconds
from webapp.common.rest.types import Json
from webapp.datasets.file_uploads import format_first_problem
from webapp.datasets.models import StoredFile
from webapp.datasets.queries import MadeFile


class FileOut(Schema):
    """OpenAI's `file`. `kind`, `bad_lines` and `report` are Envarium's: lines, rows, problems by line, and the numbers
    of lines `left_out`; bytes and hash of the report are of what came, those of the file of what is kept."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    filename: str
    purpose: str
    status: str
    status_details: str | None
    kind: str
    bad_lines: Literal["refuse", "leave_out"]
    sha256: str
    report: Json


class FileList(Schema):
    object: Literal["list"]
    data: list[FileOut]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileDeleted(Schema):
    id: str
    object: Literal["file"]
    deleted: bool


def serialize_made_file(file: MadeFile) -> dict[str, Any]:
    """Return a file that an app makes, as `FileOut` takes it."""
    return {
        "id": file.id,
        "object": "file",
        "bytes": len(file.content),
        "created_at": to_unix_seconds(file.created_at),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
        "kind": "",
        "bad_lines": "refuse",
        "sha256": sha256(file.content).hexdigest(),
        "report": {},
    }


def serialize_file(row: StoredFile) -> dict[str, Any]:
    """Return a row as `FileOut` takes it."""
    return {
        "id": row.public_id,
        "object": "file",
        "bytes": row.bytes,
        "created_at": to_unix_seconds(row.created_at),
        "filename": row.filename,
        "purpose": row.purpose,
        "status": row.state,
        "status_details": format_first_problem(row.report) if row.state == "error" else None,
        "kind": row.kind,
        "bad_lines": "leave_out" if row.leave_out else "refuse",
        "sha256": row.sha256,
        "report": row.report,
    }
