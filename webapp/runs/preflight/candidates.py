"""Candidates for a training job: workers that could be given one now.

An app with workers registers a source when it is ready (`AppConfig.ready`); nothing here knows their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from training.job import ANY_MODEL, is_model_name
from webapp.runs.spec import AFTER, DEMO_MODEL, ENDPOINT

NAMED = 3


@dataclass(frozen=True)
class Candidate:
    """Worker that a job could be given to, or (without a `worker` id) one that this site starts when a job waits.

    `devices` are its GPUs' memory and `main_memory` the computer's that it may use, in MiB (0: unknown), `store` is the
    place of its shards of checkpoints (empty: unknown), `since` when it first came, `software` the names of its
    packages (None: unknown). One `beside` runs beside the site; the one that the site would start is not counted while
    it runs.
    """

    name: str
    engines: tuple[str, ...]
    models: frozenset[str]
    worker: str = ""
    devices: tuple[int, ...] = ()
    main_memory: int = 0
    store: str = ""
    since: datetime | None = None
    beside: bool = False
    software: frozenset[str] | None = None

    def can_take(self, model: str, engine: str) -> bool:
        return engine in self.engines and can_load_model(self.models, model)


Source = Callable[[], list[Candidate]]
SOURCES: dict[str, Source] = {}
"""Sources by name, asked in the order in which they were registered."""


AWAY: dict[str, Source] = {}
"""Sources of workers that were here a short time ago, and may come back: what they said of themselves then."""


def register_source(name: str, source: Source, away: Source | None = None) -> None:
    """Add a source of candidates. It replaces a source of the same name."""
    SOURCES[name] = source
    if away is not None:
        AWAY[name] = away


def list_away_candidates() -> list[Candidate]:
    """Return workers that could come back: if no current worker can take a job, one of them still might."""
    return [candidate for source in AWAY.values() for candidate in source()]


def list_candidates() -> list[Candidate]:
    """Return all candidates of every source."""
    all_candidates = [candidate for source in SOURCES.values() for candidate in source()]
    running = any(candidate.beside and candidate.worker for candidate in all_candidates)
    return [candidate for candidate in all_candidates if candidate.worker or not running]


def can_load_model(names: Iterable[str], model: str) -> bool:
    """Return whether a worker that lists these names can begin with this model, or at least look for it."""
    if model in (DEMO_MODEL, AFTER) or model.startswith(("ft:", ENDPOINT)):
        return True
    return model in names or (ANY_MODEL in names and "/" in model and is_model_name(model))


def format_worker_names(names: Sequence[str]) -> str:
    """Format names of workers for a sentence: the first few, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(name[:60] for name in names[:NAMED]) + (f" and {more} more" if more > 0 else "")
