"""Environments of a statistics page, and the lists that its numbers link to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlencode

from django.db.models import QuerySet
from django.urls import reverse

from webapp.batches.models import Batch, BatchProduct
from webapp.common.query_params import MOST_PICKS
from webapp.environments.models import Environment
from webapp.pages.demo_content import CATEGORY as DEMO_CATEGORY
from webapp.pages.demo_content import SOURCE as DEMO
from webapp.pages.demo_content import exclude_demo
from webapp.pages.statistics.distributions import Bin


@dataclass(frozen=True)
class Scope:
    """Selection of environments: those that a `batch` made, or all that the filters select in their current
    versions."""

    batch: Batch | None = None
    category: str = ""
    source: str = ""
    variant: str = ""
    """The variant that made them; `none`: no batch did."""
    demo: bool = False
    """Also those of the training demo, which are left out unless they are asked for."""

    @property
    def narrowed(self) -> bool:
        return bool(self.batch or self.category or self.source or self.variant)

    @property
    def without_demo(self) -> bool:
        return not (self.demo or self.batch or self.source == DEMO or self.category == DEMO_CATEGORY)

    @property
    def query(self) -> str:
        """The parameters of an address that shows the same environments."""
        parameters: dict[str, Any] = {"category": self.category, "source": self.source}
        parameters |= {"variant": self.variant} if self.variant else {}
        parameters = {"batch": self.batch.pk} if self.batch else parameters | ({"demo": 1} if self.demo else {})
        return urlencode(parameters, safe="/", quote_via=quote)

    @property
    def environments_url(self) -> str:
        """The address of their list."""
        if self.batch:
            return f"{reverse('batches:batch', args=[self.batch.pk])}?tab=items&level=theme&state=kept"
        return self.listed()

    @cached_property
    def leave_out(self) -> str:
        """The source that is left out of the counts, if it has environments."""
        return DEMO if self.without_demo and Environment.objects.filter(source=DEMO).exists() else ""

    def listed(self, **more: Any) -> str:
        """Return the address of the list of these environments, narrowed by `more`; without a batch."""
        parameters = {name: getattr(self, name) for name in ("category", "source", "variant", "leave_out")} | more
        set_parameters = {name: value for name, value in parameters.items() if value not in (None, "")}
        return (
            f"{reverse('environments:list')}?{urlencode(set_parameters)}"
            if set_parameters
            else reverse("environments:list")
        )

    @property
    def assessed_url(self) -> str:
        """The address of the list of those that were assessed; without a batch."""
        return self.listed(holds="score")

    def environments(self) -> QuerySet[Environment]:
        """Return the environments; without a batch."""
        lookups = {"category": self.category, "source": self.source}
        chosen = {name: value for name, value in lookups.items() if value}
        rows = Environment.objects.filter(current__isnull=False, **chosen).order_by()
        if self.variant:
            rows = rows.filter(variant="" if self.variant == "none" else self.variant)
        return exclude_demo(rows, "") if self.without_demo else rows

    def products(self, level: str) -> QuerySet[BatchProduct]:
        """Return what the batch made on a level."""
        return BatchProduct.objects.filter(item__batch=self.batch, item__level=level).order_by()

    def versions(self) -> QuerySet[Any]:
        """Return the ids of the versions."""
        if self.batch is None:
            return self.environments().values("current")
        return self.products("theme").filter(version__isnull=False).values("version")


def build_bar_url(scope: Scope, name: str, pairs: list[tuple[int, int]], bar: Bin) -> str:
    """Return the list of the environments of a bar: by their number; for a batch by their ids, as many as a list takes.

    A batch's environments may have a newer version by now, and attempts of others.
    """
    if scope.batch is not None:
        return build_ids_url(reverse("environments:list"), pairs, bar)
    if name == "tools":
        return scope.listed(tools_min=bar.low, tools_max=bar.high)
    return scope.listed(holds=name, least=bar.low, most=bar.high)


def build_ids_url(address: str, pairs: Iterable[tuple[int, int]], bar: Bin) -> str:
    """Return a list of the rows whose number is in a bar, from (number, id); empty if there are more than a list
    takes."""
    keys = sorted({key for number, key in pairs if bar.low <= number <= bar.high})
    return f"{address}?{urlencode([('ids', key) for key in keys])}" if len(keys) <= MOST_PICKS else ""
