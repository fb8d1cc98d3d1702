"""What audits say of a selection of tasks, in numbers: by source, or of one selection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Sum

from synthesis.verifiers.audit_report import NOTES
from webapp.scenarios.models import AUDIT_RESULTS, AuditFault, AuditState, Task

FAULTS_SHOWN = 1_000
FRESH = Q(audit__revision=F("current")) & ~Q(audit_state=AuditState.STALE)


def numbers(tasks: QuerySet[Task]) -> dict[str, Any]:
    """Counts over the fresh audits of these tasks.

    `noop_max`: the most that doing nothing earns. `reachable_wrong_end`: tasks of which tools reach a wrong end that
    earns everything. That, `reference_min`, `mutants`, `mutants_below_reference` and `nondeterministic` are null if no
    reference of the selection was tried.
    """
    counts = tasks.order_by().aggregate(
        tasks=Count("id"),
        **{state: Count("id", filter=FRESH & Q(audit_state=state)) for state in AUDIT_RESULTS},
        noop_max=Max("audit__do_nothing", filter=FRESH),
        references=Count("audit__mutants", filter=FRESH),
        reference_min=Min("audit__reference_reward", filter=FRESH),
        mutants=Sum("audit__mutants", filter=FRESH),
        mutants_below_reference=Sum("audit__below", filter=FRESH),
        equivalent=Sum("audit__equivalent", filter=FRESH),
    )
    changing = tasks.filter(FRESH, audit__nondeterministic=True).count()
    counts["nondeterministic"] = changing if counts["references"] else None
    reached = Exists(AuditFault.objects.filter(audit=OuterRef("audit"), kind="reachable_wrong_end"))
    counts["reachable_wrong_end"] = tasks.filter(FRESH & Q(reached)).count() if counts["references"] else None
    return counts


def faults(tasks: QuerySet[Task], *, notes: bool = False) -> dict[str, list[dict[str, Any]]]:
    """By task key, what the fresh audits found; without `notes` only what is wrong or was not tried."""
    rows = AuditFault.objects.filter(audit__in=tasks.filter(FRESH).values("audit"))
    if not notes:
        rows = rows.exclude(kind__in=NOTES)
    told: dict[str, list[dict[str, Any]]] = {}
    lines = rows.order_by("audit__revision__task_id", "position")[:FAULTS_SHOWN]
    for key, kind, check, message in lines.values_list("audit__revision__task__key", "kind", "check_index", "message"):
        told.setdefault(key, []).append({"kind": kind, "check": check, "message": message})
    return told


def by_source(sources: Iterable[str]) -> dict[str, dict[str, Any]]:
    return {source: numbers(Task.objects.filter(source=source)) for source in sources}
