"""Record of a step: its attempts in numbers, and the attempts themselves as a compressed file. Neither needs the
model.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from synthesis.contracts import SOLVED_AT, is_injected
from synthesis.errors import InfrastructureError
from training.attempts import TaskAttempt
from training.dataset import TaskRow
from training.rewards import AttemptReward

Judged = tuple[TaskAttempt, AttemptReward]
CHECKS = 200
VERIFIER_DIGITS = 16
"""So much of a verifier's hash names it in a key."""


def choose_watched_tasks(rows: Sequence[TaskRow], most: int = CHECKS) -> dict[str, str]:
    """Return the tasks whose checks or criteria are recorded one by one: row id to the verifier's hash, evenly over the
    rows.

    They have at most `most` checks in the whole job: a key for each check of a large dataset would drown the others.
    """
    total = sum(map(_count_verdicts, rows))
    verifiers: dict[str, str] = {}
    for row in rows[:: max(1, math.ceil(total / most))] if rows else []:
        if most < (count := _count_verdicts(row)):
            break
        verifier = row.rollout.verifier_hash
        most -= 0 if verifier in verifiers.values() else count
        verifiers[row.id] = verifier
    return verifiers


def _count_verdicts(row: TaskRow) -> int:
    """Return how many checks or criteria judge a task."""
    return max(1, len(row.rollout.verifier.criteria or row.rollout.verifier.checks))


def compute_step_values(
    judged: Sequence[Judged], seconds: float, watched: Mapping[str, str] | None = None
) -> dict[str, float]:
    """Return the numbers of a step by key (`training.metrics.NAMES`): of the whole, of each environment and category,
    and of the checks of the watched tasks.
    """
    values = _compute_part_values(judged)
    values["masked"] = _compute_share(bool(score.masked) for _, score in judged)
    tokens = sum(sum(tried.trace.own) for tried, _ in judged)
    values |= {"step_s": seconds, "tokens_per_s": tokens / seconds if seconds else math.nan}
    for outcome, count in Counter(tried.attempt.outcome for tried, _ in judged).items():
        values[f"outcome/{outcome}"] = count / len(judged)
    values["outcome/user_error"] = _compute_share(tried.attempt.user_error for tried, _ in judged)
    values |= _compute_user_faults(judged)
    values |= _compute_time_shares(judged)
    for prefix, field in (("environment", "environment"), ("node", "category")):
        parts: dict[str, list[Judged]] = defaultdict(list)
        for pair in judged:
            if name := getattr(pair[0].row, field):
                parts[name].append(pair)
        for name, part in sorted(parts.items()):
            values |= {f"{prefix}/{name}/{key}": value for key, value in _compute_part_values(part).items()}
    values |= _compute_check_shares(judged, watched or {})
    return {key: value for key, value in values.items() if not math.isnan(value)}


def describe_program_errors(judged: Sequence[Judged], most: int = 3) -> str:
    """Return a text of the environments whose programs ended attempts: how many, and the last call of each."""
    notes: dict[str, list[str]] = defaultdict(list)
    for tried, _ in judged:
        if tried.attempt.outcome == "program_error":
            notes[tried.row.environment].append(tried.attempt.note)
    worst = sorted(notes.items(), key=lambda item: (-len(item[1]), item[0]))
    descriptions = [f"{name}: {len(said)}, the last one: {said[-1][:500]}" for name, said in worst[:most]]
    descriptions += [f"and {len(worst) - most} other environments"] if len(worst) > most else []
    return " ".join(words if words.endswith(".") else f"{words}." for words in descriptions)


def describe_unknown_users(judged: Sequence[Judged]) -> str:
    """Return a text with the number of conversations with an unknown verdict on the user, and the reason of the last;
    empty if there are none.
    """
    verdicts = [tried.attempt.user_verdict for tried, _ in judged if tried.attempt.user_verdict is not None]
    unknown = [verdict.note for verdict in verdicts if verdict.finding == "unknown"]
    if not unknown:
        return ""
    return (
        f"Whether the simulated user erred is not known of {len(unknown)} of {len(verdicts)} conversations, which "
        f"count as if it had not; the last one: {unknown[-1][:500]}"
    )


