"""What calls cost, where nobody can tell, and a cap that all lanes keep together."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace

import pytest
from django.db import connection

from synthesis.contracts import Message
from synthesis.errors import InputError
from synthesis.llm.calls import Site, StageCall
from synthesis.llm.chat import Reply
from synthesis.llm.cost import Price
from tests.batches.support import SMALL, make_batch, settings_at, work_off
from tests.batches.table import TABLE, answer
from tests.fixtures.api import program
from tests.fixtures.llm import Request, Scripted, llm_server
from tests.rollouts_web.support import person
from webapp.batches import services
from webapp.batches.engine.call_rows import BeginCall, KeepCall, record_calls
from webapp.batches.launch.estimate import build_estimate
from webapp.batches.models import BatchLane, BatchStageCount, LLMCall, StageRun
from webapp.endpoints.models import Endpoint
from webapp.jobs.jobs import run_job

pytestmark = pytest.mark.django_db(transaction=True)

MODEL = "local/scripted-1"


def using(tokens: int, request: Request) -> Scripted:
    """The ordinary answer, as if it had taken so many tokens."""
    found = answer(request)
    body = json.loads(found.body)
    body["usage"] = {"prompt_tokens": 0, "completion_tokens": tokens}
    return replace(found, body=json.dumps(body))


def test_a_reply_whose_price_nobody_said_is_counted_as_unpriced_and_not_as_free() -> None:
    caller = program(person("operator"), "read")
    with llm_server(answer) as server:
        batch = work_off(make_batch(None, settings_at(server.url), ["one"]))
        calls = LLMCall.objects.count()
        assert (batch.state, batch.spent, batch.unpriced, batch.requests) == ("done", 0.0, calls, calls)
        assert set(LLMCall.objects.values_list("cost", flat=True)) == {None}
        assert sum(BatchStageCount.objects.values_list("unpriced", flat=True)) == calls
        assert StageRun.objects.get(item__path="one", stage="assess").unpriced == 4
        seen = caller.get(f"/batches/{batch.pk}").json()
        assert (seen["unpriced"], {row["stage"]: row["unpriced"] for row in seen["stages"]}["assess"]) == (calls, 4)
        listed = caller.get(f"/batches/{batch.pk}/calls").json()["data"]
        assert {call["cost"] for call in listed} == {None}
        found = build_estimate([services.build_text_spec("Book a room.")], settings_at(server.url), TABLE)
        assert (found.cost, found.unpriced) == (None, [MODEL])


def test_a_server_that_counts_no_tokens_is_unpriced_and_held_against_the_cap() -> None:
    with llm_server(lambda request: using(0, request)) as server:
        prices = {MODEL: Price(completion=1_000)}
        batch = work_off(make_batch(None, settings_at(server.url, prices=prices, cap=3.5), ["one", "two"]))
        assert (batch.state, batch.spent, batch.unpriced, batch.assumed) == ("capped", 0.0, 3, 3.0)
        services.resume_batch(None, batch.pk, cap=4.5)
        batch = work_off(batch)
        assert (batch.state, batch.unpriced, len(server.requests)) == ("capped", 4, 4)


def test_two_replies_to_one_call_are_both_paid_for_and_the_first_counts() -> None:
    batch = make_batch(None, settings_at("http://127.0.0.1:9/v1"), ["one"], start=False)
    call = StageCall(site=Site(role="author", stage="skeleton", item="one"), messages=())
    begin = BeginCall("k", call, MODEL, batch.items.get().pk)

    def kept(words: str, cost: float | None) -> KeepCall:
        return KeepCall("k", Reply(message=Message(role="assistant", content=words)), cost, 1.0)

    def stored(*keeps: KeepCall) -> tuple[str, float | None, int]:
        before = LLMCall.objects.get(key="k").lost
        told, lost = record_calls(batch.pk, [], keeps, [])
        row = LLMCall.objects.get(key="k")
        assert row.lost == before + lost, "the batch's count is that of its calls"
        return told["k"].message.content, row.cost, row.open

    record_calls(batch.pk, [begin, begin], [], [])
    assert stored(kept("first", 0.25), kept("second", 0.5)) == ("first", 0.75, 0), "at once"
    record_calls(batch.pk, [begin], [], [])
    assert stored(kept("third", 1.0)) == ("first", 1.75, 0), "later"
    record_calls(batch.pk, [begin], [], [])
    assert stored(kept("fourth", None)) == ("first", None, 0), "nobody can tell"


def test_a_cap_that_could_not_be_kept_is_refused_at_the_start() -> None:
    annotator, operator = person("annotator"), person("operator", "op")
    with llm_server(answer) as server:
        unpriced = settings_at(server.url)
        with pytest.raises(InputError, match="the price of local/scripted-1 is not known"):
            make_batch(operator, unpriced.model_copy(update={"cap": 1.0}), ["one"])
        with pytest.raises(InputError, match="cannot be kept"):
            make_batch(annotator, unpriced, ["one"])
        made_up = unpriced.model_copy(update={"prices": {MODEL: Price()}})
        with pytest.raises(InputError, match="cannot be kept"):
            make_batch(annotator, made_up, ["one"])
        assert make_batch(operator, made_up.model_copy(update={"cap": 1.0}), ["one"], start=False).cap == 1.0
        Endpoint.objects.update(prices={"scripted-1": {"prompt": 0.0, "completion": 0.0}})
        assert make_batch(annotator, unpriced, ["one"], start=False).cap == services.get_launch_limit().annotator_cap


def test_lanes_keep_one_cap_together() -> None:
    flying = most = 0
    lock = threading.Lock()

    def counted(request: Request) -> Scripted:
        nonlocal flying, most
        with lock:
            flying += 1
            most = max(most, flying)
        time.sleep(0.3)
        with lock:
            flying -= 1
        return using(1_000, request)

    def lane(job: int) -> None:
        run_job(job)
        connection.close()

    with llm_server(counted) as server:
        settings = settings_at(
            server.url, prices={MODEL: Price(completion=1_000)}, cap=6.5, lanes=4, at_once=4, stages=SMALL
        )
        batch = make_batch(None, settings, [f"theme-{number}" for number in range(16)])
        jobs = list(BatchLane.objects.filter(batch=batch).values_list("job", flat=True))
        threads = [threading.Thread(target=lane, args=(job,)) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        batch.refresh_from_db()
        assert (len(jobs), batch.state) == (4, "capped")
        assert len(server.requests) == 6 >= most
    assert batch.spent == pytest.approx(6.0)
    assert set(BatchLane.objects.values_list("reserved", flat=True)) == {0.0}
    assert not batch.items.filter(state="running").exists()


def test_what_a_stage_used_before_it_was_broken_off_is_in_the_funnel() -> None:
    with llm_server(lambda request: using(1_000, request)) as server:
        settings = settings_at(server.url, prices={MODEL: Price(completion=1_000)}, cap=2.5, at_once=1)
        batch = work_off(make_batch(None, settings, ["one"]))
        assert (batch.state, batch.spent) == ("capped", pytest.approx(2.0))
        assert sum(BatchStageCount.objects.values_list("cost", flat=True)) == pytest.approx(2.0)
        services.resume_batch(None, batch.pk, 100.0)
        work_off(batch)
    used = BatchStageCount.objects.values_list("cost", "requests")
    assert batch.state == "done"
    assert [sum(column) for column in zip(*used, strict=True)] == [pytest.approx(batch.spent), batch.requests]
    assert sum(batch.items.values_list("cost", flat=True)) == pytest.approx(batch.spent)
