"""Queries whose SQL is made once a process, for those that a page repeats with other parameters each time.

Django spends more on a query's text than PostgreSQL on its answer: most of the time of a page with thirty of them. No
answer is kept; `Given("name")` is a placeholder in the queryset for the value of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from django.db import connections
from django.db.models import QuerySet, Value
from django.db.transaction import TransactionManagementError

Row = TypeVar("Row")


@dataclass(frozen=True)
class _Place:
    """The place of a parameter of this name."""

    name: str


class Given(Value):
    """A parameter that each call passes. The column it is compared with must accept the value unchanged."""

    def __init__(self, name: str) -> None:
        super().__init__(_Place(name))


def filter_among(rows: QuerySet[Any], field: str, name: str) -> QuerySet[Any]:
    """Return the rows of which a field of their own is in the list that a call passes under this name.

    `__in` writes each value into the text, so that the text would differ for each number of them.
    """
    meta = rows.model._meta
    column: str = meta.get_field(field).column
    return rows.extra(where=[f'"{meta.db_table}"."{column}" = ANY(%s)'], params=[_Place(name)])


def _fill_parameters(parameters: tuple[Any, ...], given: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(given[one.name] if type(one) is _Place else one for one in parameters)


class _Asked:
    """The attributes of a queryset and of its query that Django reads while it makes rows of an answer."""

    def __init__(self, queryset: QuerySet[Any], compiler: Any) -> None:
        self.queryset, self.compiler, self.query, self.db = queryset, compiler, self, queryset.db

    def get_compiler(self, *args: Any, **kwargs: Any) -> Any:
        return self.compiler

    def __getattr__(self, name: str) -> Any:
        known = self.queryset if hasattr(self.queryset, name) else self.queryset.query
        return getattr(known, name)


class KeptQuery(Generic[Row]):
    """The rows of a queryset, models or values. It may join (`select_related`), but not prefetch."""

    def __init__(self, build: Callable[[], QuerySet[Any]]) -> None:
        self._build = build

    @cached_property
    def _compile(self) -> tuple[QuerySet[Any], Any, str, tuple[Any, ...]]:
        queryset = self._build()
        compiler = queryset.query.get_compiler(queryset.db)
        sql, parameters = compiler.as_sql()
        return queryset, compiler, sql, parameters

    def rows(self, **given: Any) -> list[Row]:
        queryset, kept_compiler, sql, parameters = self._compile
        compiler = copy(kept_compiler)  # another thread has another connection, and other parameters
        compiler.connection = connections[queryset.db]
        if queryset.query.select_for_update and compiler.connection.get_autocommit():
            raise TransactionManagementError("Rows are locked in a transaction.")
        compiler.as_sql = lambda *args, **kwargs: (sql, _fill_parameters(parameters, given))
        iterable: Any = queryset._iterable_class
        return list(iterable(_Asked(queryset, compiler)))

    def first(self, **given: Any) -> Row | None:
        """Return the first row; a queryset of which one row is needed limits itself by a slice."""
        return next(iter(self.rows(**given)), None)


class KeptNumbers:
    """Many single values in one statement: by name the SQL around a queryset's, such as `COUNTED`, and the queryset."""

    def __init__(self, build: Callable[[], Mapping[str, tuple[str, QuerySet[Any]]]]) -> None:
        self._build = build

    @cached_property
    def _compile(self) -> tuple[str, str, tuple[str, ...], tuple[Any, ...]]:
        texts, parameters, using = [], [], "default"
        built = self._build()
        for around, queryset in built.values():
            using = queryset.db
            sql, own = queryset.query.get_compiler(using).as_sql()
            texts.append(around.format(sql))
            parameters += own
        return using, f"SELECT {', '.join(texts)}", tuple(built), tuple(parameters)

    def values(self, **given: Any) -> dict[str, Any]:
        using, sql, names, parameters = self._compile
        with connections[using].cursor() as cursor:
            cursor.execute(sql, _fill_parameters(parameters, given))
            return dict(zip(names, cursor.fetchone(), strict=True))


COUNTED = "(SELECT count(*) FROM ({}) AS counted)"
EXISTS = "(({}) IS NOT NULL)"
"""Whether a queryset that gives at most one row, of its key, gives it: the plan stops there, as its limit says."""
VALUE = "({})"
"""One value, of a queryset that gives one row of one column, or none."""
