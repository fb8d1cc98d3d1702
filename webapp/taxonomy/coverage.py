"""Coverage of the labels below one: what hangs there, what upper apps measure there, and the gaps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import QuerySet

from webapp.common.lists.columns import Column, RowList
from webapp.taxonomy import queries
from webapp.taxonomy.models import Node, NodeCounts

MOST = 5_000
"""Number of labels of one parent that are measured and sorted; of more, the first."""
FEW_TASKS = 10
"""Our choice: below so many tasks a label with environments counts as thin."""
GAPS = ("no environments", "few tasks", "")
"""What can be missing at a label, the most urgent first."""
Pairs = Mapping[int, tuple[float, int]]
"""By node, of what hangs on itself: a sum and of how many."""


@dataclass(frozen=True)
class Measure:
    """A measure of an upper app over what hangs on nodes. A `ratio` is shown as the sum's share of the number.

    A measure that is not `listed` is only on a label's own page: tables of many labels have no room for it.
    """

    name: str
    label: str
    help: str
    own: Callable[[QuerySet[Node, Any]], Pairs]
    ratio: bool = False
    listed: bool = True


MEASURES: list[Measure] = []


def register_measure(measure: Measure) -> None:
    """Register at `AppConfig.ready` what an app measures of nodes."""
    MEASURES.append(measure)


@dataclass
class CoverageRow:
    """A label with its counts and measures; `measured` has (sum, number) by measure."""

    node: Node
    measured: dict[str, tuple[float, int]] = field(default_factory=dict)

    @property
    def counts(self) -> NodeCounts:
        return self.node.counts

    @property
    def gap(self) -> str:
        """The gap here: environments, tasks, or nothing."""
        if self.counts.environments <= 0:
            return GAPS[0]
        return GAPS[1] if self.counts.tasks < FEW_TASKS else GAPS[2]

    def value(self, name: str) -> float | None:
        """Return what the row is sorted by in a column."""
        for measure in MEASURES:
            if measure.name == name:
                total, number = self.measured.get(name, (0.0, 0))
                if measure.ratio:
                    return total / number if number else None
                return total
        return float(rate) if (rate := getattr(self.counts, name)) is not None else None

    @property
    def values(self) -> list[tuple[Measure, float | None, int]]:
        """The measures of the row: (measure, value, of how many)."""
        rows = ((measure, *self.measured[measure.name]) for measure in MEASURES if measure.name in self.measured)
        return [(measure, self.value(measure.name), number) for measure, _, number in rows]


def build_labels_list() -> RowList:
    """Return the table's columns: those of the tree's counts, then what apps measure."""
    counts = (("children", "Labels below"), ("environments", "Environments"), ("themes", "Themes"), ("tasks", "Tasks"))
    columns = [Column("name", "Label", ascending="name", descending="-name", needed=True)]
    columns += [
        Column("gap", "Gap", ascending="gap", help="Gaps first, those with the most themes to grow from in front")
    ]
    columns += [_build_column(name, label) for name, label in counts]
    columns += [
        _build_column("green", "Green", "Tasks with a green audit"),
        _build_column("red", "Red", "Tasks with a red audit"),
    ]
    columns += [_build_column("pass_rate", "Pass rate", "Of trajectories that have a reward")]
    columns += [_build_column(measure.name, measure.label, measure.help) for measure in MEASURES if measure.listed]
    return RowList("labels", "Labels", tuple(columns), default_order="gap", order_parameter="sort")


def _build_column(name: str, label: str, help: str = "") -> Column:
    return Column(name, label, ascending=name, descending=f"-{name}", numeric=True, help=help)


def list_covered_labels(parent: Node | None, order: str = "gap") -> tuple[list[CoverageRow], bool]:
    """Return the labels right below one (None: the first level), and whether there are more than are looked at."""
    nodes = list(queries.list_siblings(parent.pk if parent else None)[: MOST + 1])
    rows = {node.pk: CoverageRow(node) for node in nodes[:MOST]}
    for measure in MEASURES:
        if measure.listed:
            measured = roll_up_measure(measure, parent)
            for pk, row in rows.items():
                row.measured[measure.name] = measured.get(pk, (0.0, 0))
    return _sort_rows(list(rows.values()), order), len(nodes) > MOST


def _sort_rows(rows: list[CoverageRow], order: str) -> list[CoverageRow]:
    name, back = order.removeprefix("-"), order.startswith("-")
    if name == "name":
        return rows[::-1] if back else rows
    if name == "gap":
        return sorted(rows, key=lambda row: (GAPS.index(row.gap), -row.counts.themes, -row.counts.tasks))
    rows_with_value = [row for row in rows if row.value(name) is not None]
    unknown = [row for row in rows if row.value(name) is None]
    return sorted(rows_with_value, key=lambda row: row.value(name) or 0, reverse=back) + unknown


def roll_up_measure(measure: Measure, parent: Node | None) -> dict[int, tuple[float, int]]:
    """Return a measure for each label right below one, with all that hangs below it."""
    below = Node.objects.filter(pk__in=queries.select_subtree(parent)) if parent else Node.objects.all()
    above = parent.level if parent else 0
    totals: dict[int, tuple[float, int]] = {}
    own = measure.own(below.order_by())
    chains = Node.objects.filter(pk__in=own).values_list("pk", "parent_id", "parent__parent_id")
    for pk, up, top in chains:
        chain: Sequence[int] = [one for one in (top, up, pk) if one is not None]
        if len(chain) > above:
            total, number = totals.get(chain[above], (0.0, 0))
            totals[chain[above]] = (total + own[pk][0], number + own[pk][1])
    return totals


def measure_node(node: Node) -> list[tuple[Measure, float | None, int]]:
    """Return the measures of one node and all below it."""
    row = CoverageRow(node)
    for measure in MEASURES:
        own = measure.own(Node.objects.filter(pk__in=queries.select_subtree(node)).order_by())
        row.measured[measure.name] = (sum(pair[0] for pair in own.values()), sum(pair[1] for pair in own.values()))
    return row.values
