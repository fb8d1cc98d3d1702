"""Assignment of a job to a worker, and the folder in which it is kept during the attempt."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from synthesis.errors import InfrastructureError
from training.config import EngineKind
from training.metrics import Position

ASSIGNMENT, RECORDS_SENT, FILES_SENT, LOG, LOCK = "assignment.json", "records.json", "files.json", "log.txt", "alive"
REGISTERED = "worker.json"
"""In the worker's home: the id that it had there, and where that was: a copy of the folder is another worker's."""
_NAME = re.compile(r"[A-Za-z0-9._-]{1,120}")
M = TypeVar("M", bound=BaseModel)


def _parse_relative_path(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not 1 <= len(parts) <= 4 or any(not _NAME.fullmatch(part) or part in (".", "..") for part in parts):
        raise ValueError("is no plain relative path")
    return str(PurePosixPath(*parts))


RelativePath = Annotated[str, Field(max_length=300), AfterValidator(_parse_relative_path)]


class ServerMessage(BaseModel):
    """A server's reply: fields of newer servers are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class RemoteFile(ServerMessage):
    path: RelativePath
    bytes: int = Field(ge=0)
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    url: str = Field(max_length=2_000)


class AssignedModel(ServerMessage):
    """Model of an assignment. `demo` is built from the dataset's words, `files` are fetched, `named` is in the worker's
    model folder; the files of an `adapter` are fetched and merged into `base`; `asked` is behind the assignment's
    `policy`.
    """

    name: str = Field(max_length=300)
    kind: Literal["demo", "files", "named", "adapter", "asked"]
    files: tuple[RemoteFile, ...] = Field(default=(), max_length=10_000)
    base: AssignedModel | None = None

    @model_validator(mode="after")
    def _require_adapter_base(self) -> Self:
        if (self.kind == "adapter") != (self.base is not None) or len(self.parts) > 10:
            raise ValueError("adapters have a base, and nothing else has; ten at most")
        return self

    @property
    def parts(self) -> tuple[AssignedModel, ...]:
        """The model itself, then its bases."""
        return (self,) if self.base is None else (self, *self.base.parts)


class AssignedDataset(ServerMessage):
    id: str = Field(max_length=100)
    sha256: str = Field(default="", max_length=64)
    files: tuple[RemoteFile, ...] = Field(min_length=1, max_length=100)


class AssignedCheckpoint(ServerMessage):
    """The last complete checkpoint."""

    step: int = Field(ge=1)
    files: tuple[RemoteFile, ...] = Field(min_length=1, max_length=10_000)


class AssignedRole(ServerMessage):
    """Model that plays the user, judges, or is evaluated, behind the web app; the worker's token is its key."""

    base_url: str = Field(max_length=2_000)
    model: str = Field(max_length=300)


class Assignment(ServerMessage):
    """One attempt at a job. `config` is parsed when the job's file is written; `spent_s` is the time of earlier
    attempts. The server already has the first `reported` reports of an evaluation.
    """

    job: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    attempt: int = Field(ge=1, le=1_000_000)
    config: dict[str, Any]
    model: AssignedModel
    dataset: AssignedDataset
    evaluation: AssignedDataset | None = None
    resume: AssignedCheckpoint | None = None
    engine: EngineKind = "transformers"
    user: AssignedRole | None = None
    judge: AssignedRole | None = None
    policy: AssignedRole | None = None
    reported: int = Field(default=0, ge=0)
    seed: int = 0
    spent_s: float = Field(default=0.0, ge=0, allow_inf_nan=False)

    @property
    def name(self) -> str:
        return f"{self.job}-{self.attempt}"

    @property
    def files(self) -> tuple[RemoteFile, ...]:
        """All files to fetch."""
        more = [part.files for part in (self.evaluation, self.resume) if part is not None]
        models = (file for part in self.model.parts for file in part.files)
        return (*models, *self.dataset.files, *(file for files in more for file in files))


def parse_reply(kind: type[M], reply: object) -> M:
    """Return the server's reply as a message of `kind`. Raises InfrastructureError: it does not fit."""
    try:
        return kind.model_validate(reply)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(map(str, problem["loc"]))
        raise InfrastructureError(
            f"the server's reply cannot be read ({place}: {problem['msg']}); are worker and server of one version?"
        ) from error


def read_assignment(folder: Path) -> Assignment | None:
    """Return the folder's assignment, or None if it cannot be read."""
    try:
        return Assignment.model_validate_json((folder / ASSIGNMENT).read_bytes())
    except (OSError, ValidationError):
        return None


def write_atomically(path: Path, text: str) -> None:
    """Write a small file atomically: completely or not at all."""
    pending = path.with_name(path.name + ".new")
    with pending.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(pending, path)


def read_worker_id(home: Path) -> str:
    """Return the id under which the worker of this folder was registered; empty if it never was."""
    try:
        registered = json.loads((home / REGISTERED).read_bytes())
        known = str(registered["id"])[:48] if registered["home"] == str(home) else ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return known if _NAME.fullmatch(known) else ""


def store_worker_id(home: Path, ident: str) -> None:
    """Store the worker's id. Best effort: without it the worker shows as a new one after a quick restart."""
    with contextlib.suppress(OSError):
        write_atomically(home / REGISTERED, json.dumps({"id": ident, "home": str(home)}))


def read_position(path: Path) -> Position:
    """Return the position up to which was sent, or the beginning if unknown: the server recognises repeated records."""
    try:
        return Position.model_validate(json.loads(path.read_bytes()))
    except (OSError, ValueError):
        return Position()


def store_position(path: Path, position: Position) -> None:
    """Store the position. Best effort: on a full disk records are sent again after a restart."""
    try:
        write_atomically(path, position.model_dump_json())
    except OSError:
        path.with_name(path.name + ".new").unlink(missing_ok=True)
