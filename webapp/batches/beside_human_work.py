"""Human work that a batch meets: work that exists before it starts, and products made beside it afterwards."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import F, Q, QuerySet

from synthesis.stages import ItemSpec
from synthesis.themes.keys import build_slug
from webapp.batches.engine.products import SCRIPTED_SOURCE, SOURCE
from webapp.batches.models import BatchProduct
from webapp.environments.models import Environment, Version
from webapp.scenarios.human_work import HumanWork, count_human_work


def count_met_human_work(specs: Iterable[ItemSpec]) -> HumanWork:
    """Count the human work in the environments that a batch of these items would extend or make again."""
    versions, keys = set[int](), set[str]()
    for spec in specs:
        if spec.version:
            versions.add(spec.version)
        elif spec.theme is not None:
            keys |= {spec.theme.key, build_slug(spec.theme.key)}
        else:
            keys.add(spec.key)
    if not versions and not keys:
        return HumanWork()
    grown_on = Version.objects.filter(pk__in=versions).values("environment")  # a join would count each by its versions
    made_again = Q(source__in=(SOURCE, SCRIPTED_SOURCE), key__in=keys)
    return count_human_work(Environment.objects.filter(Q(pk__in=grown_on) | made_again))


def list_versions_beside(batch: int) -> QuerySet[BatchProduct]:
    """Return the products of a batch whose version is not current because a person's version already was."""
    rows = BatchProduct.objects.filter(item__batch=batch, item__level="theme", version__isnull=False)
    rows = rows.filter(environment__current_by__isnull=False, environment__current__created_at__lt=F("created_at"))
    return rows.exclude(environment__current=F("version"))


def list_revisions_beside(batch: int) -> QuerySet[BatchProduct]:
    """Return the products of a batch whose revision is not current because another revision already was."""
    rows = BatchProduct.objects.filter(item__batch=batch, item__level="task", revision__isnull=False)
    rows = rows.filter(task__current__created_at__lt=F("created_at"))
    return rows.exclude(task__current=F("revision"))


@dataclass(frozen=True)
class MadeBeside:
    """Counts of versions and revisions that a batch made beside human work."""

    versions: int
    revisions: int

    def __bool__(self) -> bool:
        return bool(self.versions or self.revisions)

    @property
    def words(self) -> str:
        """Text for people, for example `1 version, 3 revisions of tasks`."""
        versions = f"{self.versions:,} version{'s' if self.versions != 1 else ''}"
        revisions = f"{self.revisions:,} revision{'s' if self.revisions != 1 else ''} of tasks"
        return ", ".join(words for count, words in ((self.versions, versions), (self.revisions, revisions)) if count)


def count_products_beside(batch: int) -> MadeBeside:
    """Count the versions and revisions that a batch made beside current human work."""
    versions = list_versions_beside(batch).order_by().values("version").distinct().count()
    return MadeBeside(versions, list_revisions_beside(batch).order_by().values("revision").distinct().count())
