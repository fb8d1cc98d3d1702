"""Refusals that a training worker has to tell apart, with the code of each."""

from __future__ import annotations

from typing import ClassVar

from webapp.claims import StaleClaim
from webapp.errors import Conflict, NotFound, QuotaExceeded, Refusal, Unusable


class RecordGap(Conflict):
    """Records before those that were sent are missing."""

    code = "gap"
    meaning: ClassVar[str] = "Records are missing before these: send from `next_seq` on."

    def __init__(self, sent: int, expected: int) -> None:
        message = f"Record {sent} came where {expected} has to follow. Send from {expected} on."
        super().__init__(message, facts={"next_seq": expected})


class WrongOffset(Conflict):
    """A piece of a file that does not follow what is here."""

    code = "wrong_offset"
    meaning: ClassVar[str] = "Of this file `received` bytes are here: send what follows them."

    def __init__(self, path: str, received: int) -> None:
        message = f"{path}: {received:,} bytes are here; send what follows them."
        super().__init__(message, facts={"received": received})


class IncompleteCheckpoint(Conflict):
    """A checkpoint whose files are not whole yet."""

    code = "incomplete"
    meaning: ClassVar[str] = "Pieces of the checkpoint's files are missing: `files` says which."


class TooManyUploads(QuotaExceeded):
    """More checkpoints that are announced and not whole than an attempt may have."""

    code = "too_many_uploads"
    meaning: ClassVar[str] = "Checkpoints that were announced are not whole yet: send the rest of one first."


class NoFinalModel(Conflict):
    """An attempt that ended as done without its final model."""

    code = "no_model"
    meaning: ClassVar[str] = "The attempt is done, but its final model was not uploaded."


class TooManyKeys(Unusable):
    """More names of numbers than a training job may have."""

    code = "too_many_keys"
    meaning: ClassVar[str] = "A training job has more names of numbers than are kept."


class WrongHash(Unusable):
    """Bytes with another hash than was announced."""

    code = "wrong_hash"
    meaning: ClassVar[str] = "What was received has another SHA-256 than was announced: send it again."


class UnknownWorker(NotFound):
    """A worker without a row here."""

    code = "unknown_worker"
    meaning: ClassVar[str] = "The worker is not known here: register it again."


class NoRoleModel(Conflict):
    """A training job that names no model to play the user, or to judge."""

    code = "no_role_model"
    meaning: ClassVar[str] = "The training job names no model that plays this role."


class UnreadableQuestion(Unusable):
    """A question to the judge that is not made of a user's and an assistant's texts."""

    code = "unreadable_question"
    meaning: ClassVar[str] = "A judge is asked with messages of a user and an assistant, each a text."


class CallsUsedUp(QuotaExceeded):
    """A training job that has made all requests to LLMs that it is allowed."""

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
