"""Candidates for a training job: workers that could be given one now.

An app that brings workers registers a source when it is ready (`AppConfig.ready`); nothing here knows their rows.
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
    """A worker that a job could be given to, or (without a `worker` id) one that this site starts when a job waits.

    `devices` are its GPUs' memory and `main_memory` the computer's that it may use, in MiB (0: not told), `store` is
    where it keeps shards of checkpoints (empty: not told), `since` when it first came, `software` the names of its
    packages (None: not told). One `beside` stands beside the site; the one that the site would start is not counted
    while it runs.
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
        return engine in self.engines and loads(self.models, model)


Source = Callable[[], list[Candidate]]
SOURCES: dict[str, Source] = {}
"""Sources by name, asked in the order in which they were registered."""


AWAY: dict[str, Source] = {}
"""Sources of workers that were here a short time ago, and may come back: what they said of themselves then."""


def register(name: str, source: Source, away: Source | None = None) -> None:
    """Add a source of candidates. Under a name that is known it takes the place of the one before."""
    SOURCES[name] = source
    if away is not None:
        AWAY[name] = away


def away_candidates() -> list[Candidate]:
    """Workers that could come back: that none here can take a job is no proof that none ever will."""
    return [candidate for source in AWAY.values() for candidate in source()]


def candidates() -> list[Candidate]:
    """All candidates of every source."""
    everyone = [candidate for source in SOURCES.values() for candidate in source()]
    running = any(candidate.beside and candidate.worker for candidate in everyone)
    return [candidate for candidate in everyone if candidate.worker or not running]


def loads(names: Iterable[str], model: str) -> bool:
    """Whether a worker that lists these names can begin with this model, or at least look for it."""
    if model in (DEMO_MODEL, AFTER) or model.startswith(("ft:", ENDPOINT)):
        return True
    return model in names or (ANY_MODEL in names and "/" in model and is_model_name(model))


def in_words(names: Sequence[str]) -> str:
    """Names of workers in a sentence: the first few, and how many more there are."""
    more = len(names) - NAMED
    return ", ".join(name[:60] for name in names[:NAMED]) + (f" and {more} more" if more > 0 else "")
