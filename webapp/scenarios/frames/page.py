"""Page contents of a frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from synthesis.verifiers.frame_words import format_allowance, format_frame_lines
from webapp.accounts.models import AuditEntry
from webapp.jobs.queries import find_open_job
from webapp.scenarios.frames.services import KIND, has_unpinned_places
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import find_reference, read_frame
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
    """One place that a person, an author or a run allowed in addition to the changes of the reference."""

    line: str
    source: str
    by: str
    reason: str


def build_frame_context(task: Task, revision: TaskRevision) -> dict[str, Any]:
    """Describe the frame of a revision and its widenings, or why there is none. Empty for verifiers without frames."""
    if revision.verifier_kind not in FRAMED:
        return {}
    frame = read_frame(revision)
    context: dict[str, Any] = {"takes_frame": True, "frame": frame, "frame_job": find_open_job(KIND, f"task:{task.pk}")}
    if frame is None:
        return context | {
            "frame_possible": find_reference(revision) is not None,
            "frame_off": _find_switch_off(task, revision),
        }
    lines = format_frame_lines(frame)
    widenings = [item for item in frame.allowances if item.source != "reference"]
    return context | {
        "frame_lines": lines[:LINES_SHOWN],
        "frame_unpinned": has_unpinned_places(revision) and find_reference(revision) is not None,
        "frame_more": max(0, len(lines) - LINES_SHOWN),
        "frame_widenings": [
            Widening(format_allowance(item), SOURCES[item.source], item.by, item.reason)
            for item in widenings[:LINES_SHOWN]
        ],
        "frame_before": _find_other_frame(task, revision),
    }


def _find_switch_off(task: Task, revision: TaskRevision) -> AuditEntry | None:
    """Return the audit log entry of the removal of the frame, by this revision or one before it without a frame since;
    None if there is none."""
    rows = AuditEntry.objects.filter(object_type="task", object_id=str(task.pk), action="task.frame.off")
    row = next((row for row in rows.order_by("-id")[:20] if 0 < row.detail.get("revision", 0) <= revision.number), None)
    if row is None:
        return None
    since = task.revisions.filter(number__gt=row.detail["revision"], number__lt=revision.number)
    return None if since.filter(frame__isnull=False).exists() else row


def _find_other_frame(task: Task, revision: TaskRevision) -> int | None:
    """Return the number of the newest earlier revision with another frame; None if the frame was never changed."""
    if not revision.origin_hash:
        return None
    earlier = task.revisions.filter(number__lt=revision.number, verifier_kind__in=FRAMED).order_by("-number")
    earlier = earlier.only("number", "frame")[:20]
    return next((row.number for row in earlier if row.frame != revision.frame), None)
