"""The store of content-addressed bodies: once, in order, and nothing that is not what its key says."""

from __future__ import annotations

import zlib

import pytest

from synthesis.errors import InputError
from webapp.batches.models import Body
from webapp.common import content_store
from webapp.common.content_store import Content
from webapp.environments.models import CaseState
from webapp.scenarios.models import StateBody

pytestmark = pytest.mark.django_db
TABLES: list[type[Content]] = [Body, CaseState, StateBody]
VALUE = {"b": 1, "a": [1, {"c": "\x00 and \ud800"}]}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_a_value_is_kept_once_and_given_back(table: type[Content]) -> None:
    first, other, again = content_store.store_values(table, [VALUE, {"a": 2}, VALUE])
    assert first.pk == again.pk != other.pk
    assert content_store.store_values(table, [VALUE])[0].pk == first.pk
    content_store.save_rows(table, [content_store.build_content_row(table, VALUE)])
    assert table._default_manager.count() == 2
    assert content_store.load_value(table, first.pk) == VALUE
    assert list(content_store.load_value(table, first.pk)) == ["b", "a"]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
@pytest.mark.parametrize("body", [b"no zlib", zlib.compress(b'{"b": 2}'), zlib.compress(b"no json")])
def test_a_damaged_body_is_refused_by_name(table: type[Content], body: bytes) -> None:
    row = content_store.store_values(table, [VALUE])[0]
    table._default_manager.filter(pk=row.pk).update(body=body)
    with pytest.raises(InputError, match=f"{table._meta.label} {row.pk} is damaged"):
        content_store.load_value(table, row.pk)


def test_what_is_too_large_for_its_table_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Body, "LARGEST", 20)
    with pytest.raises(InputError, match="too large to keep: 22 bytes, 20 are taken"):
        content_store.build_content_row(Body, "x" * 20)
    assert content_store.store_values(StateBody, [{"x": "y" * 20}])[0].size == 28
