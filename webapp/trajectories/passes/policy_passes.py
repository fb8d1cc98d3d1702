"""Pass counts by revision and policy."""

from __future__ import annotations

from django.db import connection
from django.db.models import Q

from webapp.scenarios.models import PASS_AT, PolicyPass
from webapp.trajectories.models import Trajectory

PLAIN = Q(solver=False, parent=None, conversational=False, live=False)
"""Attempts that a policy made at a task on its own, from its start."""
COUNT_ALL = f"""
SELECT revision_id, policy, count(*), count(*) FILTER (WHERE outcome = 'solved'),
    CASE WHEN count(*) >= {PASS_AT} THEN count(*) FILTER (WHERE place <= {PASS_AT} AND outcome = 'solved') END
FROM (
    SELECT revision_id, policy, outcome, row_number() OVER (PARTITION BY revision_id, policy ORDER BY id) AS place
    FROM {Trajectory._meta.db_table}
    WHERE NOT solver AND parent_id IS NULL AND NOT conversational AND NOT live AND revision_id IS NOT NULL
        AND (outcome = 'program_error' OR reward IS NOT NULL AND outcome NOT IN ('infra_error', 'cancelled'))
) AS judged GROUP BY 1, 2
"""


def is_plain(row: Trajectory) -> bool:
    """Return whether one trajectory fits `PLAIN`."""
    return not (row.solver or row.parent_id or row.conversational or row.live)


def count_passes(revision: int, policy: str, judged: Q) -> None:
    """Count a policy's attempts at a revision anew; in a transaction that holds its environment's lock."""
    rows = Trajectory.objects.filter(PLAIN, judged, revision=revision, policy=policy).order_by("id")
    solved = [outcome == "solved" for outcome in rows.values_list("outcome", flat=True)]
    if not solved:
        PolicyPass.objects.filter(revision=revision, policy=policy).delete()
        return
    counts = {
        "tried": len(solved),
        "solved": sum(solved),
        "ten": sum(solved[:PASS_AT]) if len(solved) >= PASS_AT else None,
    }
    PolicyPass.objects.update_or_create(revision_id=revision, policy=policy, defaults=counts)


def count_every_pass() -> list[PolicyPass]:
    """Return the counts that all pairs should have, from the attempts themselves; not saved."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT_ALL)
        names = ("revision_id", "policy", "tried", "solved", "ten")
        return [PolicyPass(**dict(zip(names, row, strict=True))) for row in cursor.fetchall()]
