"""Uploaded file of a task set: read within bounds, and kept while its form comes back to a person.

A browser never sends a chosen file again by itself; a kept file is named in the form by a signed text that only the
same person can use, for a day.
"""

from __future__ import annotations

import io
import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core import signing
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import UploadedFile
from django.utils import timezone

from synthesis.errors import InputError
from synthesis.formats.files import GZIP
from synthesis.parser import ReadLimits, read_in_process

FOLDER = "tasksets"
SALT = "batches.tasks"
MOST_BYTES = 32 << 20
"""Packed and unpacked: many times what the longest batch can hold of ordinary tasks."""
READ = "synthesis.formats.tasksets:read_tasks"
KEPT_FOR = timedelta(days=1)


@dataclass(frozen=True)
class TaskFile:
    name: str
    content: bytes


@dataclass(frozen=True)
class TaskLine:
    """One entry of a task set: its text, or the reason why it is no task."""

    place: str
    text: str
    reason: str


def read_upload(file: UploadedFile) -> TaskFile:
    """Return the content of an uploaded file. Raises InputError if it is empty or too large."""
    name = str(file.name or "tasks").replace("\\", "/").rsplit("/", 1)[-1][:200]
    if not file.size:
        raise InputError(f"{name}: the file is empty.")
    if file.size > MOST_BYTES:
        raise InputError(f"{name}: larger than {MOST_BYTES >> 20} MiB; split it.")
    return TaskFile(name, file.read())


def read_task_lines(file: TaskFile) -> list[TaskLine]:
    """Return the tasks of a task set, read by another process. Raises InputError with advice."""
    packed = ReadLimits(small_bytes=0) if file.content.startswith(GZIP) else ReadLimits()
    read_options = {"name": file.name, "most_bytes": MOST_BYTES}
    return [TaskLine(*told) for told in read_in_process(READ, io.BytesIO(file.content), read_options, packed)]


def store_task_file(user: Any, file: TaskFile) -> str:
    """Store the file temporarily; return the signed text that names it."""
    _delete_expired_files()
    stored = default_storage.save(f"{FOLDER}/{uuid.uuid4().hex}", ContentFile(file.content))
    return signing.dumps([user.pk, stored, file.name], salt=SALT)


def load_task_file(user: Any, named: str) -> TaskFile:
    """Return a stored file. Raises InputError if it is gone or another person's."""
    try:
        owner, stored, name = signing.loads(named, salt=SALT, max_age=KEPT_FOR)
        if owner != user.pk:
            raise signing.BadSignature
        with default_storage.open(stored, "rb") as stream:
            return TaskFile(name, stream.read())
    except (signing.BadSignature, ValueError, FileNotFoundError):
        raise InputError("The uploaded file is no longer here; choose it again.") from None


def _delete_expired_files() -> None:
    """Delete files whose time has passed."""
    names = default_storage.listdir(FOLDER)[1] if default_storage.exists(FOLDER) else []
    for name in names:
        path = f"{FOLDER}/{name}"
        if timezone.now() - default_storage.get_modified_time(path) > KEPT_FOR:
            default_storage.delete(path)
