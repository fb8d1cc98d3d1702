from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client

from tests.fixtures import pages_seed
from tests.fixtures.api import program
from tests.fixtures.markup import flat
from webapp.accounts import people
from webapp.accounts.models import AuditEntry, User
from webapp.accounts.services import write_audit_entry
from webapp.jobs.models import JobState

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE accounts_auditentry SET action = 'x'",
        "DELETE FROM accounts_auditentry",
        "TRUNCATE accounts_auditentry",
        "TRUNCATE accounts_auditentry CASCADE",
    ],
)
def test_postgresql_refuses_to_change_or_remove_entries(annotator: User, sql: str) -> None:
    write_audit_entry(annotator, "a.thing")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE accounts_auditentry ENABLE TRIGGER audit_no_truncate")
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            cursor.execute(sql)
    assert AuditEntry.objects.get().action == "a.thing"


def test_a_deleted_person_leaves_the_entries(annotator: User) -> None:
    write_audit_entry(annotator, "a.thing")
    annotator.delete()
    assert AuditEntry.objects.get().actor_label == "the-annotator"


def test_an_act_that_fails_leaves_no_entry(annotator: User) -> None:
    def act() -> None:
        with transaction.atomic():
            write_audit_entry(annotator, "a.thing")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        act()
    assert not AuditEntry.objects.exists()


def test_it_says_who_did_what_through_what(annotator: User) -> None:
    row = pages_seed.job(JobState.QUEUED)
    caller = program(annotator, "read", "synthesise")
    assert caller.post(f"/jobs/{row.pk}/cancel").status_code == 200
    client = Client(REMOTE_ADDR="10.9.8.7")
    client.post("/account/login/", {"username": "the-annotator", "password": pages_seed.PASSWORD})
    client.post(f"/jobs/{row.pk}/retry")
    entries = {one.action: one for one in AuditEntry.objects.all()}
    cancel, retry = entries["job.cancel"], entries["job.retry"]
    assert (cancel.actor, cancel.object_type, cancel.object_id) == (annotator, "job", str(row.pk))
    assert cancel.via.startswith("envr_")
    assert (retry.via, retry.address) == ("page", "10.9.8.7")
    assert entries["token.create"].via == "command"
    assert entries["login"].actor == annotator
    assert "envr_" not in str(entries["token.create"].detail)


def test_a_locked_login_is_written_once(annotator: User) -> None:
    for _ in range(8):
        Client().post("/account/login/", {"username": "the-annotator", "password": "wrong"})
    entry = AuditEntry.objects.get(action="login.lock")
    assert entry.detail == {"username": "the-annotator", "where": "here"}
    assert entry.actor is None


def test_the_page_filters_and_shows_hostile_text_as_text(admin: User, annotator: User) -> None:
    client = Client()
    client.force_login(admin)
    people.change_role(admin, annotator.pk, "viewer")
    write_audit_entry(annotator, "odd.thing", what=pages_seed.EVIL)
    html = flat(client.get("/account/audit/"))
    assert "<script>window" not in html
    assert "\u202e" not in html
    only = client.get("/account/audit/?actor=the-annotator").context["page"].rows
    assert [row.action for row in only] == ["odd.thing"]
    assert [row.action for row in client.get("/account/audit/?action=user.role").context["page"].rows] == ["user.role"]
    assert not client.get("/account/audit/?actor=nobody").context["page"].rows
    assert not client.get("/account/audit/?until=2001-01-01").context["page"].rows
    assert client.get("/account/audit/?since=2001-01-01&until=9999-12-31").context["page"].rows
    assert "asks for since=x" in flat(client.get("/account/audit/?since=x"))


def test_pages_of_entries_follow_each_other(admin: User) -> None:
    client = Client()
    client.force_login(admin)
    for number in range(60):
        write_audit_entry(admin, "count", number=number)
    first = client.get("/account/audit/").context["page"]
    second = client.get(first.after).context["page"]
    assert [row.detail["number"] for row in [*first.rows, *second.rows]] == list(range(59, -1, -1))
