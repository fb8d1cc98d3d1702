"""Results of audits of a selection of tasks in numbers: by source, or of one selection."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db.models import Count, Exists, F, Max, Min, OuterRef, Q, QuerySet, Sum

from synthesis.verifiers.audit_report import NOTES
from webapp.scenarios.models import AUDIT_RESULTS, AuditFault, AuditState, Task

FAULTS_SHOWN = 1_000
FRESH = Q(audit__revision=F("current")) & ~Q(audit_state=AuditState.STALE)


def count_audit_results(tasks: QuerySet[Task]) -> dict[str, Any]:
    """Count the results of the fresh audits of these tasks.

    `noop_max`: the highest reward for doing nothing. `reachable_wrong_end`: tasks in which tools reach a wrong end that
    earns everything. This, `reference_min`, `mutants`, `mutants_below_reference` and `nondeterministic` are null if no
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


def list_fresh_faults(tasks: QuerySet[Task], *, notes: bool = False) -> dict[str, list[dict[str, Any]]]:
    """Return the findings of the fresh audits by task key; without `notes` only faults and gaps."""
    rows = AuditFault.objects.filter(audit__in=tasks.filter(FRESH).values("audit"))
    if not notes:
        rows = rows.exclude(kind__in=NOTES)
    faults_by_task: dict[str, list[dict[str, Any]]] = {}
    lines = rows.order_by("audit__revision__task_id", "position")[:FAULTS_SHOWN]
    for key, kind, check, message in lines.values_list("audit__revision__task__key", "kind", "check_index", "message"):
        faults_by_task.setdefault(key, []).append({"kind": kind, "check": check, "message": message})
    return faults_by_task


def count_by_source(sources: Iterable[str]) -> dict[str, dict[str, Any]]:
    return {source: count_audit_results(Task.objects.filter(source=source)) for source in sources}
