"""Line of a step's rollouts, as the trainer wrote it; without Django, for the process that reads a whole upload."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import IO, Annotated, Any, cast

from pydantic import Field, ValidationError

from synthesis.contracts import SOLVED_AT, Attempt, Frozen, Reward, is_injected
from synthesis.errors import FormatError, InputError
from synthesis.formats.values import clean_text
from synthesis.json_reader import read_json
from training.config import Masking, RewardRule
from training.rewards import score_attempt

LINE_BYTES = 32 * 1024 * 1024
LINE_MEMORY = 256 * 1024 * 1024
LINE_LEVELS = 450
"""An encoded state has up to 416 levels of lists and objects."""
FILE_BYTES = 4 * 1024 * 1024 * 1024
"""What a file may hold unpacked: a bomb is read no further."""
MOST_LINES = 100_000

Whole = Annotated[int, Field(ge=0, le=2**31 - 1)]


class RolloutFileLine(Frozen):
    """One attempt as the trainer wrote it (`training.step_record`)."""

    row: str = Field(max_length=200)
    environment: str = ""
    scenario: str = ""
    task: str = ""
    category: str = ""
    setting: str = "task"
    verifier: str = ""
    ordinal: Whole = 0
    reward: float | None = Field(default=None, allow_inf_nan=False)
    masked: str = ""
    advantage: float | None = Field(default=None, allow_inf_nan=False)
    tokens: Whole = 0
    drawn: tuple[tuple[Whole, Whole], ...] = Field(default=(), max_length=10_000)
    policy_step: Whole = 0
    horizon: Whole = 0
    attempt: Attempt


class Scoring(Frozen):
    """Rule by which the job makes rewards of attempts (`training.rewards.score_attempt`)."""

    rule: RewardRule = "score"
    masking: Masking = Masking()


class RolloutSummary(Frozen):
    """Summary of a line for lists and means: columns of its row, cleaned and cut, and whether its task was solved.

    `due_reward` and `due_masked` are what the job's rule makes of the attempt. `drawn` is the sum of the tokens that
    policies drew, None if the line does not say; `calls` counts results of the agent's calls, `failed_calls` those that
    failed by themselves, not by an injected error.
    """

    row: str
    environment: str
    category: str
    verifier: str
    setting: str
    ordinal: int
    outcome: str
    user_error: bool
    user_fault: str
    masked: str
    reward: float | None
    advantage: float | None
    turns: int
    tokens: int
    horizon: int
    policy_step: int
    solved: bool
    due_reward: float | None
    due_masked: str
    drawn: int | None
    calls: int
    failed_calls: int
    impossible: str
    """Why no verifier gives what the attempt is reported to have earned; empty if one may."""


COMPARED = {"impossible", "category", "solved", "due_reward", "due_masked", "drawn", "calls", "failed_calls"}
"""Fields of a summary that are compared, and are no columns."""


def summaries(
    file: IO[bytes], step: int, most_lines: int, most_bytes: int, scoring: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield a summary of each line of an uploaded gzip file, or `{"unreadable": where and why}`. `scoring` is a
    `Scoring`.

    Raises InputError: too many lines, or no gzip file; FormatError: lines that no attempt has.
    """
    how = Scoring.model_validate(scoring)
    try:
        with gzip.open(file, "rb") as unpacked:
            for index, text in enumerate(split_lines(cast(IO[bytes], unpacked), step, most_bytes)):
                if index >= most_lines:
                    raise InputError(f"A step may have {most_lines:,} attempts.")
                try:
                    line_summary = summarize_line(read_line(text, step, index), how).model_dump()
                except FormatError as error:
                    line_summary = {"unreadable": str(error)}
                yield line_summary
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"The rollouts of step {step} are no gzip file that can be unpacked: {error}.") from error


def split_lines(unpacked: IO[bytes], step: int, most_bytes: int = FILE_BYTES) -> Iterator[bytes]:
    """Yield the lines, unread. Raises FormatError if one, or all of them, have too many bytes."""
    size = 0
    while text := unpacked.readline(LINE_BYTES + 1):
        size += len(text)
        if len(text) > LINE_BYTES or size > most_bytes:
            raise FormatError(f"rollouts of step {step}", "are larger than an attempt can be; they are not read")
        yield text


def read_line(text: bytes, step: int, index: int) -> RolloutFileLine:
    """Return one attempt. Raises FormatError with its line and what is wrong."""
    place = f"rollouts of step {step}, line {index + 1}"
    try:
        value = read_json(text, place, most_levels=LINE_LEVELS, most_memory=LINE_MEMORY)
        return RolloutFileLine.model_validate(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"]))[:200]
        raise FormatError(place, f"is no attempt: {where}: {fault['msg'][:300]}") from error


def summarize_line(line: RolloutFileLine, scoring: Scoring) -> RolloutSummary:
    attempt = line.attempt
    earned = attempt.reward
    due = score_attempt(attempt, scoring.rule, scoring.masking)
    results = [step.result for step in attempt.steps if step.result is not None and step.by == "agent"]
    return RolloutSummary(
        row=clean_text(line.row)[:200],
        environment=clean_text(line.environment)[:200],
        category=clean_text(line.category)[:200],
        verifier=clean_text(line.verifier)[:64],
        setting=clean_text(line.setting)[:16],
        ordinal=line.ordinal,
        outcome=attempt.outcome,
        user_error=attempt.user_error,
        user_fault=attempt.user_fault,
        masked=clean_text(line.masked)[:40],
        reward=line.reward,
        advantage=line.advantage,
        turns=sum(message.role == "assistant" for message in attempt.messages),
        tokens=line.tokens,
        horizon=line.horizon,
        policy_step=line.policy_step,
        solved=earned is not None and earned.reward >= SOLVED_AT,
        due_reward=due.reward,
        due_masked=due.masked,
        drawn=sum(tokens for _, tokens in line.drawn) if line.drawn else None,
        calls=len(results),
        failed_calls=sum(not result.ok and not is_injected(result) for result in results),
        impossible=_explain_impossible(earned),
    )


def _explain_impossible(earned: Reward | None) -> str:
    if earned is None:
        return ""
    if not 0 <= earned.reward <= 1:
        return f"is reported to have earned {earned.reward:g}; a verifier gives 0 to 1"
    if not 0 <= earned.passed <= earned.total:
        return f"is reported to have passed {earned.passed} of {earned.total} checks"
    return ""
