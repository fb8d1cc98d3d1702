"""Icon, word and tone of every state that pages show as a tag, by family."""

from __future__ import annotations

TAGS: dict[str, dict[str, tuple[str, str, str]]] = {
    "outcome": {
        "solved": ("✓", "solved", "good"),
        "failed": ("✕", "failed", "bad"),
        "agent_error": ("⚠", "agent error", "bad"),
        "program_error": ("⚠", "program error", "bad"),
        "infra_error": ("⚠", "infrastructure error", "warn"),
        "truncated": ("…", "truncated", "warn"),
        "cancelled": ("⊘", "cancelled", ""),
        "": ("○", "not scored", ""),
    },
    "severity": {
        "fatal": ("✕", "fatal", "bad"),
        "warning": ("▲", "warning", "warn"),
        "info": ("\u2139", "info", ""),
    },
    "kind": {
        "query": ("○", "query", ""),
        "change": ("●", "change", "accent"),
    },
    "job": {
        "queued": ("…", "queued", ""),
        "running": ("▶", "running", "accent"),
        "succeeded": ("✓", "succeeded", "good"),
        "failed": ("✕", "failed", "bad"),
        "cancelled": ("⊘", "cancelled", ""),
    },
    "batch": {
        "draft": ("○", "draft", ""),
        "running": ("▶", "running", "accent"),
        "paused": ("‖", "paused", "warn"),
        "capped": ("▲", "capped", "warn"),
        "done": ("✓", "done", "good"),
        "cancelled": ("⊘", "cancelled", ""),
        "failed": ("✕", "failed", "bad"),
    },
    "item": {
        "waiting": ("…", "waiting", ""),
        "running": ("▶", "running", "accent"),
        "kept": ("✓", "kept", "good"),
        "rejected": ("⊘", "rejected", "warn"),
        "failed": ("✕", "failed", "bad"),
        "cancelled": ("□", "cancelled", ""),
    },
    "call": {
        "sent": ("▶", "sent, no reply yet", "accent"),
        "done": ("✓", "answered", "good"),
        "failed": ("✕", "failed", "bad"),
        "aside": ("…", "set aside", "warn"),
    },
    "review": {
        "draft": ("○", "draft", ""),
        "in_review": ("◐", "in review", "accent"),
        "changes_requested": ("↺", "changes requested", "warn"),
        "approved": ("✓", "approved", "good"),
        "rejected": ("✕", "rejected", "bad"),
        "superseded": ("□", "superseded", ""),
    },
    "training": {
        "validating_files": ("…", "validating", ""),
        "queued": ("…", "queued", ""),
        "running": ("▶", "running", "accent"),
        "paused": ("‖", "paused", "warn"),
        "succeeded": ("✓", "succeeded", "good"),
        "failed": ("✕", "failed", "bad"),
        "cancelled": ("⊘", "cancelled", ""),
    },
    "dataset": {
        "freezing": ("▶", "being frozen", "accent"),
        "ready": ("✓", "frozen", "good"),
        "failed": ("✕", "failed", "bad"),
    },
    "dataset_export": {
        "ready": ("✓", "made", "good"),
        "failed": ("✕", "failed", "bad"),
        "cleared": ("□", "cleared away", ""),
    },
    "file": {
        "uploaded": ("…", "being checked", "accent"),
        "processed": ("✓", "checked", "good"),
        "error": ("✕", "has problems", "bad"),
    },
    "level": {
        "info": ("\u2139", "info", ""),
        "warn": ("▲", "warning", "warn"),
        "error": ("✕", "error", "bad"),
    },
    "checkpoint": {
        "uploading": ("…", "uploading", "accent"),
        "ready": ("✓", "ready", "good"),
        "deleted": ("□", "deleted", ""),
    },
    "replay": {
        "pending": ("…", "not replayed yet", ""),
        "identical": ("✓", "replayed identically", "good"),
        "reproduced": ("≈", "reward reproduced", "warn"),
        "diverged": ("≠", "diverged", "bad"),
        "failed": ("✕", "could not be replayed", "bad"),
        "made_here": ("●", "made here", ""),
        "no_environment": ("∅", "no environment", ""),
    },
    "attempt": {
        "waiting": ("…", "waiting", ""),
        "running": ("▶", "running", "accent"),
        "cancelled": ("⊘", "cancelled", ""),
        "interrupted": ("⚠", "interrupted", "warn"),
    },
    "token": {
        "active": ("✓", "active", "good"),
        "expired": ("…", "expired", "warn"),
        "revoked": ("⊘", "revoked", ""),
    },
    "audit": {
        "green": ("✓", "green", "good"),
        "red": ("✕", "red", "bad"),
        "incomplete": ("◌", "incomplete", "warn"),
        "stale": ("…", "stale", "warn"),
        "": ("○", "not audited", ""),
    },
    "verdict": {
        "pass": ("✓", "pass", "good"),
        "warning": ("▲", "warning", "warn"),
        "fail": ("✕", "fail", "bad"),
    },
    "rerun": {
        "same": ("✓", "same again", "good"),
        "differs": ("≠", "differs", "bad"),
    },
    "mark": {
        "goal": ("◎", "goal", "accent"),
        "guard": ("◇", "guard", ""),
        "broken": ("✕", "broken", "bad"),
    },
}
