"""A trajectory that is being made: the new steps since a step, and the split of its time once it has ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from webapp.common.templatetags.show import number
from webapp.trajectories.models import RolloutAttempt, Trajectory
from webapp.trajectories.replay import step_list
from webapp.trajectories.replay.panels import build_kept_query

PARTS = (
    ("environment_s", "environment", "reset, calls and states in the sandbox"),
    ("agent_s", "agent's LLM", "waiting for the policy's turns"),
    ("user_s", "user's LLM", "waiting for the simulated user"),
    ("verification_s", "verification", "running the checks"),
)
"""AutoForge's Table 3: column, name, what it holds."""


def build_page_version(trajectory: Trajectory) -> str:
    """Return a text that changes whenever the page would."""
    progress = f"{trajectory.starts}.{trajectory.step_count}." if trajectory.starts else ""
    return f"{progress}{trajectory.final_hash[:12]}{trajectory.matrix_hash[:12]}{trajectory.outcome}"


def find_attempt(trajectory: Trajectory) -> RolloutAttempt | None:
    """Return the rollout's attempt that made it; None for imported runs."""
    if not trajectory.starts:
        return None
    rows = RolloutAttempt.objects.select_related("rollout__job").defer("rollout__job__payload", "rollout__job__result")
    return rows.filter(trajectory=trajectory).first()


def build_live_context(trajectory: Trajectory) -> dict[str, Any]:
    """Return the page's context of the execution: whether it runs, was interrupted, and the split of the time."""
    attempt = find_attempt(trajectory)
    goes_on = trajectory.live and attempt is not None and attempt.rollout.job.is_open
    return {
        "attempt": attempt,
        "following": goes_on,
        "interrupted": trajectory.live and not goes_on,
        "ending": format_ending(trajectory.provenance) if attempt is not None else "",
    } | build_shares_context(trajectory)


def format_ending(provenance: dict[str, Any]) -> str:
    """Return how an attempt ended, who played the user, and the requests to models; empty while it runs."""
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


def build_news(request: HttpRequest, trajectory: Trajectory, known: int) -> dict[str, Any]:
    """Return the lines of the step list from step `known` on, as the page writes them."""
    rows, _, _ = step_list.build_rail(trajectory, {}, trajectory.step_count, "all", "")
    new = [row for row in rows if row.index >= known]
    return {
        "live": build_live_context(trajectory)["following"] if trajectory.live else False,
        "starts": trajectory.starts,
        "steps": trajectory.step_count,
        "version": build_page_version(trajectory),
        "lines": step_list.render_lines(new, -1, build_kept_query(request)),
    }


@dataclass(frozen=True)
class Share:
    """A part of the time: its start and its length, in percent of the total."""

    key: str
    name: str
    what: str
    seconds: float
    start: float
    percent: float


def build_shares_context(trajectory: Trajectory) -> dict[str, Any]:
    """Return the time split and the same as text."""
    split = compute_shares(trajectory)
    words = ", ".join(f"{share.name} {share.percent:.0f} percent" for share in split)
    return {"shares": split, "shares_words": f"Time by part: {words}"}


def compute_shares(trajectory: Trajectory) -> list[Share]:
    """Return the time split; empty if it was not measured. The time that a person thinks before a call is not
    measured."""
    parts = [part for part in PARTS if part[0] not in _list_unmeasured_columns(trajectory)]
    seconds = [getattr(trajectory, column) or 0.0 for column, _, _ in parts]
    whole = sum(seconds)
    if not whole:
        return []
    split, start = [], 0.0
    for (column, name, what), duration in zip(parts, seconds, strict=True):
        if column == "agent_s" and not _has_asked_model(trajectory.provenance):
            name = "policy"
        part = 100 * duration / whole
        split.append(Share(column.removesuffix("_s"), name, what, duration, round(start, 3), round(part, 3)))
        start += part
    return split


def _list_unmeasured_columns(trajectory: Trajectory) -> set[str]:
    """Return the columns that do not apply to this attempt: without a simulated user, or with a person in place of a
    model."""
    columns = set() if trajectory.conversational else {"user_s"}
    return columns | {"agent_s"} if trajectory.provenance.get("by_hand") else columns


def _has_asked_model(provenance: dict[str, Any]) -> bool:
    """Return whether a model was asked for turns; true as well if that is unknown, as while an attempt runs."""
    usage = provenance.get("usage")
    return usage is None or bool(usage.get("requests"))
