"""Choice of a batch's items: bundled themes, kept themes and environments by filter, a task set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from django.db.models import Q, QuerySet

from synthesis.errors import InputError
from synthesis.scripted import list_bundled_themes as bundled_themes
from synthesis.stages import ItemSpec
from webapp.batches.launch.task_files import TaskLine
from webapp.batches.models import Batch
from webapp.batches.services import build_environment_spec, build_text_spec, build_theme_spec
from webapp.batches.spec import MOST_THEMES
from webapp.common.query_params import LARGEST_ID, parse_whole_number
from webapp.environments.models import Environment, Version
from webapp.environments.tool_graph.services import read_known_edges
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.models import Theme
from webapp.taxonomy.queries import add_tool_names, select_subtree
from webapp.taxonomy.theme_services import build_theme_draft

NAMED = 5
"""Number of objects found by a filter that are named."""
READ = 200


@dataclass(frozen=True)
class RowFilter:
    """Filter of existing rows; it takes the newest `most` of them. `node` is a label with all below it."""

    text: str = ""
    source: str = ""
    category: str = ""
    node: int | None = None
    most: int = 20


@dataclass
class ChosenItems:
    """Items to begin with, without duplicates. `left_out` gives the reasons for chosen items that could not be used;
    `cloned` are the items of another batch that these are taken from."""

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


def filter_themes(wanted: RowFilter) -> QuerySet[Theme]:
    """Return kept themes, without near-duplicates that are folded away."""
    rows = _narrow_rows(Theme.objects.filter(folded_into=None), wanted)
    return rows.filter(name__icontains=wanted.text) if wanted.text else rows


def filter_environments(wanted: RowFilter) -> QuerySet[Environment]:
    rows = _narrow_rows(Environment.objects.exclude(current=None), wanted)
    if wanted.category:
        rows = rows.filter(category=wanted.category)
    return rows.filter(Q(name__icontains=wanted.text) | Q(key__iexact=wanted.text)) if wanted.text else rows


PICKED: dict[str, Callable[[], QuerySet]] = {
    "themes_ids": lambda: Theme.objects.all(),
    "environments_ids": lambda: Environment.objects.exclude(current=None),
}
"""Fields of the form that choose rows one by one, and the rows that there are."""


def describe_themes(keys: Sequence[int]) -> dict[int, str]:
    """Return details that distinguish themes of the same name: publisher, first tools, the start of the description."""
    rows = list(Theme.objects.filter(pk__in=keys).only("source", "key", "description"))
    add_tool_names(rows)
    return {
        row.pk: " · ".join(filter(None, (f"{row.source} {row.key}", ", ".join(row.first_tools), row.description[:120])))
        for row in rows
    }


def find_named_rows(rows: QuerySet, given: Iterable[object] | None) -> list[tuple[int, str]]:
    """Return (number, name) of the rows that were given by number, in that order; values that are no numbers are left
    out."""
    numbers = (parse_whole_number(str(value), 1, LARGEST_ID) for value in list(given or [])[:MOST_THEMES])
    unique_numbers = [number for number in dict.fromkeys(numbers) if number is not None]
    names = dict(rows.filter(pk__in=unique_numbers).values_list("pk", "name"))
    return [(pk, names[pk]) for pk in unique_numbers if pk in names]


def _narrow_rows(rows: QuerySet, wanted: RowFilter) -> QuerySet:
    if wanted.source:
        rows = rows.filter(source=wanted.source)
    if wanted.node is not None:
        node = find_present_node(wanted.node)
        rows = rows.filter(node__in=select_subtree(node)) if node else rows.none()
    return rows


@dataclass(frozen=True)
class Matching:
    """Number of rows that a filter finds, counted up to what a batch may have; `more` means that there are others."""

    count: int
    more: bool
    taken: int
    names: list[str]


def count_matching_rows(rows: QuerySet, most: int) -> Matching:
    counted = rows.order_by()[: MOST_THEMES + 1].count()
    newest = list(rows.order_by("-id").values_list("name", "key")[:NAMED])
    by_name = Counter(name for name, _ in newest)
    names = [f"{name} ({key})" if by_name[name] > 1 else name for name, key in newest]
    count = min(counted, MOST_THEMES)
    return Matching(count, counted > MOST_THEMES, min(count, most), names)


def build_bundled_specs(keys: Sequence[str]) -> list[ItemSpec]:
    """Return the items of bundled themes by key. Raises InputError for an unknown key."""
    drafts = {draft.key: draft for draft in bundled_themes()}
    if unknown := [key for key in keys if key not in drafts]:
        raise InputError(f"There is no bundled theme {unknown[0][:80]!r}. They are {', '.join(drafts)}.")
    return [build_theme_spec(drafts[key]) for key in keys]


def add_themes(chosen: ChosenItems, wanted: RowFilter) -> int:
    """Add the newest kept themes that match. A theme whose specification has no content is left out, with the reason
    noted."""
    specs = []
    pks = list(filter_themes(wanted).order_by("-id").values_list("pk", flat=True)[: wanted.most])
    for row in _iterate_in_order(Theme.objects.prefetch_related("tools"), pks):
        try:
            specs.append(build_theme_spec(build_theme_draft(row)))
        except InputError as error:
            chosen.left_out.append(f"Theme {row.pk}: {error}")
    return chosen.add("kept themes", specs)


def add_environments(chosen: ChosenItems, wanted: RowFilter) -> int:
    """Add the newest environments that match, in their current versions."""
    pks = list(filter_environments(wanted).order_by("-id").values_list("current_id", flat=True)[: wanted.most])
    rows = Version.objects.select_related("environment").defer("record").prefetch_related("tools", "assessments")
    known_edges = read_known_edges(pks)
    return chosen.add(
        "environments", (build_environment_spec(row, known_edges) for row in _iterate_in_order(rows, pks))
    )


def _iterate_in_order(rows: QuerySet, pks: list[int]) -> Iterable:
    """Yield the rows in the order of `pks`, a few hundred at a time: programs and tools are long."""
    for start in range(0, len(pks), READ):
        part = pks[start : start + READ]
        by_pk = rows.in_bulk(part)
        yield from (by_pk[pk] for pk in part if pk in by_pk)


def add_task_lines(chosen: ChosenItems, entries: Iterable[TaskLine], source: str, most: int | None) -> int:
    """Add the first `most` texts of a task set. Entries that are no tasks are left out, with the reason noted."""
    specs: list[ItemSpec] = []
    for task in entries:
        if task.reason:
            chosen.left_out.append(f"{task.place}: {task.reason}")
        elif most is None or len(specs) < most:
            specs.append(build_text_spec(task.text, source))
    return chosen.add("tasks of the file", specs)


def copy_batch_items(batch: Batch, items: Collection[int] | None = None) -> ChosenItems:
    """Return the items that another batch began with: all of them, or these."""
    rows = batch.items.filter(level="theme").order_by("position", "id")
    rows = rows if items is None else rows.filter(pk__in=items)
    chosen = ChosenItems(cloned=list(rows.values_list("pk", flat=True)))
    chosen.add(f"items of batch {batch.pk}", map(ItemSpec.model_validate, rows.values_list("spec", flat=True)))
    return chosen
