"""The judge of an audit: opened in an event loop of its own, and asked what checks cannot tell of an end's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from synthesis.contracts import Mark, Reward, State, Usage
from synthesis.errors import InputError
from synthesis.llm import ChatModel
from synthesis.llm.chat import CountedModel
from synthesis.verifiers.audit_report import Fault, full
from synthesis.verifiers.call_sequences import Subject
from synthesis.verifiers.checks import reward_of
from synthesis.verifiers.doubts import Decision, best_judged, criterion_of, decided
from synthesis.verifiers.faults import label
from synthesis.verifiers.probe_families import spread
from synthesis.verifiers.rubric import RubricCase, rubric_case
from synthesis.verifiers.score_comparison import JudgedEnd

Judge = Callable[[], AbstractAsyncContextManager[ChatModel]]
"""Opens the judge in the event loop that asks it."""
MOST_VARIANTS = 24
"""A judge costs a request an end; of more variants whose answer it must decide so many are put to it, evenly spread."""
LOOK_SECONDS = 0.5
NO_JUDGE = "Not judged: a check leaves its doubt to a judge, and no model plays the judge."
NOT_CHOSEN = f"Not judged: a judge must decide more than {MOST_VARIANTS} variants, and this one was not chosen."
T = TypeVar("T")


@dataclass(frozen=True)
class DecidedEnds:
    """Ends after their doubts were put to a judge; `faults` say what was not."""

    ends: tuple[JudgedEnd | None, ...]
    faults: tuple[Fault, ...] = ()
    judge: str = ""
    usage: Usage = field(default_factory=Usage)


def ask(
    judge: Judge, work: Callable[[ChatModel], Coroutine[Any, Any, T]], check_stop: Callable[[], None]
) -> tuple[T, Usage]:
    """What `work` makes of the judge, and what asking cost. A judge that keeps silent keeps nobody who wants to stop.

    Runs an event loop of its own, so it is not for callers that run inside one. Raises LLMError, and what `check_stop`
    raises.
    """

    async def opened() -> tuple[T, Usage]:
        async with judge() as model:
            counted = CountedModel(model)
            return await work(counted), counted.usage

    async def stoppable() -> tuple[T, Usage]:
        task = asyncio.create_task(opened())
        try:
            while not task.done():
                check_stop()
                await asyncio.wait([task], timeout=LOOK_SECONDS)
        finally:
            task.cancel()
            await asyncio.wait([task])
        return task.result()

    return asyncio.run(stoppable())


def decide_ends(
    judge: Judge | None,
    subject: Subject,
    start: State,
    marks: Sequence[Mark],
    ends: Sequence[JudgedEnd | None],
    own: int,
    check_stop: Callable[[], None] = lambda: None,
) -> DecidedEnds:
    """Put what the checks cannot tell of these ends to the judge, as a score does, equal ends once.

    The first `own` are the start and the reference's: a doubt of theirs counts where a yes would earn more, one of a
    variant only where it would earn everything. Without a judge such ends stay `unjudged`.
    """
    doubted = {
        place: reward
        for place, end in enumerate(ends)
        if end is not None and (reward := _doubted(subject, marks, end, everything=place >= own)) is not None
    }
    if not doubted:
        return DecidedEnds(tuple(ends))
    if judge is None:
        unjudged = [_unjudged(end, NO_JUDGE) if place in doubted else end for place, end in enumerate(ends)]
        return DecidedEnds(tuple(unjudged), tuple(_missing_judge(subject, list(doubted.values()), len(ends))))
    keys = {place: (end.answer, end.digest) for place, end in enumerate(ends) if end is not None and place in doubted}
    certain = {keys[place] for place in keys if place < own}
    others = list(dict.fromkeys(key for key in keys.values() if key not in certain))
    chosen = certain | set(spread(others, MOST_VARIANTS))
    questions = {keys[place]: place for place in reversed(keys) if keys[place] in chosen}

    async def asked(model: ChatModel) -> tuple[str, list[Decision]]:
        cases = [(doubted[place], _case(subject, start, ends[place])) for place in questions.values()]
        work = (decided(model, subject.checks, reward, marks, case) for reward, case in cases)
        return model.name, await asyncio.gather(*work)

    (name, decisions), usage = ask(judge, asked, check_stop)
    verdicts = {key: decision.reward.verdicts for key, decision in zip(questions, decisions, strict=True)}
    known: list[JudgedEnd | None] = list(ends)
    for place, key in keys.items():
        end = ends[place]
        assert end is not None
        known[place] = replace(end, verdicts=verdicts[key]) if key in verdicts else _unjudged(end, NOT_CHOSEN)
    return DecidedEnds(tuple(known), tuple(_cut(len(others))), name, usage)


def _doubted(subject: Subject, marks: Sequence[Mark], end: JudgedEnd, *, everything: bool) -> Reward | None:
    """What an end earns before a judge is asked; None where its yes would change nothing."""
    try:
        reward = reward_of(end.verdicts, subject.rule, marks, end.outside)
    except InputError:
        return None
    best = best_judged(subject.checks, reward, marks)
    counts = best is not None and best > reward.reward and (full(best) or not everything)
    return reward if counts else None


def _case(subject: Subject, start: State, end: JudgedEnd | None) -> RubricCase:
    assert end is not None
    return rubric_case(subject.instruction, start, end.state, end.answer)


def _unjudged(end: JudgedEnd | None, why: str) -> JudgedEnd | None:
    return replace(end, unjudged=why) if end is not None else None


def _missing_judge(subject: Subject, doubted: Sequence[Reward], ends: int) -> list[Fault]:
    """A fault for each check that leaves a doubt to a judge who is not there."""
    faults = []
    for index, source in enumerate(subject.checks):
        count = sum(reward.verdicts[index].undecided for reward in doubted) if criterion_of(source) else 0
        if count:
            message = f"{label(subject.labels, index)} cannot tell what the answer says on {count} of the {ends} ends "
            message += "tried and leaves it to a judge, but no model plays the judge: choose one for this role among "
            message += "the endpoints, and audit again."
            faults.append(Fault(kind="no_judge", message=message, check=index))
    return faults


def _cut(wanted: int) -> list[Fault]:
    if wanted <= MOST_VARIANTS:
        return []
    message = f"{MOST_VARIANTS} of {wanted:,} variants whose answer a judge must decide were put to it, evenly spread."
    return [Fault(kind="mutants_cut", message=message)]


__all__ = ["Judge", "ask", "decide_ends"]
