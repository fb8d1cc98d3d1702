"""Provenance of a product: batch, theme, prompts by hash, models by role, calls, cost, seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synthesis.drafts import AssembledProgram, AssessmentDraft
from synthesis.formats.values import clean_text
from synthesis.themes.keys import get_theme_key
from synthesis.verifiers.audit_report import AuditedTask
from webapp.batches.models import BatchItem
from webapp.batches.spec import BatchSettings

MOST_NOTES = 40
NOTE_CHARS = 1_000
USED = ("requests", "replayed", "cost", "unpriced", "seconds")


def build_provenance(item: BatchItem, settings: BatchSettings, models: dict[str, str]) -> dict[str, Any]:
    """Return the provenance of the item's own stages; products above it have their own.

    `requests` were sent by this batch, `replayed` replies were stored before; `calls` counts both. `seed` is the
    batch's, `seeds` are those that stages drew from it.
    """
    runs = list(item.runs.order_by("id").values("stage", "used", *USED))
    roles = {role for run in runs for role in run["used"].get("roles", ())}
    sums = {name: sum(run[name] for run in runs) for name in USED if name != "seconds"}
    return {
        "batch": item.batch_id,
        "item": item.pk,
        "theme": get_theme_key(item.path),
        "path": item.path,
        "seed": settings.seed,
        "seeds": _merge_used(runs, "seeds"),
        "models": {role: name for role, name in models.items() if role in roles},
        "prompts": _merge_used(runs, "prompts"),
        "stages": {run["stage"]: {name: run[name] for name in USED} for run in runs},
        "calls": sums["requests"] + sums["replayed"],
        **sums,
    }


def collect_notes(drafts: Mapping[str, Any]) -> list[str]:
    """Return notes for people on a kept product: faults of a program before its repair, gaps of its assessment and
    tools repaired for it, and why no solver solved a task."""
    texts: list[str] = []
    for draft in drafts.values():
        if isinstance(draft, AssembledProgram) and draft.invalid_before_repair:
            texts += [f"Repaired before it was kept: {fault}" for fault in draft.invalid_before_repair]
        elif isinstance(draft, AssessmentDraft):
            texts += draft.notes
        elif isinstance(draft, AuditedTask):
            texts += draft.task.notes
    more = [f"… and {len(texts) - MOST_NOTES:,} more."] if len(texts) > MOST_NOTES else []
    return [clean_text(note)[:NOTE_CHARS] for note in texts[:MOST_NOTES]] + more


def _merge_used(runs: list[dict[str, Any]], name: str) -> dict[str, Any]:
    merged = {key: value for run in runs for key, value in run["used"].get(name, {}).items()}
    return dict(sorted(merged.items()))
