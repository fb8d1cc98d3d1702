"""Errors of the domain: why a request is refused, in terms that do not depend on HTTP.

`webapp.common.error_responses` alone maps errors to statuses, for the API and for pages. An InputError that is none of
these is a request that cannot be used; an InfrastructureError is a fault of this site or of a service it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from synthesis.errors import EnvariumError, InputError, LLMError


def iter_error_origins(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, then its causes, the nearest first; each once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


class Refusal(InputError):
    """A request that is refused for a reason of its own.

    `code` names the reason for programs ("" means that of its kind); `facts` are data that a client continues with.
    """

    code: str = ""
    meaning: ClassVar[str] = ""
    """What the code means, in the reference of the API."""

    def __init__(self, message: str, *, code: str = "", facts: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code or self.code
        self.facts = facts or {}


class NotFound(Refusal):
    """There is no such object, or it is gone."""


class TextTooLong(Refusal):
    """A text of a form is longer than the limit for storing or searching. It is refused whole, and never cut."""

    def __init__(self, name: str, count: int, most: int, left: str = "Nothing was stored.") -> None:
        words = f"This text has {count:,} characters, and {most:,} are allowed. Shorten it by {count - most:,}."
        super().__init__(f"{words} {left}", facts={"name": name, "count": count, "most": most})


class Conflict(Refusal):
    """The object is not in a state in which that can be done."""


class ChangedMeanwhile(Refusal):
    """The object has changed since the user read it."""


class TooLarge(Refusal):
    """The request is larger than the limit."""


class Unusable(Refusal):
    """The request was understood, but cannot be used."""


class QuotaExceeded(Refusal):
    """A quota is used up."""


class RangeNotSatisfiable(Refusal):
    """The bytes asked for are not in a file of `size` bytes."""

    code = "bad_range"

    def __init__(self, size: int) -> None:
        super().__init__(f"The file has {size:,} bytes; Range names one part of it, such as bytes=0-1048575.")
        self.size = size


@dataclass(frozen=True)
class FieldFault:
    """An error of one field. `place` leads to it: the part of the request (`body`, `query`), then names and
    positions."""

    place: tuple[str | int, ...]
    message: str
    code: str


class RefusedFields(Refusal):
    """Fields of a request that cannot be used, each with its place."""

    def __init__(self, message: str, faults: Sequence[FieldFault], *, code: str = "") -> None:
        super().__init__(message, code=code)
        self.faults = tuple(faults)


class UpstreamError(EnvariumError):
    """A server that a request was passed on to gave no usable reply. `reason` is one of LLMError's."""

    def __init__(self, reason: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.retry_after = retry_after

    @classmethod
    def of(cls, error: LLMError) -> UpstreamError:
        """Return the failure of a request to an LLM."""
        return cls(error.reason, str(error), retry_after=error.retry_after)
