from __future__ import annotations

import threading

import pytest
from django.db import connection
from django.test import Client

from synthesis.errors import InputError
from tests.fixtures import pages_seed
from tests.fixtures.api import Program, problem, token_of
from tests.fixtures.markup import flat
from webapp.accounts import people, tokens
from webapp.accounts.models import AuditEntry, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def test_a_new_person_gets_a_password_that_works_and_is_shown_once(page: Client) -> None:
    made = page.post("/account/users/", {"username": "kim", "role": "researcher"})
    assert made.status_code == 201
    assert "no-store" in made.headers["Cache-Control"]
    password = made.context["password"]
    assert password in flat(made)
    assert password not in flat(page.get("/account/users/"))
    assert Client().post("/account/login/", {"username": "kim", "password": password}).status_code == 302
    assert password not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize("fields", [{"username": "THE-ADMIN"}, {"username": "a b"}, {"username": ""}, {"role": "boss"}])
def test_a_person_that_may_not_be_made(page: Client, fields: dict[str, str]) -> None:
    answer = page.post("/account/users/", {"username": "kim", "role": "viewer", **fields})
    assert answer.status_code == 422
    assert User.objects.count() == 1


def test_roles_passwords_and_deactivation(page: Client, annotator: User) -> None:
    theirs = Client()
    theirs.force_login(annotator)
    url = f"/account/users/{annotator.pk}/"
    page.post(f"{url}role/", {"role": "operator"})
    annotator.refresh_from_db()
    assert annotator.role == "operator"
    answer = page.post(f"{url}password/")
    annotator.refresh_from_db()
    assert annotator.check_password(answer.context["password"])
    assert theirs.get("/jobs/").status_code == 302, "their session ended"
    theirs.force_login(annotator)
    page.post(f"{url}active/", {"active": "no"})
    assert theirs.get("/jobs/").status_code == 302
    page.post(f"{url}active/", {"active": "yes"})
    written = list(AuditEntry.objects.order_by("id").values_list("action", flat=True))
    assert written == ["user.role", "user.password", "user.deactivate", "user.activate"]
    assert AuditEntry.objects.get(action="user.role").detail == {"before": "annotator", "after": "operator"}
    page.post(f"{url}role/", {"role": "operator"})
    assert AuditEntry.objects.count() == 4, "nothing changed, nothing is written"
    assert page.post(f"{url}role/", {"role": "boss"}).status_code == 409
    assert page.get("/account/users/999999/").status_code == 404
    assert page.post("/account/users/999999/password/").status_code == 404


def test_a_reset_ends_every_token_and_says_so_before(page: Client, annotator: User) -> None:
    first, second = (token_of(annotator, "read") for _ in range(2))
    worker = token_of(pages_seed.person("operator"), "worker", "read")
    url = f"/account/users/{annotator.pk}/"
    assert "Their API tokens (2) are revoked" in flat(page.get(url))
    owner = User.objects.get(pk=annotator.pk)
    assert "2 API tokens revoked" in flat(page.post(f"{url}password/"))
    for text in (first, second):
        assert "revoked" in problem(Program(text).get("/jobs"), 401)["detail"]
    assert Program(worker).get("/jobs").status_code == 200
    assert AuditEntry.objects.get(action="user.password").detail == {"tokens": 2}
    assert AuditEntry.objects.filter(action="token.revoke").count() == 2
    with pytest.raises(InputError, match="Sign in again"):
        tokens.create_token(owner, owner, "of a session that has ended", ["read"])
    assert "no active API token" in flat(page.get(url))


def test_the_last_active_administrator_stays(page: Client, admin: User) -> None:
    retired = pages_seed.User.objects.create(username="retired", role="admin", is_active=False)
    for path, fields in (("role", {"role": "viewer"}), ("active", {"active": "no"})):
        answer = page.post(f"/account/users/{admin.pk}/{path}/", fields)
        assert answer.status_code == 409
        assert "last active administrator" in flat(answer)
    people.set_active(admin, retired.pk, True)
    people.change_role(admin, admin.pk, "viewer")
    with pytest.raises(InputError):
        people.set_active(retired, retired.pk, False)


@pytest.mark.django_db(transaction=True)
def test_two_administrators_who_demote_each_other_leave_one() -> None:
    pair = [User.objects.create(username=name, role="admin") for name in ("one", "two")]
    start, refused = threading.Barrier(2), []

    def demote(actor: User, other: User) -> None:
        start.wait(10)
        try:
            people.change_role(actor, other.pk, "viewer")
        except InputError as error:
            refused.append(error)
        finally:
            connection.close()

    threads = [
        threading.Thread(target=demote, args=(pair[0], pair[1])),
        threading.Thread(target=demote, args=pair[::-1]),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(refused) == 1
    assert User.objects.filter(role="admin", is_active=True).count() == 1


def test_the_list_filters(page: Client, annotator: User) -> None:
    assert "the-annotator" in flat(page.get("/account/users/?q=ANNO"))
    rows = page.get("/account/users/?role=admin").context["page"].rows
    assert [row.username for row in rows] == ["the-admin"]
    assert "Nothing matches" in flat(page.get("/account/users/?q=%00zzz"))
