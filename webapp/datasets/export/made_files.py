"""Files of the API that nobody uploaded: an app makes them of its rows each time they are asked for.

An app that has such files registers a source when it is ready (`AppConfig.ready`); nothing here knows its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class MadeFile:
    """A file as OpenAI's `file` has it, with its content."""

    id: str
    filename: str
    purpose: str
    created_at: datetime
    media_type: str
    content: bytes


Source = Callable[[str], MadeFile | None]
SOURCES: dict[str, Source] = {}
"""Sources by how the ids of their files begin."""


def register(prefix: str, source: Source) -> None:
    """Add a source of the files whose id begins so."""
    SOURCES[prefix] = source


def find_made_file(public_id: str) -> MadeFile | None:
    """The file of this id; None if no source has it."""
    source = next((source for prefix, source in SOURCES.items() if public_id.startswith(prefix)), None)
    return source(public_id) if source is not None else None
