"""Brake on failed sign-ins: whatever headers say, from wherever they come, and never for good."""

from __future__ import annotations

import http.client
import threading
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone

from tests.fixtures import pages_seed
from tests.fixtures.pages_seed import PASSWORD
from webapp.accounts import login_brake, people
from webapp.accounts.models import AuditEntry, LoginAttempt, User

pytestmark = pytest.mark.django_db
LOGIN = "/account/login/"


def sign_in(client: Client, password: str, username: str = "the-annotator") -> int:
    return client.post(LOGIN, {"username": username, "password": password}).status_code


def says(client: Client, password: str = "wrong", username: str = "the-annotator") -> str:
    return client.post(LOGIN, {"username": username, "password": password}).content.decode()


def tried_from_everywhere(username: str, count: int = login_brake.FREE_BY_NAME + 9) -> None:
    """So many failures, each from another address; the rows are what such tries leave."""
    LoginAttempt.objects.bulk_create(
        LoginAttempt(username=username, address=f"10.0.{number // 250}.{number % 250}") for number in range(count)
    )


def test_five_failures_lock_the_name_for_that_address(annotator: User) -> None:
    client = Client()
    for _ in range(5):
        assert sign_in(client, "wrong") == 200
    locked = client.post(LOGIN, {"username": "The-Annotator", "password": PASSWORD})
    assert b"Too many failed sign-ins" in locked.content
    assert LoginAttempt.objects.count() == 5, "a refused try does not count"
    assert sign_in(Client(REMOTE_ADDR="10.1.1.1"), PASSWORD) == 302
    LoginAttempt.objects.update(at=timezone.now() - timedelta(seconds=61))
    assert sign_in(client, "wrong") == 200
    assert b"Too many" in client.post(LOGIN, {"username": "the-annotator", "password": PASSWORD}).content
    LoginAttempt.objects.update(at=timezone.now() - timedelta(seconds=61))
    assert sign_in(client, PASSWORD) == 302
    assert not LoginAttempt.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_tries_at_one_time_are_counted_before_they_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    person = pages_seed.person("annotator")
    looked: list[str] = []
    gate = threading.Barrier(10)

    def wrong(request: Any, **given: Any) -> None:
        looked.append(str(given["username"]))

    monkeypatch.setattr("django.contrib.auth.forms.authenticate", wrong)

    def guess() -> None:
        try:
            gate.wait(20)
            sign_in(Client(), "wrong", person.username)
        finally:
            connection.close()

    threads = [threading.Thread(target=guess) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(looked) == LoginAttempt.objects.count() == 5


def test_an_unknown_name_is_slowed_down_too(db: None) -> None:
    client = Client()
    for _ in range(5):
        sign_in(client, "wrong", "nobody")
    assert b"Too many" in client.post(LOGIN, {"username": "nobody", "password": "x"}).content


@pytest.mark.django_db(transaction=True)
def test_headers_that_change_do_not_make_thirty_places_of_one(site_process: str) -> None:
    pages_seed.person("annotator")
    connection = http.client.HTTPConnection(urlsplit(site_process).netloc, timeout=60)
    locked = 0
    for number in range(30):
        connection.request("GET", LOGIN)
        page = connection.getresponse()
        cookie = str(page.headers["Set-Cookie"]).partition(";")[0]
        token = page.read().decode().partition('name="csrfmiddlewaretoken" value="')[2].partition('"')[0]
        body = urlencode({"username": "the-annotator", "password": "wrong", "csrfmiddlewaretoken": token})
        headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}
        headers |= {"X-Forwarded-For": f"203.0.113.{number}", "X-Real-IP": f"203.0.113.{number}"}
        connection.request("POST", LOGIN, body, headers)
        locked += b"Too many failed sign-ins" in connection.getresponse().read()
    connection.close()
    assert (locked, LoginAttempt.objects.count()) == (25, 5)
    assert set(LoginAttempt.objects.values_list("address", flat=True)) == {"127.0.0.1"}


@pytest.mark.parametrize("username", ["the-annotator", "nobody"])
def test_a_name_is_locked_wherever_the_tries_come_from(annotator: User, username: str) -> None:
    for number in range(login_brake.FREE_BY_NAME):
        assert "Too many" not in says(Client(REMOTE_ADDR=f"10.0.0.{number}"), username=username)
    assert "Too many failed sign-ins for this name" in says(Client(REMOTE_ADDR="10.1.1.1"), PASSWORD, username)
    entry = AuditEntry.objects.get(action="login.lock")
    assert entry.detail == {"username": username, "where": "everywhere"}
    assert "Too many" not in says(Client(REMOTE_ADDR="10.1.1.1"), username="another")


def test_the_wait_grows_to_five_minutes_and_no_further(annotator: User) -> None:
    for more, longest in ((login_brake.FREE_BY_NAME, 10), (2, 40), (300, 300)):
        tried_from_everywhere("the-annotator", more)
        wait = login_brake.begin_login(login_brake.Place("the-annotator", "10.9.9.9"))
        assert longest - 5 < wait <= longest
    LoginAttempt.objects.update(at=timezone.now() - timedelta(seconds=301))
    assert sign_in(Client(), PASSWORD) == 302, "whoever tries on and on does not lock a person out for ever"


def test_a_browser_that_has_signed_in_before_is_not_locked_by_others(annotator: User) -> None:
    mine = Client()
    assert sign_in(mine, PASSWORD) == 302
    cookie = mine.cookies[settings.KNOWN_BROWSER_COOKIE]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == (LOGIN, True, "Strict")
    mine.post("/account/logout/")
    tried_from_everywhere("the-annotator")
    for _ in range(5):
        says(Client())
    assert "Too many" not in says(mine)
    assert sign_in(mine, PASSWORD) == 302
    mine.post("/account/logout/")
    for _ in range(5):
        says(mine)
    assert "Too many" in says(mine, PASSWORD), "its own tries are counted"
    other = pages_seed.person("viewer")
    tried_from_everywhere(other.username)
    assert "Too many" in says(mine, username=other.username), "it is known for one name"
    mine.cookies[settings.KNOWN_BROWSER_COOKIE] = "forged:1:2"
    assert "Too many" in says(mine, PASSWORD)


def test_a_password_that_an_administrator_made_lets_in_whoever_else_tries(annotator: User) -> None:
    _, password, _ = people.give_password(pages_seed.person("admin"), annotator.pk)
    tried_from_everywhere("the-annotator")
    for _ in range(6):
        assert "Too many" in says(Client(), PASSWORD)
    assert sign_in(Client(), password) == 302
    altered = password[:-1] + ("a" if password[-1] != "a" else "b")
    assert people.is_made_password(password)
    assert not any(map(people.is_made_password, (altered, "", "-", PASSWORD, f"x{password}", "\ud800-aaaaa")))


def test_a_network_of_ipv6_is_one_place() -> None:
    keys = {login_brake.Place("x", address).key for address in ("2001:db8::1", "2001:db8::ffff:2", "2001:db8:0:1::1")}
    assert keys == {"2001:db8::/64", "2001:db8:0:1::/64"}
