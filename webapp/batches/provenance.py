"""What an item was made with: batch, theme, prompts by hash, models by role, calls, cost, seeds."""

from __future__ import annotations

import functools
from typing import Any

from synthesis import prompts
from webapp.batches.models import BatchItem
from webapp.batches.spec import BatchSettings

USED = ("requests", "replayed", "cost", "seconds")


def provenance(item: BatchItem, settings: BatchSettings, models: dict[str, str]) -> dict[str, Any]:
    """For the item's own stages; what lies above it has its own."""
    runs = list(item.runs.values("stage", *USED))
    return {
        "batch": item.batch_id,
        "item": item.pk,
        "theme": item.path.partition("/")[0],
        "path": item.path,
        "seed": settings.seed,
        "models": models,
        "prompts": prompt_hashes(),
        "stages": {run["stage"]: {name: run[name] for name in USED} for run in runs},
        "calls": sum(run["requests"] + run["replayed"] for run in runs),
        "cost": sum(run["cost"] for run in runs),
    }


@functools.cache
def prompt_hashes() -> dict[str, str]:
    """Every prompt of this installation by name, with the SHA-256 of its file."""
    files = sorted(prompts.HERE.glob("*/*.md"))
    return prompts.hashes(*(prompts.prompt(file.parent.name, file.stem) for file in files))
