"""The environments that a page of the statistics is about, and the lists that its numbers lead to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode

from django.db.models import QuerySet
from django.urls import reverse

from webapp.batches.models import Batch, BatchProduct
from webapp.environments.models import Environment
from webapp.pages.demo_content import CATEGORY as DEMO_CATEGORY
from webapp.pages.demo_content import SOURCE as DEMO
from webapp.pages.demo_content import without_demo
from webapp.pages.statistics.distributions import Bin
from webapp.query_params import MOST_PICKS


@dataclass(frozen=True)
class Scope:
    """Which environments: those that a `batch` made, or all that the filters leave in their current versions."""

    batch: Batch | None = None
    category: str = ""
    source: str = ""
    demo: bool = False
    """Also those of the training demo, which are left out unless they are asked for."""

    @property
    def narrowed(self) -> bool:
        return bool(self.batch or self.category or self.source)

    @property
    def without_demo(self) -> bool:
        return not (self.demo or self.batch or self.source == DEMO or self.category == DEMO_CATEGORY)

    @property
    def query(self) -> str:
        """The parameters of an address that shows the same environments."""
        wanted: dict[str, Any] = {"category": self.category, "source": self.source}
        wanted = {"batch": self.batch.pk} if self.batch else wanted | ({"demo": 1} if self.demo else {})
        return urlencode(wanted, safe="/", quote_via=quote)

    @property
    def environments_url(self) -> str:
        """Where they are listed."""
        if self.batch:
            return f"{reverse('batches:batch', args=[self.batch.pk])}?tab=items&level=theme&state=kept"
        return self.listed()

    @cached_property
    def leave_out(self) -> str:
        """The source that is left out of the counts, where there are environments of it."""
        return DEMO if self.without_demo and Environment.objects.filter(source=DEMO).exists() else ""

    def listed(self, **more: Any) -> str:
        """The list of these environments, narrowed by `more`; without a batch."""
        wanted = {"category": self.category, "source": self.source, "leave_out": self.leave_out, **more}
        kept = {name: value for name, value in wanted.items() if value not in (None, "")}
        return f"{reverse('environments:list')}?{urlencode(kept)}" if kept else reverse("environments:list")

    @property
    def assessed_url(self) -> str:
        """Where those of them are listed that were assessed; without a batch."""
        return self.listed(holds="score")

    def environments(self) -> QuerySet[Environment]:
        """Without a batch."""
        wanted = {"category": self.category, "source": self.source}
        chosen = {name: value for name, value in wanted.items() if value}
        rows = Environment.objects.filter(current__isnull=False, **chosen).order_by()
        return without_demo(rows, "") if self.without_demo else rows

    def products(self, level: str) -> QuerySet[BatchProduct]:
        """What the batch made on a level."""
        return BatchProduct.objects.filter(item__batch=self.batch, item__level=level).order_by()

    def versions(self) -> QuerySet[Any]:
        """Ids."""
        if self.batch is None:
            return self.environments().values("current")
        return self.products("theme").filter(version__isnull=False).values("version")


def listed_bar(scope: Scope, name: str, pairs: list[tuple[int, int]], bar: Bin) -> str:
    """The list of the environments of a bar: by their number; of a batch by their ids, as many as a list takes.

    A batch's environments may have a newer version by now, and attempts that others made.
    """
    if scope.batch is not None:
        return picked(reverse("environments:list"), pairs, bar)
    if name == "tools":
        return scope.listed(tools_min=bar.low, tools_max=bar.high)
    return scope.listed(holds=name, least=bar.low, most=bar.high)


def picked(address: str, pairs: Iterable[tuple[int, int]], bar: Bin) -> str:
    """A list of the rows whose number lies in a bar, out of (number, id); "" of more than it takes."""
    keys = sorted({key for number, key in pairs if bar.low <= number <= bar.high})
    return f"{address}?{urlencode([('ids', key) for key in keys])}" if len(keys) <= MOST_PICKS else ""
