"""What pages say of a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from synthesis.verifiers.frame_words import allowance_line, frame_lines
from webapp.accounts.models import AuditEntry
from webapp.jobs.queries import open_of
from webapp.scenarios.frames.services import KIND, pins_nothing
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import frame_of_revision, reference_of
from webapp.scenarios.verifiers import FRAMED

LINES_SHOWN = 40
SOURCES = {
    "reference": "The reference",
    "author": "The author",
    "run": "Another solved run",
    "person": "A person",
}


@dataclass(frozen=True)
class Widening:
    """One place that somebody allowed besides what the reference changes."""

    line: str
    source: str
    by: str
    reason: str


def frame_context(task: Task, revision: TaskRevision) -> dict[str, Any]:
    """The frame of a revision in words, who widened it and why; or why there is none. Empty for verifiers without."""
    if revision.verifier_kind not in FRAMED:
        return {}
    frame = frame_of_revision(revision)
    context: dict[str, Any] = {"takes_frame": True, "frame": frame, "frame_job": open_of(KIND, f"task:{task.pk}")}
    if frame is None:
        return context | {
            "frame_possible": reference_of(revision) is not None,
            "frame_off": _switched_off(task, revision),
        }
    lines = frame_lines(frame)
    given = [item for item in frame.allowances if item.source != "reference"]
    return context | {
        "frame_lines": lines[:LINES_SHOWN],
        "frame_unpinned": pins_nothing(revision) and reference_of(revision) is not None,
        "frame_more": max(0, len(lines) - LINES_SHOWN),
        "frame_widenings": [
            Widening(allowance_line(item), SOURCES[item.source], item.by, item.reason) for item in given[:LINES_SHOWN]
        ],
        "frame_before": _with_other_frame(task, revision),
    }


def _switched_off(task: Task, revision: TaskRevision) -> AuditEntry | None:
    """Who switched the frame off that this revision is without, and why: itself, or one before it, since when there was
    none."""
    rows = AuditEntry.objects.filter(object_type="task", object_id=str(task.pk), action="task.frame.off")
    row = next((row for row in rows.order_by("-id")[:20] if 0 < row.detail.get("revision", 0) <= revision.number), None)
    if row is None:
        return None
    since = task.revisions.filter(number__gt=row.detail["revision"], number__lt=revision.number)
    return None if since.filter(frame__isnull=False).exists() else row


def _with_other_frame(task: Task, revision: TaskRevision) -> int | None:
    """The number of the newest earlier revision whose frame is another one; None where a frame was never changed."""
    if not revision.origin_hash:
        return None
    earlier = task.revisions.filter(number__lt=revision.number, verifier_kind__in=FRAMED).order_by("-number")
    earlier = earlier.only("number", "frame")[:20]
    return next((row.number for row in earlier if row.frame != revision.frame), None)
