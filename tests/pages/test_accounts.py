from __future__ import annotations

import pytest
from django.test import Client

from tests.fixtures.api import Program, token_of
from tests.fixtures.markup import flat
from tests.fixtures.pages_seed import PASSWORD
from webapp.accounts.models import User

pytestmark = pytest.mark.django_db
LOGIN = "/account/login/"


def test_anonymous_people_go_to_the_login_and_back(annotator: User) -> None:
    client = Client()
    response = client.get("/environments/?q=a")
    assert response.headers["Location"] == "/account/login/?next=/environments/%3Fq%3Da"
    answer = client.post(LOGIN, {"username": "the-annotator", "password": PASSWORD, "next": "/jobs/"})
    assert answer.headers["Location"] == "/jobs/"
    assert client.post(LOGIN, {"next": "https://elsewhere.example/"}).status_code == 302


def test_signing_out_needs_a_post(page: Client) -> None:
    assert page.get("/account/logout/").status_code == 405
    assert page.post("/account/logout/").status_code == 302
    assert page.get("/jobs/").status_code == 302


def test_changing_the_password(page: Client, annotator: User) -> None:
    other, token = Client(), token_of(annotator)
    other.force_login(annotator)
    said = flat(page.get("/account/"))
    assert "Your other browsers are signed out" in said
    assert "keep working" in said
    wrong = page.post("/account/", {"old_password": "x", "new_password1": "a", "new_password2": "b"})
    assert wrong.status_code == 422
    new = "another long password"
    right = page.post("/account/", {"old_password": PASSWORD, "new_password1": new, "new_password2": new})
    assert right.status_code == 302
    assert page.get("/jobs/").status_code == 200, "this browser stays signed in"
    assert other.get("/jobs/").status_code == 302, "others are signed out"
    assert Program(token).get("/jobs").status_code == 200
    annotator.refresh_from_db()
    assert annotator.check_password(new)


def test_whoever_took_a_session_does_not_guess_its_password(page: Client, annotator: User) -> None:
    new = "another long password"
    form = {"new_password1": new, "new_password2": new}
    answers = [page.post("/account/", {"old_password": f"guess {number}", **form}) for number in range(5)]
    assert not any("Too many wrong passwords" in flat(answer) for answer in answers)
    assert "Too many wrong passwords" in flat(page.post("/account/", {"old_password": PASSWORD, **form}))
    annotator.refresh_from_db()
    assert annotator.check_password(PASSWORD)
    assert Client().post(LOGIN, {"username": "the-annotator", "password": PASSWORD}).status_code == 302


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
    assert b"This page does not exist" in page.get("/nowhere/").content
    forged = Client(enforce_csrf_checks=True).post(LOGIN, {})
    assert forged.status_code == 403
    assert b"This form was refused" in forged.content
    page.raise_request_exception = False
    monkeypatch.setattr("webapp.jobs.job_list.listed_jobs", lambda: 1 / 0)
    broken = page.get("/jobs/")
    assert broken.status_code == 500
    assert b"An error occurred on the server" in broken.content


def test_a_form_that_is_too_large_is_refused_on_a_page_of_the_house(client: Client, settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    answer = client.post("/account/login/", {"username": "x" * 200, "password": "y"})
    assert answer.status_code == 400
    assert "larger than a form may be" in answer.content.decode()
