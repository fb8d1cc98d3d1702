"""Verification by a rubric: code decides some of its criteria over the answer form, and a judge the facts.

The reward is 1 if and only if every criterion is met; the mean is stored beside it and is never the reward. The judge
is asked once for all facts and must quote, for each, evidence that really occurs in its prompt. A judge that gives no
usable verdict is an infrastructure failure: there is no judgement, so there is no reward, least of all 0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StringConstraints

from synthesis.contracts import AnswerField, Criterion, Frozen, Message, Reward, RubricVerifier, Verdict
from synthesis.errors import InputError, LLMError, MalformedReply
from synthesis.formats.answer_form import build_compare_spec, describe_type
from synthesis.formats.criteria import MOST_CRITERIA, needs_fact_judge
from synthesis.llm import ChatModel
from synthesis.llm.reply_reader import read_json
from synthesis.prompts import build_fence_line, get_prompt, map_prompt_hashes
from synthesis.runtime.child.answer_values import answer_value, is_equal, is_value
from synthesis.verifiers.rubric_evidence import Evidence, is_quoted

TRIES = 3
REPLY_CHARS = 100_000
REASON_CHARS = 2_000
QUOTE_CHARS = 2_000
NO_JUDGE = (
    "This task is judged by a rubric, and no model plays the judge. Set a default model for the role of the judge."
)


class Rubric(Frozen):
    """A task's criteria, with the answer form and the expected values for those that code decides."""

    criteria: tuple[Criterion, ...]
    answer_form: tuple[AnswerField, ...] = ()
    expected_answer: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def from_verifier(cls, verifier: RubricVerifier, form: Sequence[AnswerField]) -> Rubric:
        """Return a task's rubric: its verifier, with the task's answer form."""
        expected = verifier.expected_answer
        return cls(criteria=verifier.criteria, answer_form=tuple(form), expected_answer=expected)

    @property
    def facts(self) -> tuple[str, ...]:
        """The texts of the criteria that a judge decides."""
        return tuple(one.text for one in self.criteria if one.dimension == "fact")

    @property
    def asks_judge(self) -> bool:
        return needs_fact_judge(self.criteria)


class RubricCase(Frozen):
    """The question to a judge: the task, and the evidence of what was done."""

    instruction: str
    evidence: Evidence
    answer: str = ""
    """The answer as it was given; the evidence holds it as it is shown."""


class _CriterionReply(BaseModel):
    model_config = ConfigDict(extra="ignore")

    criterion: StrictInt
    passed: StrictBool
    quote: Annotated[str, StringConstraints(max_length=QUOTE_CHARS)]
    reason: Annotated[str, StringConstraints(max_length=4_000)] = ""


class _RubricReply(BaseModel):
    verdicts: list[_CriterionReply]


def hash_rubric(rubric: Rubric) -> str:
    """Return the SHA-256, in hex, of the criteria in their order and of the data by which code decides some of them."""
    parts: dict[str, Any] = {"kind": "rubric", "criteria": [one.record for one in rubric.criteria]}
    named = {one.field for one in rubric.criteria if one.field}
    if named:
        parts["form"] = {field.name: build_compare_spec(field) for field in rubric.answer_form if field.name in named}
        parts["expected"] = {name: value for name, value in rubric.expected_answer.items() if name in named}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode("ascii")).hexdigest()


def hash_question(messages: Iterable[tuple[Any, Any]]) -> str:
    """Return the SHA-256, in hex, of messages as (role, text), by which an earlier verdict is found."""
    return hashlib.sha256(json.dumps([list(message) for message in messages]).encode("ascii")).hexdigest()


async def score_rubric(
    judge: ChatModel | None, rubric: Rubric, case: RubricCase, kept: Reward | None = None, tries: int = TRIES
) -> Reward:
    """Return the reward of an end. The judge's verdicts of `kept` are reused if they answer the same question.

    A reply that cannot be used is asked for again, `tries` times in all. Raise InputError (no criteria, more than 50,
    or facts without a judge), LLMError, and as one of these MalformedReply (no usable verdict).
    """
    if not 0 < len(rubric.criteria) <= MOST_CRITERIA:
        raise InputError(f"A rubric needs 1 to {MOST_CRITERIA} criteria; this one has {len(rubric.criteria)}.")
    if not rubric.asks_judge:
        return _reward_verdicts(decide_fields(rubric, case.answer).values())
    words = spell_question(rubric, case)
    question = hash_question([("user", words)])
    if kept is not None and kept.question == question and len(kept.verdicts) == len(rubric.criteria):
        return _reward_verdicts(kept.verdicts, kept.judge, question)
    if judge is None:
        raise InputError(NO_JUDGE)
    judged = iter(await _ask_judge(judge, words, case.evidence, len(rubric.facts), tries))
    decided = decide_fields(rubric, case.answer)
    verdicts = [decided[at] if at in decided else next(judged) for at in range(len(rubric.criteria))]
    return _reward_verdicts(verdicts, judge.name, question)


