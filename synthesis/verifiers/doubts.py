"""Checks that cannot tell what an answer says, decided by a judge: the criterion stands in the check, as `CRITERION`.

A check may name one only if it looks at nothing of the end state: what a judge decides of an answer must not stand for
what was done.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from synthesis.contracts import Judgement, Mark, Reward, Verdict
from synthesis.errors import LLMError, MalformedReply
from synthesis.llm import ChatModel
from synthesis.syntax import UNREADABLE, parse
from synthesis.verifiers.check_reads import check_reads
from synthesis.verifiers.checks import reward_of
from synthesis.verifiers.rubric import MOST_CRITERIA, RubricCase, judge_rubric

CRITERION = "CRITERION"
CRITERION_CHARS = 1_000
CHECK_CHARS = 100_000
"""A longer check is not read for a criterion: pages ask for one too, also of checks in uploaded files."""


@dataclass(frozen=True)
class Decision:
    """A reward after its doubts were put to a judge, and the prompts used for it with their SHA-256."""

    reward: Reward
    prompts: dict[str, str] = field(default_factory=dict)


def criterion_of(source: str) -> str:
    """The criterion by which a judge decides where this check cannot tell; empty where it names none, or looks at more
    than the answer and the initial state."""
    return _criterion(source) if CRITERION in source and len(source) <= CHECK_CHARS else ""


@functools.lru_cache(maxsize=4_096)
def _criterion(source: str) -> str:
    try:
        tree = parse(source)
    except UNREADABLE:
        return ""
    named = [node.value for node in tree.body if isinstance(node, ast.Assign) and _names_criterion(node)]
    texts = [node.value for node in named if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if len(texts) != 1 or len(named) != 1 or not 0 < len(texts[0].strip()) <= CRITERION_CHARS:
        return ""
    reads = check_reads(source)
    # One line: a criterion is an item of the judge's list.
    return " ".join(texts[0].split()) if reads.places == () and reads.all_but is None else ""


def _names_criterion(node: ast.Assign) -> bool:
    return any(isinstance(target, ast.Name) and target.id == CRITERION for target in node.targets)


def may_be_judged(checks: Sequence[str]) -> bool:
    """Whether some check names a criterion."""
    return any(criterion_of(source) for source in checks)


async def decided(
    judge: ChatModel, checks: Sequence[str], reward: Reward, marks: Sequence[Mark] | None, case: RubricCase
) -> Decision:
    """The reward with each doubt that names a criterion decided by the judge. `case` brings all but the criteria.

    The judge is not asked where its yes would earn nothing. One whose replies cannot be used, a refusal say, leaves the
    doubts as they are, not passed, and their checks say so: no answer may get out of being judged by confusing the
    judge. Raises LLMError where its endpoint failed: then nothing was judged, and there is no reward.
    """
    doubts = _judges_doubts(checks, reward)
    verdicts = list(reward.verdicts)
    best = best_judged(checks, reward, marks)
    if best is None or best <= reward.reward:
        return Decision(reward)
    criteria = tuple(criterion_of(checks[place]) for place in doubts)
    try:
        said = await judge_rubric(judge, case.model_copy(update={"criteria": criteria}))
    except MalformedReply as error:
        for place in doubts:
            told = f"{verdicts[place].error}. {error}"
            verdicts[place] = verdicts[place].model_copy(update={"error": told[:4_000]})
        return Decision(_made(reward, marks, verdicts))
    except LLMError as error:
        told = f"A check cannot tell what the answer says, and the judge could not be asked: {error}"
        raise LLMError(error.reason, told, requests=error.requests, retry_after=error.retry_after) from error
    for place, criterion, one in zip(doubts, criteria, said.verdicts, strict=True):
        judgement = Judgement(passed=one.passed, judge=said.judge, criterion=criterion, reason=one.reason)
        verdicts[place] = _settled(verdicts[place], judgement)
    return Decision(_made(reward, marks, verdicts), said.prompts)


def best_judged(checks: Sequence[str], reward: Reward, marks: Sequence[Mark] | None) -> float | None:
    """What it would earn if the judge said yes to each doubt that is a judge's to decide; None where none is."""
    doubts = _judges_doubts(checks, reward)
    pairs = enumerate(reward.verdicts)
    best = [one.model_copy(update={"passed": True}) if place in doubts else one for place, one in pairs]
    return _made(reward, marks, best).reward if doubts else None


def _judges_doubts(checks: Sequence[str], reward: Reward) -> list[int]:
    doubts = [place for place, one in enumerate(reward.verdicts) if one.undecided and criterion_of(checks[place])]
    return doubts[:MOST_CRITERIA]


def doubt_words(reward: Reward) -> str:
    """Which checks are still uncertain, as a sentence; empty without one."""
    if not reward.doubts:
        return ""
    which = ", ".join(map(str, reward.doubts))
    one = len(reward.doubts) == 1
    return f"{'Check' if one else 'Checks'} {which} {'is' if one else 'are'} uncertain: counted as not passed."


def as_judged(verdicts: Sequence[Verdict], earlier: Sequence[Verdict]) -> list[Verdict]:
    """Verdicts of the same checks on the same end, with what a judge decided of their doubts before.

    A judge is not asked twice: it need not say the same. For what this site recorded itself, never for what it is told.
    """
    pairs = zip_longest(verdicts, earlier[: len(verdicts)])
    return [_settled(one, old.judged) if one.undecided and old and old.judged else one for one, old in pairs]


def _settled(verdict: Verdict, judgement: Judgement) -> Verdict:
    return verdict.model_copy(update={"passed": judgement.passed, "judged": judgement})


def _made(reward: Reward, marks: Sequence[Mark] | None, verdicts: Sequence[Verdict]) -> Reward:
    return reward_of(verdicts, reward.rule, marks, reward.outside)
