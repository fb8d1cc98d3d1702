"""Verification by a rubric: a judge says of each criterion whether it is met.

The reward is 1 if and only if every criterion passes; the mean is kept beside it and is never the reward. A judge that
gives no usable verdict is an infrastructure failure: nothing was judged, so there is no reward, least of all 0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StringConstraints

from synthesis.contracts import Frozen, Message, Patch, State
from synthesis.errors import InputError, MalformedReply
from synthesis.llm import ChatModel
from synthesis.llm.reply_reader import read_json
from synthesis.prompts import fence_line, hashes, prompt
from synthesis.runtime import make_patch

TRIES = 3
MOST_CRITERIA = 50
FACT_CHARS = 20_000
ANSWER_CHARS = 20_000
REPLY_CHARS = 100_000


class RubricCase(Frozen):
    """What a judge sees: the task, the criteria, the answer, and how the end state differs from the start."""

    instruction: str
    criteria: tuple[str, ...]
    answer: str = ""
    changes: Patch = Field(default_factory=list)


def rubric_case(instruction: str, start: State, final: State, answer: str) -> RubricCase:
    """An end as a judge sees it, but for the criteria: equal ends make equal questions, wherever they are judged."""
    return RubricCase(instruction=instruction, criteria=(), answer=answer, changes=make_patch(start, final))


class CriterionVerdict(Frozen):
    passed: bool
    reason: str = ""


class RubricReward(Frozen):
    """`reward` is 0 or 1, `mean` the share of criteria met. `prompts` maps the prompt used to its SHA-256."""

    reward: float
    mean: float
    verdicts: tuple[CriterionVerdict, ...]
    judge: str = ""
    prompts: dict[str, str] = Field(default_factory=dict)


class _CriterionReply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    criterion: StrictInt
    passed: StrictBool
    reason: Annotated[str, StringConstraints(max_length=4_000)] = ""


class _RubricReply(BaseModel):
    verdicts: list[_CriterionReply]


def rubric_hash(criteria: Sequence[str]) -> str:
    """SHA-256, in hex, of the criteria in their order."""
    text = json.dumps({"kind": "rubric", "criteria": list(criteria)}, sort_keys=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


async def judge_rubric(judge: ChatModel, case: RubricCase, tries: int = TRIES) -> RubricReward:
    """The judge's reward for one end. A reply that cannot be used is asked for again, `tries` times in all.

    Raises InputError (no criteria, or more than 50), LLMError, and of those MalformedReply (no usable verdict).
    """
    if not 0 < len(case.criteria) <= MOST_CRITERIA:
        raise InputError(f"A rubric needs 1 to {MOST_CRITERIA} criteria; this one has {len(case.criteria)}.")
    messages = [Message(role="user", content=spelled(case))]
    wrong = ""
    for _ in range(tries):
        reply = await judge.complete(messages, temperature=0.0)
        try:
            verdicts = read_verdicts(reply.message.content, len(case.criteria))
        except ValueError as error:
            wrong = str(error)
            again = prompt("judge", "again").render(reason=wrong, count=str(len(case.criteria)))
            unusable = Message(role="assistant", content=reply.message.content[:REPLY_CHARS])
            messages = [messages[0], unusable, Message(role="user", content=again)]
            continue
        met = sum(verdict.passed for verdict in verdicts)
        return RubricReward(
            reward=float(met == len(verdicts)),
            mean=met / len(verdicts),
            verdicts=verdicts,
            judge=judge.name,
            prompts=hashes(prompt("judge", "rubric")),
        )
    raise MalformedReply(f"The judge {judge.name} gave no usable verdict in {tries} replies: {wrong}")


def spelled(case: RubricCase) -> str:
    """The judge's prompt. The fence depends on what it encloses, so that nothing enclosed can close it."""
    facts = _bounded(json.dumps(case.changes, ensure_ascii=True), FACT_CHARS)
    answer = json.dumps(_bounded(case.answer, ANSWER_CHARS), ensure_ascii=True)
    return prompt("judge", "rubric").render(
        instruction=case.instruction,
        criteria="\n".join(f"{number}. {text}" for number, text in enumerate(case.criteria, 1)),
        facts=facts,
        answer=answer,
        fence=fence_line("evidence", f"{facts}\0{answer}"),
    )


def read_verdicts(text: str, count: int) -> tuple[CriterionVerdict, ...]:
    """The verdicts in a reply, one for each criterion. Raises ValueError with what is wrong."""
    if len(text) > REPLY_CHARS:
        raise ValueError(f"it is longer than {REPLY_CHARS:,} characters")
    try:
        reply = read_json(text, _RubricReply)
    except InputError as error:
        raise ValueError(str(error)[:300]) from None
    if [verdict.criterion for verdict in reply.verdicts] != list(range(1, count + 1)):
        raise ValueError(f"it must judge the criteria 1 to {count}, each once and in their order")
    return tuple(CriterionVerdict(passed=verdict.passed, reason=verdict.reason) for verdict in reply.verdicts)


def _bounded(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]} … ({len(text) - most:,} more characters are not shown)"
