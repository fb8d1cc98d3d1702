"""Live updates in this process: who hears what, from where, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from importlib import import_module
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.db import connection

from tests.fixtures import pages_seed
from webapp.accounts.models import Role, User
from webapp.common.events import hub as hubs
from webapp.common.events import services, stream
from webapp.common.events.hub import Hub, get_hub
from webapp.common.events.models import Event

pytestmark = pytest.mark.django_db(transaction=True)
ONE, OTHER = "job:1", "job:2"


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scene in a loop of its own, with the hub closed afterwards and nobody left following."""

    async def whole() -> None:
        try:
            async with asyncio.timeout(30):
                await scene()
            assert not get_hub().followers
        finally:
            await get_hub().close()

    asyncio.run(whole())


@sync_to_async
def publish(*topics: str) -> None:
    try:
        services.publish_topics(topics)
    finally:
        connection.close()


def signed_in() -> tuple[User, str]:
    user = pages_seed.person(Role.VIEWER)
    store = import_module(settings.SESSION_ENGINE).SessionStore()
    store[SESSION_KEY], store[HASH_SESSION_KEY] = str(user.pk), user.get_session_auth_hash()
    store[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
    store.save()
    return user, store.session_key


class Listener:
    """Reads a stream as a browser does."""

    def __init__(self, topics: set[str], after: int | None = None, person: int = 1, session: str = "") -> None:
        self.lines: AsyncIterator[str] = stream.stream_events(person, session, frozenset(topics), after)
        self.last = ""

    async def next(self, *wanted: str) -> tuple[str, str]:
        """The next event of one of these kinds."""
        async for text in self.lines:
            fields = dict(line.split(": ", 1) for line in text.strip().splitlines() if ": " in line)
            self.last = fields.get("id", self.last)
            if fields.get("event") in wanted:
                return fields["event"], fields.get("data", "")
        return "", ""

    async def close(self) -> None:
        await self.lines.aclose()  # type: ignore[attr-defined]


async def opened(*given: Any, **named: Any) -> Listener:
    listener = Listener(*given, **named)
    assert (await listener.next("hello"))[0] == "hello"
    return listener


def test_two_followers_hear_the_same_and_nobody_hears_what_is_not_theirs() -> None:
    async def scene() -> None:
        first, second, third = [await opened({ONE}), await opened({ONE, OTHER}), await opened({OTHER})]
        await publish(ONE)
        assert await first.next("change") == await second.next("change") == ("change", ONE)
        await publish(OTHER)
        assert await second.next("change") == await third.next("change") == ("change", OTHER)
        assert first.last
        assert first.last < second.last == third.last
        for one in (first, second, third):
            await one.close()

    play(scene)


def test_who_was_away_gets_what_changed_meanwhile_once() -> None:
    async def scene() -> None:
        first = await opened({ONE, OTHER})
        await publish(ONE)
        await first.next("change")
        await first.close()
        await publish(ONE, OTHER)
        await publish(ONE)
        while get_hub().last < int(first.last) + 3:
            await asyncio.sleep(0.02)
        back = Listener({ONE, OTHER}, int(first.last))
        kinds = ("change", "hello", "reset")
        assert [await back.next(*kinds) for _ in range(3)] == [("change", OTHER), ("change", ONE), ("hello", "")]
        await publish(OTHER)
        assert await back.next("change", "reset") == ("change", OTHER)
        await back.close()

    play(scene)


def test_who_was_away_too_long_looks_at_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "KEPT", 2)

    async def scene() -> None:
        await publish(ONE, ONE + "1", ONE + "2", ONE + "3")
        late = Listener({ONE}, 1)
        assert (await late.next("change", "reset"))[0] == "reset"
        await late.close()

    Event.objects.create(topic="job:9")
    play(scene)


def test_old_events_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "TIDY_EVERY", 1)
    monkeypatch.setattr(services, "KEPT", 3)
    for number in range(6):
        services.publish_topics([f"job:{number}"])
    assert Event.objects.count() == 3


def test_a_reader_that_is_too_slow_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "QUEUE", 3)

    async def scene() -> None:
        slow, quick = await opened({ONE}), await opened({OTHER})
        for _ in range(6):
            await publish(ONE)
        await publish(OTHER)
        await quick.next("change")
        assert (await slow.next("change", "reset"))[0] == "reset"
        await slow.close()
        await quick.close()

    play(scene)


def test_a_reader_that_goes_away_leaves_nothing_behind() -> None:
    async def scene() -> None:
        async def read() -> None:
            await (await opened({ONE})).next("change")

        readers = [asyncio.create_task(read()) for _ in range(20)]
        while len(get_hub().followers) < stream.STREAMS_A_PERSON:
            await asyncio.sleep(0.02)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
        await asyncio.sleep(0.1)

    play(scene)


def test_a_person_has_so_many_streams_and_no_more() -> None:
    async def scene() -> None:
        mine = [await opened({ONE}) for _ in range(stream.STREAMS_A_PERSON)]
        assert (await Listener({ONE}).next("hello", "busy"))[0] == "busy"
        other = await opened({ONE}, person=2)
        for one in [*mine, other]:
            await one.close()

    play(scene)


@pytest.mark.parametrize("loss", ["session", "right", "password", "person"])
def test_a_stream_ends_with_the_session_or_the_right(loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "BEAT_SECONDS", 0.1)
    user, session = signed_in()

    @sync_to_async
    def lose() -> None:
        if loss == "session":
            import_module(settings.SESSION_ENGINE).SessionStore(session).delete()
        elif loss == "right":
            User.objects.filter(pk=user.pk).update(is_active=False)
        elif loss == "password":
            user.set_password("quite another one")
            user.save()
        else:
            user.delete()
        connection.close()

    async def scene() -> None:
        listener = await opened({ONE}, person=user.pk, session=session)
        assert (await listener.next("beat", "end"))[0] == "beat"
        await lose()
        assert (await listener.next("end"))[0] == "end"
        assert await listener.next("beat") == ("", "")

    play(scene)


def test_a_lost_listener_comes_back_and_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "AGAIN_SECONDS", 0.05)

    @sync_to_async
    def cut() -> None:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE 'SELECT id, topic FROM events_event%%'"
            )
        connection.close()

    async def scene() -> None:
        listener = await opened({ONE})
        await cut()
        await publish(ONE)
        assert await listener.next("change") == ("change", ONE)
        await listener.close()

    play(scene)


def test_a_hub_that_nobody_follows_stops_listening_and_starts_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hubs, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(hubs, "IDLE_SECONDS", 0.1)

    async def scene() -> None:
        await (await opened({ONE})).close()
        known: Hub = get_hub()
        while known._task is not None:
            await asyncio.sleep(0.02)
        again = await opened({ONE})
        await publish(ONE)
        assert await again.next("change") == ("change", ONE)
        await again.close()

    play(scene)
