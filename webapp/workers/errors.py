"""Refusals that a training worker has to distinguish, with the code of each."""

from __future__ import annotations

from typing import ClassVar

from webapp.common.claims import StaleClaim
from webapp.common.errors import Conflict, NotFound, QuotaExceeded, Refusal, Unusable


class RecordGap(Conflict):
    """Gap before the records that were sent."""

    code = "gap"
    meaning: ClassVar[str] = "Records are missing before these: send from `next_seq` on."

    def __init__(self, sent: int, expected: int) -> None:
        message = f"Record {sent} came where {expected} has to follow. Send from {expected} on."
        super().__init__(message, facts={"next_seq": expected})


class WrongOffset(Conflict):
    """Piece of a file that does not follow the bytes received so far."""

    code = "wrong_offset"
    meaning: ClassVar[str] = "Of this file `received` bytes are here: send what follows them."

    def __init__(self, path: str, received: int) -> None:
        message = f"{path}: {received:,} bytes are here; send what follows them."
        super().__init__(message, facts={"received": received})


class IncompleteCheckpoint(Conflict):
    """Checkpoint whose files are not complete yet."""

    code = "incomplete"
    meaning: ClassVar[str] = "Pieces of the checkpoint's files are missing: `files` says which."


class TooManyUploads(QuotaExceeded):
    """More announced and incomplete checkpoints than an attempt may have."""

    code = "too_many_uploads"
    meaning: ClassVar[str] = "Checkpoints that were announced are not whole yet: send the rest of one first."


class NoFinalModel(Conflict):
    """Attempt that ended as done without its final model."""

    code = "no_model"
    meaning: ClassVar[str] = "The attempt is done, but its final model was not uploaded."


class TooManyKeys(Unusable):
    """More names of numbers than a training job may have."""

    code = "too_many_keys"
    meaning: ClassVar[str] = "A training job has more names of numbers than are kept."


class WrongHash(Unusable):
    """Bytes with a hash other than the announced one."""

    code = "wrong_hash"
    meaning: ClassVar[str] = "What was received has another SHA-256 than was announced: send it again."


class UnknownWorker(NotFound):
    """Worker without a row here."""

    code = "unknown_worker"
    meaning: ClassVar[str] = "The worker is not known here: register it again."


class NoRoleModel(Conflict):
    """Training job that names no model to play the user, or to judge."""

    code = "no_role_model"
    meaning: ClassVar[str] = "The training job names no model that plays this role."


class UnreadableQuestion(Unusable):
    """Question to the judge that is not made of a user's and an assistant's texts."""

    code = "unreadable_question"
    meaning: ClassVar[str] = "A judge is asked with messages of a user and an assistant, each a text."


class CallsUsedUp(QuotaExceeded):
    """Training job that has made all requests to LLMs that it is allowed."""

    code = "insufficient_quota"
    meaning: ClassVar[str] = "The training job has used up the requests to LLMs that it is allowed."


KINDS: tuple[type[Refusal] | type[StaleClaim], ...] = (
    StaleClaim,
    RecordGap,
    WrongOffset,
    IncompleteCheckpoint,
    TooManyUploads,
    NoFinalModel,
    TooManyKeys,
    WrongHash,
    UnknownWorker,
    NoRoleModel,
    UnreadableQuestion,
    CallsUsedUp,
)
"""All of them, for the reference of the API."""
