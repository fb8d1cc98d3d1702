"""`migrate` on an empty database makes what Django's own makes, in less time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import ProjectState

from tests.benchmarks.databases import own_database
from tests.fixtures.processes import test_database_url
from webapp.settings import build_database_settings

CATALOG = """
SELECT 'column', c.relname || ' ' || a.attnum, concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
       a.attnotnull, a.attidentity, a.attgenerated, a.attcollation, pg_get_expr(d.adbin, d.adrelid))
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'v', 'm', 'p')
UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass || ' ' || conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger', tgrelid::regclass || ' ' || tgname, pg_get_triggerdef(oid)
  FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', p.oid::regprocedure::text, pg_get_functiondef(p.oid)
  FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
 WHERE p.pronamespace = 'public'::regnamespace AND l.lanname IN ('sql', 'plpgsql')
UNION ALL SELECT 'migration', app || ' ' || name, '' FROM django_migrations
"""


def catalog(of: BaseDatabaseWrapper) -> dict[tuple[str, str], str]:
    """What the database consists of: columns, indexes, constraints, triggers, functions."""
    with of.cursor() as cursor:
        cursor.execute(CATALOG)
        return {(kind, name): text for kind, name, text in cursor.fetchall()}


@contextmanager
def second_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[BaseDatabaseWrapper]:
    monkeypatch.setenv("DATABASE_URL", test_database_url())
    with own_database("test_migrate") as url:
        made = connection.copy("second")
        made.settings_dict = {**connection.settings_dict, "NAME": build_database_settings(url)["NAME"]}
        connections["second"] = made
        try:
            yield made
        finally:
            made.close_pool()  # type: ignore[attr-defined]
            made.close()
            del connections["second"]


@pytest.mark.slow
@pytest.mark.django_db(databases=["default"], transaction=True)
def test_an_empty_database_gets_what_django_itself_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own database was made by the command."""
    assert ProjectState.add_model.__module__ == "django.db.migrations.state", "left as it was found"
    with second_database(monkeypatch) as second:
        executor = MigrationExecutor(second)
        executor.migrate(executor.loader.graph.leaf_nodes())
        ours, djangos = catalog(connection), catalog(second)
    assert len(ours) > 1_000
    assert {key: ours.get(key) for key in djangos} == djangos
    assert not ours.keys() - djangos.keys()
