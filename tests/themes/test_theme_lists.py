"""Lists of themes: every two stand together in one, and a judge's groups become pairs that it still decides on."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence

import pytest

from synthesis.contracts import Message
from synthesis.errors import LLMError, MalformedReply
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.store import MemoryStore
from synthesis.scripted import ScriptedModel
from synthesis.themes.judged_themes import judge_themes
from synthesis.themes.theme_lists import HALF, MOST_LISTED, WHOLE, LikeThemesReply, build_lists, propose_pairs
from synthesis.themes.vectors import local
from tests.benchmarks.themes import PAIRS, figures, judged, read

CINEMAS = (
    "Cinema box office\nSeats are sold for films on several screens.",
    "Movie theatre ticketing\nPatrons choose a showtime and pay at the counter.",
)


def asker(model: object) -> Asker:
    return Asker({"judge": model}, MemoryStore())  # type: ignore[dict-item]


def at(model: object) -> object:
    asked = asker(model)
    return lambda index, stage: (asked, Site(role="judge", stage=stage, item=f"theme-{index}"))


@pytest.mark.parametrize("count", [2, HALF, HALF + 1, 3 * HALF + 7])
def test_every_two_themes_stand_together_in_a_list(count: int) -> None:
    together = {pair for indices in build_lists(count) for pair in itertools.combinations(indices, 2)}
    assert together == set(itertools.combinations(range(count), 2))
    assert max(map(len, build_lists(count))) <= 2 * HALF


def test_of_one_theme_or_of_too_many_there_are_no_lists() -> None:
    assert build_lists(1) == build_lists(MOST_LISTED + 1) == []


def groups(*found: list[int]) -> list[tuple[int, int]]:
    async def ask(indices: Sequence[int]) -> LikeThemesReply:
        return LikeThemesReply(groups=list(found))

    return asyncio.run(propose_pairs(20, ask))


def test_groups_become_pairs_and_a_large_one_a_chain() -> None:
    assert groups([3, 1], [5, 5], [1, 3, 4]) == [(0, 2), (0, 3), (2, 3)]
    many = groups(list(range(1, WHOLE + 2)))
    assert len(many) == 2 * WHOLE - 1
    assert {early for early, _ in many if early == 0} == {0}


def test_a_list_that_gets_no_usable_reply_proposes_nothing() -> None:
    async def ask(indices: Sequence[int]) -> LikeThemesReply:
        raise MalformedReply("It gave no usable reply in 3 tries.")

    assert asyncio.run(propose_pairs(20, ask)) == []


class Judge:
    """Says that every two are the same, and first names a theme that is not listed."""

    name = "judge"

    def __init__(self) -> None:
        self.lists = 0

    async def answer(self, call: StageCall) -> Reply:
        words: dict[str, object] = {
            "reason": "Both are cinemas.",
            "same": "Cinema" in str(call) and "Movie" in str(call),
        }
        if call.site.stage == "like_themes":
            self.lists += 1
            words = {"groups": [[1, 99]] if self.lists == 1 else [[1, 2]]}
        return Reply(message=Message(role="assistant", content=json.dumps(words)))


def test_a_theme_that_is_not_listed_is_asked_about_again_and_pairs_without_a_common_word_are_judged() -> None:
    others = [f"Desk {number}\nForms of office {number}." for number in range(14)]
    judge = Judge()
    found = asyncio.run(judge_themes([*CINEMAS, *others], at(judge), nearest=1))  # type: ignore[arg-type]
    assert judge.lists == 2
    assert (0, 1) in found.same
    assert [member.index for member in found.groups[0].members] == [1]


def test_of_the_labelled_pairs_nearly_all_are_found_and_no_other() -> None:
    texts, pairs = read(PAIRS)
    found = figures(asyncio.run(judged(texts, ScriptedModel())).groups, pairs)
    assert found["precision"] == 1.0
    assert found["recall"] >= 0.95


def test_vectors_of_a_model_need_no_lists_and_a_judge_that_is_away_is_said() -> None:
    class Known:
        name = "known"

        def __call__(self, texts: Sequence[str]) -> object:
            return local(texts)

    judge = Judge()
    asyncio.run(judge_themes([*CINEMAS, *"abcdef"], at(judge), vectorise=Known(), nearest=1))  # type: ignore[arg-type]
    assert judge.lists == 0

    class Away:
        name = "away"

        async def answer(self, call: StageCall) -> Reply:
            raise LLMError("connection", "Nobody answers.", away="Server")

    with pytest.raises(LLMError, match="Nobody answers"):
        asyncio.run(judge_themes([*CINEMAS, *"abcdef"], at(Away()), nearest=1))  # type: ignore[arg-type]
