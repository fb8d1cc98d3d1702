"""Choice of what a batch grows: bundled themes, kept themes and environments by filter, a task set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet

from synthesis.errors import InputError
from synthesis.scripted import themes as bundled_themes
from synthesis.stages import ItemSpec
from webapp.batches.launch.task_files import TaskLine
from webapp.batches.models import Batch
from webapp.batches.services import of_environment, of_text, of_theme
from webapp.batches.spec import MOST_THEMES
from webapp.environments.models import Environment, Version
from webapp.query_params import LARGEST_ID, whole_number
from webapp.taxonomy.former import present_node
from webapp.taxonomy.models import Theme
from webapp.taxonomy.queries import add_tool_names, subtree
from webapp.taxonomy.theme_services import draft_of

NAMED = 5
"""So many of what a filter finds are named."""
READ = 200


@dataclass(frozen=True)
class RowFilter:
    """Rows that are there, by what they say; the newest `most` of them. `node` is a label with all below it."""

    text: str = ""
    source: str = ""
    category: str = ""
    node: int | None = None
    most: int = 20


@dataclass
class ChosenItems:
    """Items to begin with, equal ones once; what was chosen could not all be used: `left_out` says why. `cloned` are
    the items of another batch that they are taken from."""

    specs: dict[str, ItemSpec] = field(default_factory=dict)
    cloned: list[int] = field(default_factory=list)
    parts: list[tuple[str, int]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, what: str, specs: Iterable[ItemSpec]) -> int:
        before = len(self.specs)
        for spec in specs:
            self.specs.setdefault(spec.key, spec)
        if added := len(self.specs) - before:
            counted = added + sum(count for kind, count in self.parts if kind == what)
            self.parts = [*(part for part in self.parts if part[0] != what), (what, counted)]
        return added


def themes_like(wanted: RowFilter) -> QuerySet[Theme]:
    """Kept themes, without near-duplicates that are folded away."""
    rows = _narrowed(Theme.objects.filter(folded_into=None), wanted)
    return rows.filter(name__icontains=wanted.text) if wanted.text else rows


def environments_like(wanted: RowFilter) -> QuerySet[Environment]:
    rows = _narrowed(Environment.objects.exclude(current=None), wanted)
    if wanted.category:
        rows = rows.filter(category=wanted.category)
    return rows.filter(Q(name__icontains=wanted.text) | Q(key__iexact=wanted.text)) if wanted.text else rows


PICKED: dict[str, Callable[[], QuerySet]] = {
    "themes_ids": lambda: Theme.objects.all(),
    "environments_ids": lambda: Environment.objects.exclude(current=None),
}
"""Fields of the form that choose rows one by one, and the rows that there are."""


def describe_themes(keys: Sequence[int]) -> dict[int, str]:
    """Return what tells themes of one name apart: publisher, first tools, the beginning of the description."""
    rows = list(Theme.objects.filter(pk__in=keys).only("source", "key", "description"))
    add_tool_names(rows)
    return {
        row.pk: " · ".join(filter(None, (f"{row.source} {row.key}", ", ".join(row.first_tools), row.description[:120])))
        for row in rows
    }


def named(rows: QuerySet, given: Iterable[object] | None) -> list[tuple[int, str]]:
    """Number and name of the rows that were given by number, in that order; what is no number is left out."""
    numbers = (whole_number(str(value), 1, LARGEST_ID) for value in list(given or [])[:MOST_THEMES])
    wanted = [number for number in dict.fromkeys(numbers) if number is not None]
    names = dict(rows.filter(pk__in=wanted).values_list("pk", "name"))
    return [(pk, names[pk]) for pk in wanted if pk in names]


def _narrowed(rows: QuerySet, wanted: RowFilter) -> QuerySet:
    if wanted.source:
        rows = rows.filter(source=wanted.source)
    if wanted.node is not None:
        node = present_node(wanted.node)
        rows = rows.filter(node__in=subtree(node)) if node else rows.none()
    return rows


@dataclass(frozen=True)
class Matching:
    """How many rows a filter finds; counted up to what a batch may have, `more` says that there are others."""

    count: int
    more: bool
    taken: int
    names: list[str]


def matching(rows: QuerySet, most: int) -> Matching:
    counted = rows.order_by()[: MOST_THEMES + 1].count()
    newest = list(rows.order_by("-id").values_list("name", "key")[:NAMED])
    by_name = Counter(name for name, _ in newest)
    names = [f"{name} ({key})" if by_name[name] > 1 else name for name, key in newest]
    count = min(counted, MOST_THEMES)
    return Matching(count, counted > MOST_THEMES, min(count, most), names)


def bundled(keys: Sequence[str]) -> list[ItemSpec]:
    """Bundled themes by key. Raises InputError for one that there is not."""
    known = {draft.key: draft for draft in bundled_themes()}
    if unknown := [key for key in keys if key not in known]:
        raise InputError(f"There is no bundled theme {unknown[0][:80]!r}. They are {', '.join(known)}.")
    return [of_theme(known[key]) for key in keys]


def add_themes(chosen: ChosenItems, wanted: RowFilter) -> int:
    """The newest kept themes that fit. A server that says nothing is left out, and said so."""
    specs = []
    pks = list(themes_like(wanted).order_by("-id").values_list("pk", flat=True)[: wanted.most])
    for row in _in_order(Theme.objects.prefetch_related("tools"), pks):
        try:
            specs.append(of_theme(draft_of(row)))
        except InputError as error:
            chosen.left_out.append(f"Theme {row.pk}: {error}")
    return chosen.add("kept themes", specs)


def add_environments(chosen: ChosenItems, wanted: RowFilter) -> int:
    """The newest environments that fit, in their current versions."""
    pks = list(environments_like(wanted).order_by("-id").values_list("current_id", flat=True)[: wanted.most])
    rows = Version.objects.select_related("environment").defer("record").prefetch_related("tools", "assessments")
    return chosen.add("environments", (of_environment(row) for row in _in_order(rows, pks)))


def _in_order(rows: QuerySet, pks: list[int]) -> Iterable:
    """A few hundred at a time: programs and tools are long."""
    for start in range(0, len(pks), READ):
        part = pks[start : start + READ]
        by_pk = rows.in_bulk(part)
        yield from (by_pk[pk] for pk in part if pk in by_pk)


def add_tasks(chosen: ChosenItems, entries: Iterable[TaskLine], source: str, most: int | None) -> int:
    """The first `most` texts of a task set. What is no task is left out, and said so."""
    specs: list[ItemSpec] = []
    for task in entries:
        if task.reason:
            chosen.left_out.append(f"{task.place}: {task.reason}")
        elif most is None or len(specs) < most:
            specs.append(of_text(task.text, source))
    return chosen.add("tasks of the file", specs)


def of_batch(batch: Batch, items: Collection[int] | None = None) -> ChosenItems:
    """The items that another batch began with: all of them, or these."""
    rows = batch.items.filter(level="theme").order_by("position", "id")
    rows = rows if items is None else rows.filter(pk__in=items)
    chosen = ChosenItems(cloned=list(rows.values_list("pk", flat=True)))
    chosen.add(f"items of batch {batch.pk}", map(ItemSpec.model_validate, rows.values_list("spec", flat=True)))
    return chosen