def _compute_part_values(judged: Sequence[Judged]) -> dict[str, float]:
    """Return the numbers of the attempts that count, and the share of all that programs ended; NaN if there are
    none.
    """
    counted = [(tried, score.reward) for tried, score in judged if score.reward is not None]
    rewards = [reward for _, reward in counted]
    steps = [step for tried, _ in counted for step in tried.attempt.steps if step.by == "agent"]
    calls = [step.result for step in steps if step.result is not None]
    return {
        "reward": _compute_mean(rewards),
        "reward_std": _compute_deviation(rewards),
        "success": _compute_share(tried.attempt.reward is not None and tried.attempt.reward.reward >= SOLVED_AT
                          for tried, _ in counted),
        "length": _compute_mean([sum(tried.trace.own) for tried, _ in counted]),
        "turns": _compute_mean([len(tried.attempt.turns) for tried, _ in counted]),
        "tool_errors": _compute_share(not result.ok and not is_injected(result) for result in calls),
        "program_errors": _compute_share(tried.attempt.outcome == "program_error" for tried, _ in judged),
    }  # fmt: skip


def _compute_check_shares(judged: Sequence[Judged], watched: Mapping[str, str]) -> dict[str, float]:
    """Return the share of the counted attempts that passed each check: `check/VERIFIER.NUMBER/success`, from 1."""
    passed: dict[str, list[bool]] = defaultdict(list)
    for tried, score in judged:
        verifier, reward = watched.get(tried.row.id), tried.attempt.reward
        if verifier is None or score.reward is None or reward is None:
            continue
        for number, verdict in enumerate(reward.verdicts, 1):
            passed[f"check/{verifier[:VERIFIER_DIGITS]}.{number}/success"].append(verdict.passed)
    return {key: _compute_share(verdicts) for key, verdicts in sorted(passed.items())}


def _compute_user_faults(judged: Sequence[Judged]) -> dict[str, float]:
    """Return shares of the attempts whose user was judged: users at fault among known verdicts, and unknown among
    all.
    """
    found = [tried.attempt.user_fault for tried, _ in judged if tried.attempt.user_fault]
    known = [finding == "fault" for finding in found if finding != "unknown"]
    return {
        "user_fault": _compute_share(known),
        "user_unknown": _compute_share(finding == "unknown" for finding in found),
    }


def _compute_time_shares(judged: Sequence[Judged]) -> dict[str, float]:
    """Return shares of the attempts' wall time, all waiting included (AF Table 3)."""
    times = [tried.attempt.timing for tried, _ in judged]
    environment, verification = sum(t.environment_s for t in times), sum(t.verification_s for t in times)
    whole = sum(t.wall_s for t in times)
    if not whole:
        return {}
    return {"environment_share": environment / whole, "verification_share": verification / whole}


def write_rollouts(
    path: Path, judged: Sequence[Judged], advantages: Sequence[float | None], policy_step: int, horizon: int
) -> None:
    """Write a step's attempts, one JSON object per line, gzipped: the attempt, its task and verifier, the policy's
    step, and the resulting reward and advantage (None if dynamic sampling drew others instead).

    The file is written completely or not at all. Raises InfrastructureError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    pending = path.with_suffix(".new")
    try:
        with gzip.open(pending, "wt", encoding="utf-8", compresslevel=5) as file:
            for (tried, score), advantage in zip(judged, advantages, strict=True):
                line = _build_rollout_line(tried, score, advantage) | {"policy_step": policy_step, "horizon": horizon}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        os.replace(pending, path)
    except OSError as error:
        pending.unlink(missing_ok=True)
        raise InfrastructureError(f"{path}: cannot be written: {error.strerror}") from error


def _build_rollout_line(tried: TaskAttempt, score: AttemptReward, advantage: float | None) -> dict[str, Any]:
    row = tried.row
    # Turns repeat the steps and messages; with their ids they would be most of the file.
    attempt = tried.attempt.model_copy(update={"turns": ()})
    return {
        "row": row.id,
        "environment": row.environment,
        "scenario": row.scenario,
        "task": row.task,
        "category": row.category,
        "setting": row.setting,
        "verifier": row.rollout.verifier_hash,
        "ordinal": tried.ordinal,
        "reward": score.reward,
        "masked": score.masked,
        "advantage": advantage,
        "tokens": sum(tried.trace.own),
        # (policy step, number of consecutive tokens), for the agent's own tokens.
        "drawn": tried.trace.drawn,
        "attempt": attempt.model_dump(mode="json", exclude_defaults=True),
    }


def read_rollouts(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file that `write_rollouts` wrote."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _compute_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _compute_deviation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return math.nan
    mean = _compute_mean(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _compute_share(flags: Iterable[bool]) -> float:
    return _compute_mean([float(flag) for flag in flags])
