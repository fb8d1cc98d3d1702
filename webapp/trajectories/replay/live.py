"""A trajectory that is being made: what is new since a step, and where its time went once it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from webapp.templatetags.show import number
from webapp.trajectories.models import RolloutAttempt, Trajectory
from webapp.trajectories.replay import step_list
from webapp.trajectories.replay.panels import kept_query

PARTS = (
    ("environment_s", "environment", "reset, calls and states in the sandbox"),
    ("agent_s", "agent's LLM", "waiting for the policy's turns"),
    ("user_s", "user's LLM", "waiting for the simulated user"),
    ("verification_s", "verification", "running the checks"),
)
"""AutoForge's Table 3: column, name, what it holds."""


def version_of(trajectory: Trajectory) -> str:
    """Changes whenever the page would."""
    made = f"{trajectory.starts}.{trajectory.step_count}." if trajectory.starts else ""
    return f"{made}{trajectory.final_hash[:12]}{trajectory.matrix_hash[:12]}{trajectory.outcome}"


def attempt_of(trajectory: Trajectory) -> RolloutAttempt | None:
    """The rollout's attempt that made it; None for imported runs."""
    if not trajectory.starts:
        return None
    rows = RolloutAttempt.objects.select_related("rollout__job").defer("rollout__job__payload", "rollout__job__result")
    return rows.filter(trajectory=trajectory).first()


def context_of(trajectory: Trajectory) -> dict[str, Any]:
    """What the page says of the making: whether it goes on, was cut off, and where the time went."""
    attempt = attempt_of(trajectory)
    goes_on = trajectory.live and attempt is not None and attempt.rollout.job.is_open
    return {
        "attempt": attempt,
        "following": goes_on,
        "interrupted": trajectory.live and not goes_on,
        "ending": ending_words(trajectory.provenance) if attempt is not None else "",
    } | shares_context(trajectory)


def ending_words(provenance: dict[str, Any]) -> str:
    """How an attempt ended, who played the user, and what was asked of the models; empty while it goes on."""
    if not provenance.get("ending"):
        return ""
    parts = [f"ended: {provenance['ending']}"]
    if provenance.get("user"):
        parts.append(f"user {provenance['user']}")
    parts.append(str(provenance.get("prompt_style") or ""))
    usage = provenance.get("usage") or {}
    if usage.get("requests"):
        lost = f", {number(usage['lost'])} lost" if usage.get("lost") else ""
        parts.append(f"{number(usage['requests'])} requests{lost}")
        parts.append(f"{number(usage.get('prompt_tokens'))} + {number(usage.get('completion_tokens'))} tokens")
    return " · ".join(parts)


def news(request: HttpRequest, trajectory: Trajectory, known: int) -> dict[str, Any]:
    """The lines of the step list from step `known` on, as the page writes them."""
    rows, _, _ = step_list.rail(trajectory, {}, trajectory.step_count, "all", "")
    new = [row for row in rows if row.index >= known]
    return {
        "live": context_of(trajectory)["following"] if trajectory.live else False,
        "starts": trajectory.starts,
        "steps": trajectory.step_count,
        "version": version_of(trajectory),
        "lines": step_list.lines(new, -1, kept_query(request)),
    }


@dataclass(frozen=True)
class Share:
    """A part of the time: where it begins and how long it is, in percent of all."""

    key: str
    name: str
    what: str
    seconds: float
    start: float
    percent: float


def shares_context(trajectory: Trajectory) -> dict[str, Any]:
    """The time split and the same in words."""
    split = shares(trajectory)
    words = ", ".join(f"{share.name} {share.percent:.0f} percent" for share in split)
    return {"shares": split, "shares_words": f"Where the time went: {words}"}


def shares(trajectory: Trajectory) -> list[Share]:
    """The time split; empty where it was not measured. What a person thinks before a call is measured nowhere."""
    parts = [part for part in PARTS if part[0] not in _unmeasured(trajectory)]
    seconds = [getattr(trajectory, column) or 0.0 for column, _, _ in parts]
    whole = sum(seconds)
    if not whole:
        return []
    split, start = [], 0.0
    for (column, name, what), duration in zip(parts, seconds, strict=True):
        if column == "agent_s" and not _asked_model(trajectory.provenance):
            name = "policy"
        part = 100 * duration / whole
        split.append(Share(column.removesuffix("_s"), name, what, duration, round(start, 3), round(part, 3)))
        start += part
    return split


def _unmeasured(trajectory: Trajectory) -> set[str]:
    """Columns that say nothing of this attempt: nobody played the user, or a person acted and no model."""
    columns = set() if trajectory.conversational else {"user_s"}
    return columns | {"agent_s"} if trajectory.provenance.get("by_hand") else columns


def _asked_model(provenance: dict[str, Any]) -> bool:
    """Whether a model was asked for turns; also if nothing is known of it, as while an attempt goes on."""
    usage = provenance.get("usage")
    return usage is None or bool(usage.get("requests"))
