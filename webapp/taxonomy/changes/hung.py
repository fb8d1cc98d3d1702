"""Things that hang on nodes: kinds of rows with a foreign key `node`, and what each row adds to its node's counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Model, QuerySet

from webapp.taxonomy.models import Theme


@dataclass(frozen=True)
class HungKind:
    """A kind of things. `counts` names the column of a row for each count that it adds to; `counted` is one a row."""

    name: str
    """The field of `TreeChange` that says how many were moved, and the count that each adds one to."""
    noun: str
    model: type[Model]
    counts: Mapping[str, str]

    @property
    def rows(self) -> QuerySet[Any]:
        return self.model._default_manager.order_by("pk")

    def on(self, nodes: Collection[int]) -> dict[int, int]:
        """Return the things that hang on these nodes themselves, each with its node."""
        return dict(self.rows.filter(node__in=nodes).values_list("pk", "node_id")) if nodes else {}

    def standing(self, things: Iterable[int]) -> dict[int, int]:
        """Return the current nodes of these things; things that are gone, or hang on no node, are left out."""
        return dict(self.rows.filter(pk__in=list(things)).exclude(node=None).values_list("pk", "node_id"))

    def hold(self, things: Iterable[int]) -> None:
        """Lock their rows to the end of the transaction, in one order."""
        list(self.rows.filter(pk__in=list(things)).select_for_update().values_list("pk", flat=True))

    def count_additions(self, things: Mapping[int, Any]) -> dict[int, Counter[str]]:
        """Return what each thing adds to the counts of its node."""
        columns = list(self.counts.items())
        found = {}
        for pk, *values in self.rows.filter(pk__in=list(things)).values_list("pk", *(name for _, name in columns)):
            found[pk] = Counter({count: value for (count, _), value in zip(columns, values, strict=True)})
            found[pk][self.name] += 1
        return found

    def names(self, things: Iterable[int], most: int) -> list[tuple[int, str]]:
        return list(self.rows.filter(pk__in=list(things)).values_list("pk", "name")[:most])


KINDS: dict[str, HungKind] = {}


def register_hung(kind: HungKind) -> None:
    """Register at `AppConfig.ready` that rows of this kind hang on nodes."""
    KINDS[kind.name] = kind


THEMES = HungKind("themes", "theme", Theme, {"tools": "tool_count"})
