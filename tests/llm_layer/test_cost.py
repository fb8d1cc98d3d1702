"""Costs and the cap: what a call costs, what is unknown, and that 64 calls at once do not run over the cap."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import ValidationError

from synthesis.contracts import Usage
from synthesis.drafts import StageUsage
from synthesis.errors import LLMError, SpendCapReached
from synthesis.llm import Reply
from synthesis.llm.asker import Asker
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.cost import FREE, MILLION, CostMeter, Price, compute_cost, list_unpriced
from synthesis.llm.store import MemoryStore
from tests.llm_layer.support import Far, said, settled, soon, stage_call

EACH = Price(completion=MILLION / 10)
"""A tenth a token of a reply, nothing for prompts: a reply of one token costs 0.1."""
ONE_TOKEN = Usage(prompt_tokens=7, completion_tokens=1)


@pytest.mark.parametrize(
    ("price", "usage", "cost"),
    [
        (Price(prompt=1, completion=2), Usage(prompt_tokens=1_000_000, completion_tokens=500_000), 2.0),
        (Price(prompt=1), Usage(prompt_tokens=1_000_000, cached_tokens=400_000), 1.0),
        (Price(prompt=1, cached=0.1), Usage(prompt_tokens=1_000_000, cached_tokens=400_000), 0.64),
        (Price(prompt=1, cached=0), Usage(prompt_tokens=1_000_000, cached_tokens=400_000), 0.6),
        (Price(prompt=1, cached=0.1), Usage(prompt_tokens=10, cached_tokens=1_000), 1e-6),
        (Price(completion=2), Usage(prompt_tokens=1, completion_tokens=1_000_000, reasoning_tokens=900_000), 2.0),
        (Price(completion=2), Usage(prompt_tokens=1, completion_tokens=100, reasoning_tokens=1_000_000), 2.0),
        (FREE, Usage(prompt_tokens=5), 0.0),
        (FREE, Usage(), 0.0),
        (None, Usage(prompt_tokens=5, completion_tokens=5), None),
        (Price(prompt=1), Usage(), None),
    ],
)
def test_what_a_reply_costs(price: Price | None, usage: Usage, cost: float | None) -> None:
    assert compute_cost(price, usage) == (pytest.approx(cost) if cost is not None else None)


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf")])
def test_a_price_is_a_number(wrong: float) -> None:
    with pytest.raises(ValidationError):
        Price(prompt=wrong)


def batch(far: Far, *, cap: float | None = None, price: Price | None = EACH, **meter: object) -> Asker:
    prices = {far.name: price} if price else {}
    return Asker({"author": far}, MemoryStore(), CostMeter(prices, cap=cap, **meter))  # type: ignore[arg-type]


def ask(asker: Asker, count: int, **parameters: object) -> list[object]:
    async def run() -> list[object]:
        calls = [stage_call(sample=number, **parameters) for number in range(count)]
        return await settled(*[asker.reply(call) for call in calls])

    return asyncio.run(run())


def test_costs_are_counted_by_role_and_stage_and_watched() -> None:
    heard: list[tuple[Site, StageUsage]] = []
    used = batch(Far([said("x", ONE_TOKEN)]), watch=lambda site, spent: heard.append((site, spent)))
    ask(used, 3)
    ask(used, 1)
    (place,) = used.meter.places.items()
    assert place[0] == ("author", "plan_state")
    assert place[1].cost == pytest.approx(0.3)
    assert (place[1].usage.completion_tokens, place[1].usage.requests, place[1].replayed) == (3, 3, 1)
    assert sum((spent for _, spent in heard), StageUsage()) == place[1]


def test_an_unknown_price_is_never_free() -> None:
    used = batch(Far([said("x", ONE_TOKEN)]), price=None)
    ask(used, 3)
    total = used.meter.total
    assert (total.usage.completion_tokens, total.cost, total.unpriced) == (3, 0.0, 3)
    assert list_unpriced({"a": FREE}, ["b", "a", "b"]) == ["b"]


def test_lost_requests_are_counted_and_have_no_cost() -> None:
    used = batch(Far([LLMError("timeout", "late", requests=2), said("x", ONE_TOKEN)]))
    ask(used, 2)
    total = used.meter.total
    assert (total.usage.requests, total.usage.lost, total.unpriced) == (2, 1, 0)
    assert total.cost == pytest.approx(0.1)


@pytest.mark.parametrize("count", [10, 11, 64])
def test_the_cap_holds_exactly_with_many_at_once(count: int) -> None:
    """Ten calls of 0.1 fit under a cap of 1, however floats add up; the eleventh does not begin."""
    far = Far([said("x", ONE_TOKEN)])
    used = batch(far, cap=1.0)
    found = ask(used, count, max_tokens=1)
    refused = [one for one in found if isinstance(one, SpendCapReached)]
    assert (len(far.asked), len(refused)) == (10, count - 10)
    assert used.meter.spent == pytest.approx(1.0)
    assert used.meter.reserved == 0.0
    assert not any(isinstance(one, SpendCapReached) for one in ask(used, 10, max_tokens=1)), "what is stored costs 0"


def test_calls_in_flight_hold_their_likely_cost() -> None:
    async def run() -> None:
        far = Far([said("x", ONE_TOKEN)], gate=asyncio.Event())
        used = batch(far, cap=1.0)
        calls = [asyncio.create_task(used.reply(stage_call(sample=n, max_tokens=4))) for n in range(64)]
        await soon(lambda: far.open == 2)
        assert used.meter.reserved == pytest.approx(0.8), "a third one might cost 0.4 more"
        assert not any(call.done() for call in calls), "the others wait: what is held may turn out to be free"
        assert far.gate
        far.gate.set()
        await settled(*calls)
        assert used.meter.spent == pytest.approx(0.7), "at 0.7 a call that may cost 0.4 does not begin"
        assert far.most_open == 2

    asyncio.run(run())


def test_a_reply_dearer_than_likely_goes_over_once_and_is_learnt_from() -> None:
    far = Far([said("x", Usage(prompt_tokens=1, completion_tokens=5_000))])
    used = batch(far, cap=1.0, price=Price(completion=200))
    ask(used, 8)
    assert (len(far.asked), used.meter.spent) == (5, pytest.approx(5.0)), "five reserves of 0.2 fit the cap at once"
    far = Far([said("x", Usage(prompt_tokens=1, completion_tokens=4_000))])
    used = batch(far, cap=1.0, price=Price(completion=100))
    for number in range(5):
        ask(used, number + 1)
    assert (len(far.asked), used.meter.spent) == (2, pytest.approx(0.8)), (
        "one after the other it is known what they cost"
    )


def test_a_call_that_is_stopped_gives_its_room_back() -> None:
    async def run() -> None:
        far = Far([said("x", ONE_TOKEN)], gate=asyncio.Event())
        used = batch(far, cap=0.1)
        first, second = (asyncio.create_task(used.reply(stage_call(sample=n, max_tokens=1))) for n in range(2))
        await soon(lambda: far.open == 1)
        first.cancel()
        await soon(lambda: len(far.asked) == 2)
        assert far.gate
        far.gate.set()
        assert (await second).message.content == "x"

    asyncio.run(run())


def test_what_others_spend_counts() -> None:
    far = Far([said("x", ONE_TOKEN)])
    used = batch(far, cap=1.0, spent=0.3)
    used.meter.elsewhere = 0.6
    found = ask(used, 2, max_tokens=1)
    assert [isinstance(one, SpendCapReached) for one in found] == [False, True]


def test_a_cap_without_a_price_stops_before_anything_is_sent() -> None:
    far = Far()
    (found,) = ask(batch(far, cap=5.0, price=None), 1)
    assert isinstance(found, SpendCapReached)
    assert "no price is set for far/m" in str(found)
    assert not far.asked


def test_a_server_that_counts_no_tokens_is_held_to_the_cap_by_what_is_likely() -> None:
    far = Far([said("x", Usage())])
    used = batch(far, cap=1.0)
    found = ask(used, 64, max_tokens=1)
    assert len(far.asked) == 10
    assert sum(isinstance(one, SpendCapReached) for one in found) == 54
    assert (used.meter.spent, used.meter.total.unpriced) == (0.0, 10)


def test_free_models_and_the_scripted_one_need_no_room() -> None:
    class Scripted:
        name = "scripted"

        async def answer(self, call: StageCall) -> Reply:
            return said("x", ONE_TOKEN)

    for asker in (
        batch(Far([said("x", ONE_TOKEN)]), cap=0.0, price=FREE),
        Asker({"author": Scripted()}, MemoryStore(), CostMeter(cap=0.0)),
    ):
        found = ask(asker, 64)
        assert all(isinstance(one, Reply) for one in found)
        assert (asker.meter.spent, asker.meter.total.unpriced) == (0.0, 0)


def test_a_free_call_may_end_a_batch_at_its_cap_but_none_goes_on_above_it() -> None:
    used = batch(Far([said("x", ONE_TOKEN)]), cap=1.0, price=FREE, spent=1.0)
    assert isinstance(ask(used, 1)[0], Reply)
    used.meter.spent = 1.2
    assert isinstance(ask(used, 2)[1], SpendCapReached)
