"""Page contents of a golden state: its differences from the start, and the places in which right runs may differ."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from synthesis.contracts import Volatile
from synthesis.verifiers.state_changes import ABSENT, StateChange, find_state_changes, format_path
from webapp.common.templatetags.show import inline_json
from webapp.jobs.models import OPEN_STATES, JobState
from webapp.jobs.queries import list_subject_jobs
from webapp.scenarios.golden.services import KIND, find_obstacle, list_undecided_places
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.playground.services import load_cached_state
from webapp.scenarios.verifiers import FRAMED, VERIFIER_NAMES

CHANGES_SHOWN = 60
PLACES_SHOWN = 100
VALUE_CHARS = 600
EQUALITIES = {
    "roles": (
        "By roles",
        "Ids, moments and generated values may be others in the volatile places; everything else must be the same.",
    ),
    "plain": (
        "Plain",
        "Every value must be the same, as Eq. 1 of AutoForge is printed: another id or moment is a difference.",
    ),
}
"""How an end state is compared with the golden one, by name, with one sentence each."""
ROLES = {
    "id": "id: names a record, and may be another one in every place",
    "timestamp": "timestamp: any moment of the same kind",
    "token": "token: any generated text or number",
    "counter": "counter: any number that counts records",
}
"""The values allowed in a volatile place, by its role."""


@dataclass(frozen=True)
class ChangeRow:
    """One change from the start to the golden state."""

    path: str
    kind: str
    before: str = ""
    after: str = ""


def build_golden_context(task: Task, revision: TaskRevision) -> dict[str, Any]:
    """Build the context of a revision's golden state, or of whether the task can be judged by one."""
    last = list_subject_jobs(KIND, f"task:{task.pk}").first()
    failed = last is not None and last.state == JobState.FAILED and last.created_at > revision.created_at
    context: dict[str, Any] = {
        "golden_job": last if last is not None and last.state in OPEN_STATES else None,
        "golden_failed": last if failed else None,
    }
    if revision.verifier_kind != "golden" or revision.golden_id is None:
        return context | {
            "golden_possible": not find_obstacle(revision),
            "verifier_name": VERIFIER_NAMES[revision.verifier_kind],
        }
    parts = revision.verifier or {}
    places = [Volatile.model_validate(item) for item in parts.get("volatile", ())]
    changes = find_state_changes(load_cached_state(revision.scenario.initial_id), load_cached_state(revision.golden_id))
    rows = list(_limit_rows(list_changes(changes)))
    undecided = list_undecided_places(revision)
    name, meaning = EQUALITIES[parts.get("equality", "roles")]
    return context | {
        "golden": revision.golden,
        "golden_equality": name,
        "golden_meaning": meaning,
        "golden_is_plain": parts.get("equality") == "plain",
        "golden_changes": rows[:CHANGES_SHOWN],
        "golden_more": max(0, _count_changes(changes) - CHANGES_SHOWN),
        "golden_places": places[:PLACES_SHOWN],
        "golden_places_more": max(0, len(places) - PLACES_SHOWN),
        "golden_undecided": undecided[:PLACES_SHOWN],
        "golden_undecided_count": len(undecided),
        "golden_before": _find_other_kind(task, revision),
    }


def list_changes(changes: list[StateChange]) -> Iterator[ChangeRow]:
    """Yield the changes as rows: each added or removed record is one row."""
    for change in changes:
        path = format_path(change.keys)
        if change.kind == "changed":
            yield ChangeRow(path, "changed", _format_value(change.old), _format_value(change.new))
        elif change.kind == "reordered":
            yield ChangeRow(path, "reordered")
        else:
            for key, item in change.items:
                place = path + (format_path((key,)) if key else "")
                sides = {"after" if change.kind == "added" else "before": _format_value(item)}
                yield ChangeRow(place, change.kind, **sides)


def _limit_rows(rows: Iterator[ChangeRow]) -> Iterator[ChangeRow]:
    for _, row in zip(range(CHANGES_SHOWN), rows, strict=False):
        yield row


def _count_changes(changes: list[StateChange]) -> int:
    return sum(change.count for change in changes)


def _format_value(value: Any) -> str:
    return "" if value == ABSENT else inline_json(value, VALUE_CHARS)


def _find_other_kind(task: Task, revision: TaskRevision) -> TaskRevision | None:
    """Return the newest earlier revision that checks or a script judge."""
    rows = task.revisions.filter(number__lt=revision.number, verifier_kind__in=FRAMED)
    return rows.only("number", "verifier_kind").order_by("-number").first()
