"""State changes of the trajectories that a dataset was chosen from, by the ids of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from synthesis.formats.atif import StateChange
from webapp.query_params import LARGEST_ID, whole_number
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory


@dataclass
class KnownAttempt:
    """A trajectory that is still stored: who made it, and what each of its agent's calls changed."""

    policy: str
    changes: list[StateChange] = field(default_factory=list)


def attempts_of(ids: Iterable[str]) -> dict[str, KnownAttempt]:
    """Trajectories by row id (`trajectory:PK`, with `:TURN` behind where a turn is a row), in two queries."""
    keys = {ident: _number(ident) for ident in ids}
    numbers = {number for number in keys.values() if number is not None}
    policies = Trajectory.objects.filter(pk__in=numbers, live=False).values_list("pk", "policy")
    known = {pk: KnownAttempt(policy) for pk, policy in policies}
    kinds = (StepKind.QUERY, StepKind.CHANGE, StepKind.ANSWER)
    calls = Step.objects.filter(trajectory__in=known, kind__in=kinds, by=CallBy.AGENT)
    columns = ("trajectory_id", "tool", "patch", "change_count")
    for pk, tool, patch, count in calls.order_by("trajectory", "index").values_list(*columns):
        kept = None if count and not patch else tuple(patch or ())
        known[pk].changes.append(StateChange(tool=tool, patch=kept, count=count))
    return {ident: known[number] for ident, number in keys.items() if number in known}


def _number(ident: str) -> int | None:
    what, _, rest = ident.partition(":")
    return whole_number(rest.split(":")[0], high=LARGEST_ID) if what == "trajectory" else None
