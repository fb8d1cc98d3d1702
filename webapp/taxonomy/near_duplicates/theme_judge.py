"""Judge of near-duplicates among all themes. Its replies are kept, so that a later grouping asks only what is new."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWorking
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.db import connection

from synthesis.errors import InputError, LLMError
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.cost import CostMeter
from synthesis.llm.store import MemoryStore
from synthesis.scripted import ScriptedModel
from synthesis.themes.judged_groups import NEAREST, JudgedGroups
from synthesis.themes.judged_themes import judged_themes
from synthesis.themes.vectors import Vectoriser
from webapp.endpoints.connections import chat_with
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import default_of, find_choice, prices
from webapp.taxonomy.models import ThemeReply

SCRIPTED = "scripted"
VECTORS_ALONE = "none"
ITEM = "themes"
"""Where its calls are made: the same two texts are one question in every grouping."""
LOOK_SECONDS = 0.3
T = TypeVar("T")
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class ThemeJudge:
    """Who is asked, and about how many pairs at most. `value` is how people choose it."""

    value: str
    name: str
    open: Callable[[], AbstractAsyncContextManager[Any]]
    most: int


@dataclass(frozen=True)
class JudgedThemes:
    """What a judge said of all themes, and what that cost."""

    found: JudgedGroups
    cost: float
    unpriced: int


class GroupingStoppedError(Exception):
    """A person, or another worker that holds the job by now, wants the judge to be asked no further."""


def judge_named(choice: str, most: int) -> ThemeJudge | None:
    """By value: `endpoint id/model`, "scripted", "none" for vectors alone; "" is the model that plays the judge, if
    one does. Raises InputError."""
    if choice == SCRIPTED:
        return ThemeJudge(SCRIPTED, SCRIPTED, _scripted, most)
    chosen = default_of(LLMRole.JUDGE) if not choice else None if choice == VECTORS_ALONE else find_choice(choice)
    if chosen is None:
        if choice not in ("", VECTORS_ALONE):
            raise InputError("The judge's model is not listed at its endpoint. Choose another one.")
        return None
    row, model = chosen
    return ThemeJudge(f"{row.pk}/{model}", f"{row.name}/{model}", lambda: chat_with(row, model, "judge"), most)


def judge_of_role() -> str:
    """The value of the model that plays the judge; "none" where vectors alone decide."""
    chosen = default_of(LLMRole.JUDGE)
    return f"{chosen[0].pk}/{chosen[1]}" if chosen else VECTORS_ALONE


@asynccontextmanager
async def _scripted() -> AsyncIterator[ScriptedModel]:
    yield ScriptedModel()


def judged(
    texts: Sequence[str], vectorise: Vectoriser, judge: ThemeJudge, apart: Collection[int], progress: Progress
) -> JudgedThemes:
    """The judge's verdicts on what may be one of these texts. Blocks, and tells how far it is.

    Raises LLMError where the judge cannot be asked: then nothing is known, and nothing is to be folded or unfolded.
    """
    told = [0, len(texts)]
    stop = threading.Event()

    def tell(done: int, total: int) -> None:
        told[:] = done, total
        if stop.is_set():
            raise GroupingStoppedError

    with ThreadPoolExecutor(1, thread_name_prefix="theme-judge") as thread:
        work = thread.submit(asyncio.run, _asked(texts, vectorise, judge, apart, tell))
        try:
            while True:
                try:
                    return work.result(timeout=LOOK_SECONDS)
                except StillWorking:
                    progress(told[0], told[1], "Pairs of themes are judged")
        finally:
            stop.set()


async def _asked(
    texts: Sequence[str],
    vectorise: Vectoriser,
    judge: ThemeJudge,
    apart: Collection[int],
    tell: Callable[[int, int], None],
) -> JudgedThemes:
    meter = CostMeter(prices=await asyncio.to_thread(_released, prices))
    async with judge.open() as model:
        store = MemoryStore() if judge.name == SCRIPTED else KeptReplies()
        asker = Asker({"judge": model}, store, meter)

        found = await judged_themes(
            texts,
            lambda index, stage: (asker, Site(role="judge", stage=stage, item=ITEM)),
            vectorise=vectorise,
            nearest=NEAREST,
            apart=apart,
            most=judge.most,
            tell=tell,
        )
    if found.gave_up:
        raise LLMError("refused", f"The judge could not be asked, so no theme was folded: {found.gave_up}")
    return JudgedThemes(found, meter.total.cost, meter.total.unpriced)


@dataclass
class KeptReplies:
    """The store of a grouping's calls: replies stand in a table, whatever else becomes of the job."""

    failed: list[str] = field(default_factory=list)

    async def find(self, key: str) -> Reply | None:
        known = ThemeReply.objects.filter(key=key).values_list("reply", flat=True)
        body = await asyncio.to_thread(_released, known.first)
        return None if body is None else Reply.model_validate(body)

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        """Nothing is held: a request that is lost is sent again."""

    async def keep(self, key: str, call: StageCall, reply: Reply) -> Reply:
        body = reply.model_dump(mode="json", exclude_defaults=True)
        await asyncio.to_thread(_released, lambda: ThemeReply.objects.get_or_create(key=key, defaults={"reply": body}))
        return reply

    async def fail(self, key: str, call: StageCall, error: LLMError) -> None:
        self.failed.append(key)

    async def note_reading(self, key: str, repairs: Sequence[str], unusable: str) -> None:
        if unusable:  # or the next grouping would find the same useless reply
            await asyncio.to_thread(_released, ThemeReply.objects.filter(key=key).delete)


def _released(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connection.close()
