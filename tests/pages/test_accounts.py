from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from tests.fixtures import pages_seed
from tests.fixtures.pages_seed import PASSWORD
from webapp.accounts.models import LoginAttempt, User

pytestmark = pytest.mark.django_db
LOGIN = "/account/login/"


def sign_in(client: Client, password: str, username: str = "the-annotator") -> int:
    return client.post(LOGIN, {"username": username, "password": password}).status_code


def test_anonymous_people_go_to_the_login_and_back(annotator: User) -> None:
    client = Client()
    response = client.get("/environments/?q=a")
    assert response.headers["Location"] == "/account/login/?next=/environments/%3Fq%3Da"
    answer = client.post(LOGIN, {"username": "the-annotator", "password": PASSWORD, "next": "/jobs/"})
    assert answer.headers["Location"] == "/jobs/"
    assert client.post(LOGIN, {"next": "https://elsewhere.example/"}).status_code == 302


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
    assert not LoginAttempt.objects.filter(address="127.0.0.1").exists()


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


def test_signing_out_needs_a_post(page: Client) -> None:
    assert page.get("/account/logout/").status_code == 405
    assert page.post("/account/logout/").status_code == 302
    assert page.get("/jobs/").status_code == 302


def test_changing_the_password(page: Client, annotator: User) -> None:
    wrong = page.post("/account/", {"old_password": "x", "new_password1": "a", "new_password2": "b"})
    assert wrong.status_code == 422
    new = "another long password"
    right = page.post("/account/", {"old_password": PASSWORD, "new_password1": new, "new_password2": new})
    assert right.status_code == 302
    assert page.get("/jobs/").status_code == 200, "this browser stays signed in"
    annotator.refresh_from_db()
    assert annotator.check_password(new)


def test_the_theme_is_kept_and_leads_back(page: Client) -> None:
    response = page.post("/account/theme/", {"theme": "dark", "next": "/jobs/?state=failed"})
    assert response.headers["Location"] == "/jobs/?state=failed"
    assert b'data-theme="dark"' in page.get("/jobs/").content
    away = page.post("/account/theme/", {"theme": "<b>", "next": "//elsewhere.example/"})
    assert away.headers["Location"] == "/"
    page.cookies["theme"] = '"><script>'
    assert b'data-theme="auto"' in page.get("/jobs/").content


def test_a_missing_right_is_named(db: None) -> None:
    client = Client()
    client.force_login(User.objects.create(username="v", role="viewer"))
    response = client.get("/import/")
    assert response.status_code == 403
    assert b"synthesise" in response.content
    assert b'href="/import/"' not in response.content


def test_errors_have_pages_that_need_nothing(page: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert b"There is nothing here" in page.get("/nowhere/").content
    forged = Client(enforce_csrf_checks=True).post(LOGIN, {})
    assert forged.status_code == 403
    assert b"This form was refused" in forged.content
    page.raise_request_exception = False
    monkeypatch.setattr("webapp.jobs.queries.jobs", lambda state: 1 / 0)
    broken = page.get("/jobs/")
    assert broken.status_code == 500
    assert b"Something failed on the server" in broken.content


def test_a_form_that_is_too_large_is_refused_on_a_page_of_the_house(client: Client, settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    answer = client.post("/account/login/", {"username": "x" * 200, "password": "y"})
    assert answer.status_code == 400
    assert "larger than a form may be" in answer.content.decode()
