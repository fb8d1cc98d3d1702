"""Calls: looked up first, sent once, begun before they are sent, stored before they are used."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from synthesis.contracts import Message, ToolCall, Usage
from synthesis.errors import InputError, LLMError
from synthesis.llm.asker import Asker
from synthesis.llm.cost import CostMeter, Price
from synthesis.llm.store import FileStore, MemoryStore
from tests.llm_layer.support import Far, said, settled, site, soon, stage_call


def asker(far: Far, store: MemoryStore | FileStore | None = None, **meter: object) -> Asker:
    return Asker({"author": far, "judge": far}, store or MemoryStore(), CostMeter(**meter))  # type: ignore[arg-type]


def test_a_known_call_is_not_sent_again() -> None:
    far, store = Far(), MemoryStore()
    first = asyncio.run(asker(far, store).reply(stage_call()))
    second = asker(far, store)
    assert asyncio.run(second.reply(stage_call())) == first
    assert (len(far.asked), second.meter.replayed, second.meter.total.usage) == (1, 1, Usage())


def test_the_key_is_what_the_reply_may_depend_on() -> None:
    base = stage_call(temperature=1)
    others = [
        stage_call("Bye", temperature=1),
        stage_call(temperature=0),
        stage_call(item="desk/scenario-0", temperature=1),
        stage_call(sample=1, temperature=1),
    ]
    others += [
        base.model_copy(update={"site": base.site.model_copy(update=change)})
        for change in ({"role": "checker"}, {"stage": "other"})
    ]
    keys = {one.key("far/m") for one in [base, *others]} | {base.key("far/n")}
    assert len(keys) == 8
    same = base.model_copy(update={"site": base.site.model_copy(update={"theme": "x"})})
    assert same.key("far/m") == base.key("far/m")


def test_reasoning_of_earlier_turns_is_part_of_a_call_if_it_is_sent() -> None:
    def turn(reasoning: str) -> Message:
        return Message(role="assistant", reasoning=reasoning, tool_calls=(ToolCall(id="1", name="f"),))

    one, two, none = (stage_call().model_copy(update={"messages": (turn(text),)}) for text in ("hm", "oh", ""))
    assert len({call.key("m") for call in (one, two, none)}) == 3
    assert one.body()["messages"][0]["reasoning_content"] == "hm"
    assert "reasoning_content" not in none.body()["messages"][0]


def test_parameters_that_are_no_json_are_refused() -> None:
    for bad in (float("nan"), {1, 2}, object()):
        with pytest.raises(InputError, match="plain JSON"):
            stage_call(temperature=bad).key("m")


def test_a_role_that_nobody_plays_is_said() -> None:
    with pytest.raises(InputError, match="plays the author"):
        asyncio.run(Asker({}, MemoryStore()).reply(stage_call()))


def test_equal_calls_at_the_same_time_are_sent_once() -> None:
    async def run() -> None:
        far = Far(gate=asyncio.Event())
        used = asker(far)
        waiting = [asyncio.create_task(used.reply(stage_call())) for _ in range(64)]
        others = [asyncio.create_task(used.reply(stage_call(sample=number))) for number in (1, 2)]
        await soon(lambda: far.open == 3)
        assert far.gate
        far.gate.set()
        replies = await asyncio.gather(*waiting, *others)
        assert len({id(reply) for reply in replies[:64]}) == 1
        assert (len(far.asked), used.meter.replayed, used.meter.total.usage.requests) == (3, 63, 3)

    asyncio.run(run())


def test_what_fails_fails_for_all_who_waited_and_is_free_again() -> None:
    async def run() -> None:
        store = MemoryStore()
        far = Far([LLMError("failed", "oops", requests=1), said("Hello.")])
        used = asker(far, store)
        found = await settled(*[used.reply(stage_call()) for _ in range(8)])
        assert [str(one) for one in found] == ["oops"] * 8
        assert (len(far.asked), len(store.failed)) == (1, 1)
        assert (await used.reply(stage_call())).message.content == "Hello."

    asyncio.run(run())


def test_when_the_one_who_sent_is_stopped_another_sends() -> None:
    async def run() -> None:
        far = Far(gate=asyncio.Event())
        used = asker(far)
        first, second, third = (asyncio.create_task(used.reply(stage_call())) for _ in range(3))
        await soon(lambda: far.open == 1)
        third.cancel()
        first.cancel()
        await soon(lambda: len(far.asked) == 2)
        assert far.gate
        far.gate.set()
        assert (await second).message.content == "Hello."
        assert first.cancelled()
        assert (await settled(third))[0].__class__ is asyncio.CancelledError
        usage = used.meter.total.usage
        assert (usage.requests, usage.lost) == (2, 1), "what was sent and not waited for counts as lost"

    asyncio.run(run())


def test_a_reply_is_stored_before_it_is_used() -> None:
    class Slow(MemoryStore):
        async def keep(self, key, call, reply):
            await asyncio.sleep(0)
            assert not used_already
            return await super().keep(key, call, reply)

    used_already: list[str] = []

    async def run() -> None:
        reply = await asker(Far(), Slow()).reply(stage_call())
        used_already.append(reply.message.content)

    asyncio.run(run())
    assert used_already == ["Hello."]


def test_the_first_stored_reply_is_everybodys() -> None:
    """Another process may have been first with the same call."""

    class Shared(MemoryStore):
        async def begin(self, key, call, model):
            await super().begin(key, call, model)
            self.replies[key] = said("The other's.")

    assert asyncio.run(asker(Far(), Shared()).reply(stage_call())).message.content == "The other's."


def test_a_store_that_refuses_to_begin_stops_the_request() -> None:
    class Full(MemoryStore):
        async def begin(self, key, call, model):
            raise InputError("stop")

    far = Far()
    used = asker(far, Full(), cap=1.0, prices={"far/m": Price(prompt=1, completion=1)})
    with pytest.raises(InputError, match="stop"):
        asyncio.run(used.reply(stage_call()))
    assert (far.asked, used.meter.reserved, used.meter.total.usage.requests) == ([], 0.0, 0)


def test_a_chat_of_a_site_is_stored_and_counted_like_all() -> None:
    far = Far()
    used = asker(far)
    reply = asyncio.run(used.chat(site(role="judge", stage="judge_run")).complete([Message(role="user", content="Hi")]))
    assert reply.message.content == "Hello."
    assert list(used.meter.places) == [("judge", "judge_run")]


def test_a_file_of_replies_is_found_by_the_next_process(tmp_path: Path) -> None:
    far = Far([LLMError("failed", "oops", requests=2), said("Grüße \u2028 <think>")])
    with FileStore(tmp_path / "calls.jsonl") as store:
        used = asker(far, store)
        with pytest.raises(LLMError):
            asyncio.run(used.reply(stage_call()))
        first = asyncio.run(used.reply(stage_call()))
    with FileStore(tmp_path / "calls.jsonl") as store:
        assert asyncio.run(asker(far, store).reply(stage_call())) == first
        assert store.lost == 0
    assert len(far.asked) == 2


def test_a_crash_between_begin_and_keep_counts_as_lost(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    call = stage_call()

    async def begun(store: FileStore) -> None:
        await store.begin(call.key("far/m"), call, "far/m")

    for _ in range(2):
        with FileStore(path) as store:
            asyncio.run(begun(store))
    with path.open("ab") as file:
        file.write(b'{"keep": "half a li')
    with FileStore(path) as store:
        assert store.lost == 2
        asyncio.run(asker(Far(), store).reply(call))
    with FileStore(path) as store:
        assert (store.lost, len(store.replies)) == (2, 1)


def test_a_file_is_one_processes_and_of_replies(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with FileStore(path), pytest.raises(InputError, match="another process"):
        FileStore(path)
    for content in ("hello\n", "[]\n", '{"keep": "x", "reply": 3}\n', '{"something": 1}\n'):
        path.write_text(content)
        with pytest.raises(InputError, match="line 1"):
            FileStore(path)
        assert path.read_text() == content