def score_other_answer(rubric: Rubric, kept: Reward, answer: str) -> Reward | None:
    """Return the reward of the end of `kept` with another answer, if code alone decides that it fails.

    None if the judge has to be asked. The verdicts on facts are those of `kept`.
    """
    decided = decide_fields(rubric, answer)
    if len(kept.verdicts) != len(rubric.criteria) or all(verdict.passed for verdict in decided.values()):
        return None
    return _reward_verdicts([decided.get(at, verdict) for at, verdict in enumerate(kept.verdicts)])


def decide_fields(rubric: Rubric, answer: str) -> dict[int, Verdict]:
    """Return the verdicts that code gives over the answer form, by the criterion's index."""
    fields = {field.name: field for field in rubric.answer_form}
    return {
        at: _decide_field(one, fields[one.field], rubric.expected_answer, answer)
        for at, one in enumerate(rubric.criteria)
        if one.dimension != "fact"
    }


def spell_question(rubric: Rubric, case: RubricCase) -> str:
    """Return the judge's prompt. The fence depends on what it encloses, so that nothing enclosed can close it."""
    evidence = case.evidence
    return get_prompt("judge", "rubric").render(
        instruction=case.instruction,
        criteria="\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(rubric.facts, 1)),
        calls=evidence.calls,
        facts=evidence.changes,
        answer=evidence.answer,
        fence=build_fence_line("evidence", "\0".join((evidence.calls, evidence.changes, evidence.answer))),
    )


def list_judge_prompts(reward: Reward) -> dict[str, str]:
    """Return the prompts behind a reward with their SHA-256; empty if no judge was asked."""
    return map_prompt_hashes(get_prompt("judge", "rubric")) if reward.judge else {}


def read_verdicts(text: str, count: int, evidence: Evidence) -> tuple[Verdict, ...]:
    """Return the verdicts in a reply, one for each fact. Raise ValueError with the reason."""
    if len(text) > REPLY_CHARS:
        raise ValueError(f"it is longer than {REPLY_CHARS:,} characters")
    try:
        reply = read_json(text, _RubricReply)
    except InputError as error:
        raise ValueError(str(error)[:300]) from None
    if [verdict.criterion for verdict in reply.verdicts] != list(range(1, count + 1)):
        raise ValueError(f"it must judge the criteria 1 to {count}, each once and in their order")
    for verdict in reply.verdicts:
        if not is_quoted(verdict.quote, evidence):
            raise ValueError(
                f"the quote of criterion {verdict.criterion} does not stand in the evidence: copy a part of it, letter "
                "by letter, without anything left out"
            )
    return tuple(
        Verdict(passed=one.passed, reason=one.reason[:REASON_CHARS], quote=one.quote) for one in reply.verdicts
    )


async def _ask_judge(judge: ChatModel, words: str, evidence: Evidence, count: int, tries: int) -> tuple[Verdict, ...]:
    asked = Message(role="user", content=words)
    messages, wrong = [asked], ""
    for _ in range(tries):
        try:
            reply = await judge.complete(messages, temperature=0.0)
        except MalformedReply:
            raise
        except LLMError as error:
            message, more = f"The judge {judge.name} could not be asked: {error}", (error.requests, error.retry_after)
            raise LLMError(error.reason, message, requests=more[0], retry_after=more[1], away=error.away) from error
        try:
            return read_verdicts(reply.message.content, count, evidence)
        except ValueError as error:
            wrong = str(error)
        again = get_prompt("judge", "again").render(reason=wrong, count=str(count))
        unusable = Message(role="assistant", content=reply.message.content[:REPLY_CHARS])
        messages = [asked, unusable, Message(role="user", content=again)]
    raise MalformedReply(f"The judge {judge.name} gave no usable verdict in {tries} replies: {wrong}")


def _decide_field(criterion: Criterion, field: AnswerField, expected: Mapping[str, Any], answer: str) -> Verdict:
    value = answer_value(answer, field.name)
    if criterion.dimension == "completeness":
        return _build_verdict(value is not None, f"{field.name} was given", f"{field.name} was not given")
    spec = build_compare_spec(field)
    if criterion.dimension == "schema":
        met = value is not None and is_value(value, spec)
        return _build_verdict(
            met, f"{field.name} is {describe_type(field)}", f"{field.name} is not {describe_type(field)}"
        )
    met = is_equal(value, expected.get(field.name), spec)
    return _build_verdict(met, f"{field.name} is the expected value", f"{field.name} is not the expected value")


def _build_verdict(met: bool, yes: str, no: str) -> Verdict:
    return Verdict(passed=met, reason=f"By the answer form: {yes if met else no}.")


def _reward_verdicts(verdicts: Iterable[Verdict], judge: str = "", question: str = "") -> Reward:
    every: Sequence[Verdict] = tuple(verdicts)
    met = sum(verdict.passed for verdict in every)
    return Reward(
        reward=float(met == len(every)),
        passed=met,
        total=len(every),
        rule="all",
        verdicts=tuple(every),
        judge=judge,
        question=question,
    )
