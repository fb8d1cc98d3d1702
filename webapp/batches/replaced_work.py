"""Machine work that a batch replaces: current versions and revisions of the same environments and tasks that other
batches or imports made.

Work and decisions of people are never replaced (`beside_human_work.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from django.db.models import F, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform

from synthesis.stages import ItemSpec
from synthesis.themes.keys import build_slug
from webapp.batches.engine.cast import fill_in_defaults
from webapp.batches.engine.products import SCRIPTED_SOURCE, SOURCE
from webapp.batches.models import BatchItem, BatchProduct
from webapp.batches.spec import SCRIPTED, BatchSettings
from webapp.common.templatetags.show import counted
from webapp.environments.models import Environment
from webapp.scenarios.human_work import edited_tasks
from webapp.scenarios.models import ReviewState, Task

NAMED = 3
"""Number of batches that are named; the others are counted."""


@dataclass(frozen=True)
class ReplacedWork:
    """Current versions of environments and current revisions of tasks, with the batches that made them."""

    versions: int = 0
    revisions: int = 0
    batches: tuple[int, ...] = ()
    is_imported: bool = False
    """Whether an import made some of them."""

    def __bool__(self) -> bool:
        return bool(self.versions or self.revisions)

    @property
    def words(self) -> str:
        """Text for people, for example `the current version of 2 environments and the current revision of 1 task`."""
        parts = (
            (self.versions, f"the current version of {counted(self.versions, 'environment')}"),
            (self.revisions, f"the current revision of {counted(self.revisions, 'task')}"),
        )
        return " and ".join(words for count, words in parts if count)

    @property
    def makers(self) -> str:
        """Text for people, for example `batches 3, 7 and an import`."""
        named = [str(batch) for batch in self.batches[:NAMED]]
        if named:
            named[0] = f"{'batch' if len(self.batches) == 1 else 'batches'} {named[0]}"
        more = len(self.batches) - NAMED
        named += [f"{more:,} more"] if more > 0 else []
        named += ["an import"] if self.is_imported else []
        return " and ".join(filter(None, (", ".join(named[:-1]), *named[-1:])))


def forecast_replaced_work(
    specs: Iterable[ItemSpec], settings: BatchSettings, cloned: Collection[int] = ()
) -> ReplacedWork:
    """Find the work that a batch of these items replaces if it makes something else of them. `cloned` are the items
    that they were cloned from: a clone makes the tasks of these current again."""
    keys = set[str]()
    for spec in specs:
        if not spec.version:
            keys |= {spec.theme.key, build_slug(spec.theme.key)} if spec.theme is not None else {spec.key}
    rows = Environment.objects.filter(source__in=(SOURCE, SCRIPTED_SOURCE), key__in=keys, current_by__isnull=True)
    current_versions = list(rows.filter(current__isnull=False).values_list("current", "source")) if keys else []
    sources = _list_possible_sources(settings) if current_versions else ()
    versions = {version for version, source in current_versions if source in sources}
    return _summarize_makers(versions, _find_outdated_revisions(cloned) if cloned else set())


def _list_possible_sources(settings: BatchSettings) -> Collection[str]:
    """Return the sources that environments made with these settings can have."""
    models = fill_in_defaults(settings).models
    if models["author"] == SCRIPTED:
        return [SCRIPTED_SOURCE]
    return [SOURCE, SCRIPTED_SOURCE] if SCRIPTED in (models["tester"], models["checker"]) else [SOURCE]


def _find_outdated_revisions(cloned: Collection[int]) -> set[int]:
    """Return the current revisions of the tasks of these items that differ from those that the items made.

    Human work is left out, and so are tasks on a program that a person keeps current: `must_stay_current` keeps them on
    it.
    """
    items = BatchItem.objects.filter(pk__in=cloned)
    environments = BatchProduct.objects.filter(item__in=items.values("pk")).values("environment")
    rows = BatchProduct.objects.filter(item__batch__in=items.values("batch"), item__level="task")
    rows = rows.filter(environment__in=environments, task__current__isnull=False).exclude(task__current=F("revision"))
    tasks = Task.objects.filter(pk__in=rows.values("task"), review_state=ReviewState.DRAFT)
    tasks = tasks.exclude(environment__current_by__isnull=False, current__scenario__version=F("environment__current"))
    return set(tasks.exclude(pk__in=edited_tasks(tasks).values("pk")).values_list("current", flat=True))


def find_replaced_work(batch: int) -> ReplacedWork:
    """Find the work of other batches and of imports that a batch replaced."""
    rows = BatchProduct.objects.filter(item__batch=batch)
    versions, revisions = (
        set(rows.filter(**{f"{name}__isnull": False}).values_list(name, flat=True))
        for name in ("replaced_version", "replaced_revision")
    )
    return _summarize_makers(versions, revisions, but=batch)


def _summarize_makers(versions: set[int], revisions: set[int], but: int | None = None) -> ReplacedWork:
    """Return the work with the batches that made it, without the work of the batch `but` itself."""
    by_version = _find_makers("version", versions, Q(item__level="theme"))
    by_revision = _find_makers("revision", revisions, Q(item__level="task"))
    makers = [by_version.get(pk) for pk in versions] + [by_revision.get(pk) for pk in revisions]
    return ReplacedWork(
        versions=sum(but is None or by_version.get(pk) != but for pk in versions),
        revisions=sum(but is None or by_revision.get(pk) != but for pk in revisions),
        batches=tuple(sorted({maker for maker in makers if maker is not None and maker != but})),
        is_imported=None in makers,
    )


def _find_makers(name: str, keys: set[int], level: Q) -> dict[int, int]:
    """Return the batch that made each of these: the first whose product it is, unless its item only grew on it."""
    if not keys:
        return {}
    rows: QuerySet[BatchProduct] = BatchProduct.objects.filter(level, **{f"{name}__in": keys})
    rows = rows.annotate(grown_on=KeyTextTransform("version", "item__spec")).filter(grown_on__isnull=True)
    return dict(rows.order_by(name, "id").distinct(name).values_list(name, "item__batch"))
