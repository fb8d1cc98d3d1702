"""What many tasks ask of the database at once is carried out together, and one's fault is its own."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError

from webapp.batches.engine.write_batcher import WriteBatcher


def carried_out(wishes: list[int], carry_out: Any) -> list[Any]:
    async def run() -> list[Any]:
        with ThreadPoolExecutor(1) as threads:
            gathering: WriteBatcher[int] = WriteBatcher(threads, carry_out)
            return await asyncio.gather(*(gathering.do(wish) for wish in wishes), return_exceptions=True)

    return asyncio.run(run())


def test_what_waits_is_carried_out_together_and_answered_in_its_order() -> None:
    groups: list[list[int]] = []

    def carry_out(wishes: list[int]) -> list[int]:
        groups.append(wishes)
        return [wish * 2 for wish in wishes]

    assert carried_out(list(range(50)), carry_out) == [number * 2 for number in range(50)]
    assert groups == [list(range(50))]


def test_a_wish_that_breaks_its_transaction_is_alone_with_its_error() -> None:
    def carry_out(wishes: list[int]) -> list[int]:
        if 3 in wishes:
            raise ValueError("three")
        return wishes

    found = carried_out([1, 2, 3, 4], carry_out)
    assert [found[0], found[1], found[3]] == [1, 2, 4]
    assert isinstance(found[2], ValueError)


def test_an_answer_that_is_an_error_is_raised_to_whoever_asked() -> None:
    found = carried_out([1, 2], lambda wishes: [wishes[0], KeyError("two")])
    assert found[0] == 1
    assert isinstance(found[1], KeyError)


def test_a_database_that_is_away_is_asked_once_for_all() -> None:
    tries: list[int] = []

    def carry_out(wishes: list[int]) -> list[int]:
        tries.append(len(wishes))
        raise OperationalError("away")

    assert all(isinstance(one, OperationalError) for one in carried_out([1, 2, 3], carry_out))
    assert tries == [3]


def test_what_was_asked_for_is_done_where_the_asker_was_given_up() -> None:
    done: list[int] = []

    def carry_out(wishes: list[int]) -> list[int]:
        done.extend(wishes)
        return wishes

    async def run() -> None:
        with ThreadPoolExecutor(1) as threads:
            gathering: WriteBatcher[int] = WriteBatcher(threads, carry_out)
            asked = asyncio.create_task(gathering.do(7))
            await asyncio.sleep(0)
            asked.cancel()
            await gathering.drain()
            with pytest.raises(asyncio.CancelledError):
                await asked

    asyncio.run(run())
    assert done == [7]
