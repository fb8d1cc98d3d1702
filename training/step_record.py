"""What a step's attempts say in numbers, and the attempts themselves as a compressed file. Neither needs the model."""

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


def watched(rows: Sequence[TaskRow], most: int = CHECKS) -> dict[str, str]:
    """The tasks whose checks or criteria are recorded one by one: row id to the verifier's hash, evenly over the rows.

    They are at most so many checks in the whole job: a key for each of a large dataset's would drown the others.
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


def values_of(judged: Sequence[Judged], seconds: float, watched: Mapping[str, str] | None = None) -> dict[str, float]:
    """Numbers of a step by key (`training.metrics.NAMES`): of the whole, of each environment and category, and of the
    checks of the tasks that are `watched`."""
    values = _part(judged)
    values["masked"] = _share(bool(score.masked) for _, score in judged)
    tokens = sum(sum(tried.trace.own) for tried, _ in judged)
    values |= {"step_s": seconds, "tokens_per_s": tokens / seconds if seconds else math.nan}
    for outcome, count in Counter(tried.attempt.outcome for tried, _ in judged).items():
        values[f"outcome/{outcome}"] = count / len(judged)
    values["outcome/user_error"] = _share(tried.attempt.user_error for tried, _ in judged)
    values |= _user_faults(judged)
    values |= _times(judged)
    for prefix, field in (("environment", "environment"), ("node", "category")):
        parts: dict[str, list[Judged]] = defaultdict(list)
        for pair in judged:
            if name := getattr(pair[0].row, field):
                parts[name].append(pair)
        for name, part in sorted(parts.items()):
            values |= {f"{prefix}/{name}/{key}": value for key, value in _part(part).items()}
    values |= _checks(judged, watched or {})
    return {key: value for key, value in values.items() if not math.isnan(value)}


def program_error_words(judged: Sequence[Judged], most: int = 3) -> str:
    """Which environments' programs ended attempts, how many, and by which call the last one of each did."""
    notes: dict[str, list[str]] = defaultdict(list)
    for tried, _ in judged:
        if tried.attempt.outcome == "program_error":
            notes[tried.row.environment].append(tried.attempt.note)
    worst = sorted(notes.items(), key=lambda item: (-len(item[1]), item[0]))
    told = [f"{name}: {len(said)}, the last one: {said[-1][:500]}" for name, said in worst[:most]]
    told += [f"and {len(worst) - most} other environments"] if len(worst) > most else []
    return " ".join(words if words.endswith(".") else f"{words}." for words in told)


def unknown_users_words(judged: Sequence[Judged]) -> str:
    """Return of how many conversations it is not known whether the user erred, and why of the last; empty of none."""
    verdicts = [tried.attempt.user_verdict for tried, _ in judged if tried.attempt.user_verdict is not None]
    unknown = [verdict.note for verdict in verdicts if verdict.finding == "unknown"]
    if not unknown:
        return ""
    return (
        f"Whether the simulated user erred is not known of {len(unknown)} of {len(verdicts)} conversations, which "
        f"count as if it had not; the last one: {unknown[-1][:500]}"
    )


def _part(judged: Sequence[Judged]) -> dict[str, float]:
    """Of the attempts that count, and of all the share that programs ended; NaN where there are none."""
    counted = [(tried, score.reward) for tried, score in judged if score.reward is not None]
    rewards = [reward for _, reward in counted]
    steps = [step for tried, _ in counted for step in tried.attempt.steps if step.by == "agent"]
    calls = [step.result for step in steps if step.result is not None]
    return {
        "reward": _mean(rewards),
        "reward_std": _deviation(rewards),
        "success": _share(tried.attempt.reward is not None and tried.attempt.reward.reward >= SOLVED_AT
                          for tried, _ in counted),
        "length": _mean([sum(tried.trace.own) for tried, _ in counted]),
        "turns": _mean([len(tried.attempt.turns) for tried, _ in counted]),
        "tool_errors": _share(not result.ok and not is_injected(result) for result in calls),
        "program_errors": _share(tried.attempt.outcome == "program_error" for tried, _ in judged),
    }  # fmt: skip


def _checks(judged: Sequence[Judged], watched: Mapping[str, str]) -> dict[str, float]:
    """How large a share of the attempts that count passed each check: `check/VERIFIER.NUMBER/success`, from 1."""
    passed: dict[str, list[bool]] = defaultdict(list)
    for tried, score in judged:
        verifier, reward = watched.get(tried.row.id), tried.attempt.reward
        if verifier is None or score.reward is None or reward is None:
            continue
        for number, verdict in enumerate(reward.verdicts, 1):
            passed[f"check/{verifier[:VERIFIER_DIGITS]}.{number}/success"].append(verdict.passed)
    return {key: _share(verdicts) for key, verdicts in sorted(passed.items())}


def _user_faults(judged: Sequence[Judged]) -> dict[str, float]:
    """Shares of the attempts whose user was judged: of those with a verdict the ones at fault, of all the unknown."""
    found = [tried.attempt.user_fault for tried, _ in judged if tried.attempt.user_fault]
    known = [finding == "fault" for finding in found if finding != "unknown"]
    return {"user_fault": _share(known), "user_unknown": _share(finding == "unknown" for finding in found)}


def _times(judged: Sequence[Judged]) -> dict[str, float]:
    """Shares of the attempts' wall time, all waiting included (AF Table 3)."""
    times = [tried.attempt.timing for tried, _ in judged]
    environment, verification = sum(t.environment_s for t in times), sum(t.verification_s for t in times)
    whole = sum(t.wall_s for t in times)
    if not whole:
        return {}
    return {"environment_share": environment / whole, "verification_share": verification / whole}


def write_rollouts(
    path: Path, judged: Sequence[Judged], advantages: Sequence[float | None], policy_step: int, horizon: int
) -> None:
    """A step's attempts, one JSON object a line, gzipped: the attempt, the task and verifier it was at, the policy's
    step, and what became of it (`advantage` is None where dynamic sampling drew others instead).

    The file is there whole or not at all. Raises InfrastructureError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    pending = path.with_suffix(".new")
    try:
        with gzip.open(pending, "wt", encoding="utf-8", compresslevel=5) as file:
            for (tried, score), advantage in zip(judged, advantages, strict=True):
                line = _line(tried, score, advantage) | {"policy_step": policy_step, "horizon": horizon}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        os.replace(pending, path)
    except OSError as error:
        pending.unlink(missing_ok=True)
        raise InfrastructureError(f"{path}: cannot be written: {error.strerror}") from error


def _line(tried: TaskAttempt, score: AttemptReward, advantage: float | None) -> dict[str, Any]:
    row = tried.row
    # The turns say again what steps and messages hold; with their ids they would be most of the file.
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
        # (policy step, tokens in a row): which policy drew each of the agent's own tokens.
        "drawn": tried.trace.drawn,
        "attempt": attempt.model_dump(mode="json", exclude_defaults=True),
    }


def read_rollouts(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that `write_rollouts` wrote."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _deviation(values: Sequence[float]) -> float:
    if len(values) < 2:
        return math.nan
    mean = _mean(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _share(flags: Iterable[bool]) -> float:
    return _mean([float(flag) for flag in flags])
