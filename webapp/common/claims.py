"""Claims: a worker's hold of a row under a number. Every write names its claim; one that is over changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar, cast

from django.db.models import Model, QuerySet

from synthesis.errors import EnvariumError

Row = TypeVar("Row", bound=Model)
RUNNING = "running"


class StaleClaim(EnvariumError):
    """The row is held by another worker now; the write of this one is refused."""

    code: ClassVar[str] = "stale_attempt"
    meaning: ClassVar[str] = "This attempt does not hold the training job any more: stop its trainer and claim again."
    """What the code means, in the reference of the API: training jobs are claimed over it, and nothing else is."""


@dataclass(frozen=True)
class Claim(Generic[Row]):
    """The claim `number` of a row of `model`, which counts its claims as `attempt` and whose state says if it runs."""

    row: int
    number: int
    model: ClassVar[type[Model]]

    def held(self) -> QuerySet[Row]:
        """Return the row while this claim holds it, else none: a write through it is refused by itself."""
        rows = self.model._default_manager.filter(pk=self.row, attempt=self.number, state=RUNNING)
        return cast("QuerySet[Row]", rows)

    def require_held(self) -> None:
        """Raise StaleClaim if the claim is over."""
        if not self.held().exists():
            raise self.stale()

    def stale(self) -> StaleClaim:
        return StaleClaim(f"{self}: another worker holds it by now, or none.")

    def __str__(self) -> str:
        return f"Claim {self.number} of {self.model._meta.verbose_name} {self.row}"
