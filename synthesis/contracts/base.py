"""Base of all contracts: frozen models, encoded states, patches, findings."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

State = dict[str, Any]
Patch = list[dict[str, Any]]
"""RFC 6902 operations, `add`, `remove` and `replace` only."""
Severity = Literal["info", "warning", "fatal"]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(Frozen):
    """Defect that is shown, not hidden. `place` is a path that users can follow (`tools.book_slot`)."""

    kind: str
    severity: Severity = "warning"
    place: str = ""
    message: str
    data: dict[str, Any] = Field(default_factory=dict)
