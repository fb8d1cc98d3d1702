"""Queries whose SQL is made once: what each call asks for, of rows as they are then."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Value
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from tests.fixtures import pages_seed
from webapp.accounts.models import User
from webapp.common.database.kept_sql import COUNTED, EXISTS, VALUE, Given, KeptNumbers, KeptQuery, filter_among
from webapp.jobs.models import Job

pytestmark = pytest.mark.django_db


def job(by: User, title: str) -> Job:
    return Job.objects.create(kind="import", queue="sandbox", title=title, created_by=by)


def test_each_call_has_its_own_parameters_and_sees_what_was_written_since() -> None:
    ada, eve = pages_seed.person("operator"), pages_seed.person("viewer")
    first = job(ada, "100 %s of it")
    query = KeptQuery[Job](
        lambda: (
            Job.objects.filter(created_by=Given("user"), title__contains="%s")
            .annotate(one=Value(1))
            .select_related("created_by")
            .defer("payload")
            .order_by("pk")
        )
    )
    assert query.rows(user=ada.pk) == [first]
    assert query.rows(user=eve.pk) == []
    second = job(eve, "50 %s of it")
    with CaptureQueriesContext(connection) as asked:
        (row,) = query.rows(user=eve.pk)
        assert (row, row.created_by, row.created_by.username, row.one) == (second, eve, eve.username, 1)  # type: ignore[union-attr,attr-defined]
        assert "payload" in row.get_deferred_fields()
    assert len(asked) == 1
    second.delete()
    assert query.first(user=eve.pk) is None


def test_values_and_lists_of_them() -> None:
    ada = pages_seed.person("operator")
    pks = [job(ada, title).pk for title in "abc"]
    titles = KeptQuery[str](
        lambda: filter_among(Job.objects.all(), "id", "pks").order_by("pk").values_list("title", flat=True)
    )
    assert titles.rows(pks=pks[1:]) == ["b", "c"]
    assert titles.rows(pks=[]) == []
    assert KeptQuery[Any](lambda: Job.objects.values("title").order_by("pk")).first() == {"title": "a"}


def test_many_numbers_in_one_statement() -> None:
    ada, eve = pages_seed.person("operator"), pages_seed.person("viewer")
    last = [job(ada, title) for title in "abc"][-1]
    mine = Job.objects.filter(created_by=Given("user"))
    numbers = KeptNumbers(
        lambda: {
            "two": (COUNTED, mine.values("pk")[:2]),
            "any": (EXISTS, mine.values("pk")[:1]),
            "newest": (VALUE, mine.order_by("-pk").values("pk")[:1]),
        }
    )
    with CaptureQueriesContext(connection) as asked:
        assert numbers.values(user=ada.pk) == {"two": 2, "any": True, "newest": last.pk}
    assert len(asked) == 1
    assert numbers.values(user=eve.pk) == {"two": 0, "any": False, "newest": None}


@pytest.mark.django_db(transaction=True)
def test_rows_are_locked_in_a_transaction_alone() -> None:
    ada = pages_seed.person("operator")
    locked = KeptQuery[User](lambda: User.objects.select_for_update().filter(pk=Given("pk")))
    with transaction.atomic(), CaptureQueriesContext(connection) as asked:
        assert locked.first(pk=ada.pk) == ada
    assert "FOR UPDATE" in asked[0]["sql"]
    with pytest.raises(TransactionManagementError):
        locked.first(pk=ada.pk)
