"""State changes of the trajectories that a dataset was chosen from, by the ids of its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from synthesis.formats.atif import StateChange
from webapp.common.query_params import LARGEST_ID, parse_whole_number
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory


@dataclass
class KnownAttempt:
    """A trajectory that is still stored: its policy, and what each of its agent's calls changed."""

    policy: str
    changes: list[StateChange] = field(default_factory=list)


def find_known_attempts(ids: Iterable[str]) -> dict[str, KnownAttempt]:
    """Return trajectories by row id (`trajectory:PK`, followed by `:TURN` if a turn is a row), in two queries."""
    keys = {ident: _parse_trajectory_id(ident) for ident in ids}
    numbers = {number for number in keys.values() if number is not None}
    policies = Trajectory.objects.filter(pk__in=numbers, live=False).values_list("pk", "policy")
    attempts = {pk: KnownAttempt(policy) for pk, policy in policies}
    kinds = (StepKind.QUERY, StepKind.CHANGE, StepKind.ANSWER)
    calls = Step.objects.filter(trajectory__in=attempts, kind__in=kinds, by=CallBy.AGENT)
    columns = ("trajectory_id", "tool", "patch", "change_count")
    for pk, tool, patch, count in calls.order_by("trajectory", "index").values_list(*columns):
        kept_patch = None if count and not patch else tuple(patch or ())
        attempts[pk].changes.append(StateChange(tool=tool, patch=kept_patch, count=count))
    return {ident: attempts[number] for ident, number in keys.items() if number in attempts}


def _parse_trajectory_id(ident: str) -> int | None:
    what, _, rest = ident.partition(":")
    return parse_whole_number(rest.split(":")[0], high=LARGEST_ID) if what == "trajectory" else None
