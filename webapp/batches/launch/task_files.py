"""Uploaded file of a task set: read within bounds, and kept while its form comes back to a person.

A browser never sends a chosen file twice by itself; what is kept here is named in the form by a signed text that only
the same person can use, for a day.
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
from synthesis.parser import ReadLimits, read_apart

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


def taken(file: UploadedFile) -> TaskFile:
    """The text of an uploaded file. Raises InputError where it is empty or too large."""
    name = str(file.name or "tasks").replace("\\", "/").rsplit("/", 1)[-1][:200]
    if not file.size:
        raise InputError(f"{name}: the file is empty.")
    if file.size > MOST_BYTES:
        raise InputError(f"{name}: larger than {MOST_BYTES >> 20} MiB; split it.")
    return TaskFile(name, file.read())


def tasks_of(file: TaskFile) -> list[TaskLine]:
    """The tasks of a task set, read by another process. Raises InputError with what to do."""
    packed = ReadLimits(small_bytes=0) if file.content.startswith(GZIP) else ReadLimits()
    asked = {"name": file.name, "most_bytes": MOST_BYTES}
    return [TaskLine(*told) for told in read_apart(READ, io.BytesIO(file.content), asked, packed)]


def keep(user: Any, file: TaskFile) -> str:
    """Put the file aside; the text names it."""
    _sweep()
    stored = default_storage.save(f"{FOLDER}/{uuid.uuid4().hex}", ContentFile(file.content))
    return signing.dumps([user.pk, stored, file.name], salt=SALT)


def find(user: Any, named: str) -> TaskFile:
    """A file that was put aside. Raises InputError where it is gone or another person's."""
    try:
        owner, stored, name = signing.loads(named, salt=SALT, max_age=KEPT_FOR)
        if owner != user.pk:
            raise signing.BadSignature
        with default_storage.open(stored, "rb") as stream:
            return TaskFile(name, stream.read())
    except (signing.BadSignature, ValueError, FileNotFoundError):
        raise InputError("The uploaded file is no longer here; choose it again.") from None


def _sweep() -> None:
    """Remove what nobody came back for."""
    names = default_storage.listdir(FOLDER)[1] if default_storage.exists(FOLDER) else []
    for name in names:
        path = f"{FOLDER}/{name}"
        if timezone.now() - default_storage.get_modified_time(path) > KEPT_FOR:
            default_storage.delete(path)
