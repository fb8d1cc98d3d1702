"""Judge of near-duplicates among all themes. Its replies are stored, so that a later grouping asks only what is new."""

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
from synthesis.themes.judged_themes import judge_themes
from synthesis.themes.vectors import Vectoriser
from webapp.endpoints.connections import open_chat_model
from webapp.endpoints.models import LLMRole
from webapp.endpoints.queries import find_choice, find_default_model, load_prices
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
    """A judge, and the number of pairs it is asked about at most. `value` is how users choose it."""

    value: str
    name: str
    open: Callable[[], AbstractAsyncContextManager[Any]]
    most: int


@dataclass(frozen=True)
class JudgedThemes:
    """The verdicts of a judge on all themes, and their cost."""

    found: JudgedGroups
    cost: float
    unpriced: int


class GroupingStoppedError(Exception):
    """The judge must not be asked further: a user stopped the job, or another worker holds it by now."""


def find_judge(choice: str, most: int) -> ThemeJudge | None:
    """Return a judge by value: `endpoint id/model`, "scripted", "none" for vectors alone; "" is the model with the
    judge's role, if there is one. Raises InputError."""
    if choice == SCRIPTED:
        return ThemeJudge(SCRIPTED, SCRIPTED, _open_scripted_model, most)
    model_choice = (
        find_default_model(LLMRole.JUDGE) if not choice else None if choice == VECTORS_ALONE else find_choice(choice)
    )
    if model_choice is None:
        if choice not in ("", VECTORS_ALONE):
            raise InputError("The judge's model is not listed at its endpoint. Choose another one.")
        return None
    row, model = model_choice
    return ThemeJudge(f"{row.pk}/{model}", f"{row.name}/{model}", lambda: open_chat_model(row, model, "judge"), most)


def get_role_judge() -> str:
    """Return the value of the model with the judge's role; "none" if vectors alone decide."""
    chosen = find_default_model(LLMRole.JUDGE)
    return f"{chosen[0].pk}/{chosen[1]}" if chosen else VECTORS_ALONE


@asynccontextmanager
async def _open_scripted_model() -> AsyncIterator[ScriptedModel]:
    yield ScriptedModel()


def judge_theme_texts(
    texts: Sequence[str], vectorise: Vectoriser, judge: ThemeJudge, apart: Collection[int], progress: Progress
) -> JudgedThemes:
    """Return the judge's verdicts on which of these texts are one. Blocks, and reports its progress.

    Raises LLMError if the judge cannot be asked: then nothing is known, and nothing is to be folded or unfolded.
    """
    reported = [0, len(texts)]
    stop = threading.Event()

    def note_progress(done: int, total: int) -> None:
        reported[:] = done, total
        if stop.is_set():
            raise GroupingStoppedError

    with ThreadPoolExecutor(1, thread_name_prefix="theme-judge") as thread:
        work = thread.submit(asyncio.run, _ask_judge(texts, vectorise, judge, apart, note_progress))
        try:
            while True:
                try:
                    return work.result(timeout=LOOK_SECONDS)
                except StillWorking:
                    progress(reported[0], reported[1], "Pairs of themes are judged")
        finally:
            stop.set()


async def _ask_judge(
    texts: Sequence[str],
    vectorise: Vectoriser,
    judge: ThemeJudge,
    apart: Collection[int],
    tell: Callable[[int, int], None],
) -> JudgedThemes:
    meter = CostMeter(prices=await asyncio.to_thread(_run_and_disconnect, load_prices))
    async with judge.open() as model:
        store = MemoryStore() if judge.name == SCRIPTED else KeptReplies()
        asker = Asker({"judge": model}, store, meter)

        judged_groups = await judge_themes(
            texts,
            lambda index, stage: (asker, Site(role="judge", stage=stage, item=ITEM)),
            vectorise=vectorise,
            nearest=NEAREST,
            apart=apart,
            most=judge.most,
            tell=tell,
        )
    if judged_groups.gave_up:
        raise LLMError("refused", f"The judge could not be asked, so no theme was folded: {judged_groups.gave_up}")
    return JudgedThemes(judged_groups, meter.total.cost, meter.total.unpriced)


@dataclass
class KeptReplies:
    """The store of a grouping's calls: replies are stored in a table, whatever else becomes of the job."""

    failed: list[str] = field(default_factory=list)

    async def find(self, key: str) -> Reply | None:
        known = ThemeReply.objects.filter(key=key).values_list("reply", flat=True)
        body = await asyncio.to_thread(_run_and_disconnect, known.first)
        return None if body is None else Reply.model_validate(body)

    async def begin(self, key: str, call: StageCall, model: str) -> None:
        """Hold nothing: a request that is lost is sent again."""

    async def keep(self, key: str, call: StageCall, reply: Reply) -> Reply:
        body = reply.model_dump(mode="json", exclude_defaults=True)
        await asyncio.to_thread(
            _run_and_disconnect, lambda: ThemeReply.objects.get_or_create(key=key, defaults={"reply": body})
        )
        return reply

    async def fail(self, key: str, call: StageCall, error: LLMError) -> None:
        self.failed.append(key)

    async def note_reading(self, key: str, repairs: Sequence[str], unusable: str) -> None:
        if unusable:  # or the next grouping would find the same useless reply
            await asyncio.to_thread(_run_and_disconnect, ThemeReply.objects.filter(key=key).delete)


def _run_and_disconnect(work: Callable[[], T]) -> T:
    try:
        return work()
    finally:
        connection.close()
