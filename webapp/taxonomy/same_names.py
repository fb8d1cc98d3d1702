"""Labels of one name in several places of the tree, which may belong together.

Imported labels are not a taxonomy: a label can be below another one that is below it elsewhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from webapp.taxonomy.labels import fold_name
from webapp.taxonomy.models import LAST_NAME, SEPARATOR, Node
from webapp.taxonomy.queries import nodes_with_counts

PLACES_SHOWN = 5
CROSSED_SHOWN = 3
MOST_MERGED = 100
"""Number of places that one link names."""


@dataclass(frozen=True)
class SameName:
    """A name and the labels that have it: first the upper one with the most themes, which the others would join.

    `crossed` are names that are both above and below it.
    """

    nodes: tuple[Node, ...]
    crossed: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.nodes[0].name

    @property
    def places(self) -> int:
        return len(self.nodes)

    @property
    def shown(self) -> tuple[Node, ...]:
        return self.nodes[:PLACES_SHOWN]

    @property
    def others(self) -> tuple[Node, ...]:
        """The places beyond those that are shown at once."""
        return self.nodes[PLACES_SHOWN:]

    @property
    def crossed_words(self) -> str:
        """The crossing names in words; of many the first."""
        named = ", ".join(f"\u201c{name}\u201d" for name in self.crossed[:CROSSED_SHOWN])
        more = len(self.crossed) - CROSSED_SHOWN
        return f"{named} and {more:,} more" if more > 0 else named

    @property
    def themes(self) -> int:
        """Themes of all of them, each once: what hangs below two of them is counted at the upper one."""
        return sum(node.counts.themes for node in self._topmost)

    @property
    def environments(self) -> int:
        return sum(node.counts.environments for node in self._topmost)

    @property
    def _topmost(self) -> list[Node]:
        paths = {node.path for node in self.nodes}
        return [node for node in self.nodes if not paths.intersection(_paths_above(node.path))]

    @property
    def merging(self) -> tuple[int, str]:
        """The label from which the form of a merge starts, and its query: all others become the first one."""
        others = [node.pk for node in self.nodes[1 : MOST_MERGED + 1]]
        return others[0], urlencode({"to": self.nodes[0].pk, "also": others[1:]}, doseq=True)

    @property
    def labels_query(self) -> str:
        """The query of a new session that groups exactly these labels."""
        return urlencode({"labels": [node.pk for node in self.nodes[:MOST_MERGED]]}, doseq=True)


@dataclass(frozen=True)
class NameCount:
    """A name that several labels have. `key` is the name as names are compared."""

    key: str
    places: int
    themes: int


def count_names() -> list[NameCount]:
    """Return every name that several labels have, with how many places it has and the themes below all of them."""
    rows_by_name: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for path, themes in Node.objects.order_by().values_list("path", "counts__themes"):
        rows_by_name[_get_last_name(path)].append((path, themes or 0))
    return [_build_name_count(key, rows) for key, rows in rows_by_name.items() if len(rows) > 1]


def _build_name_count(key: str, rows: list[tuple[str, int]]) -> NameCount:
    paths = {path for path, _ in rows}
    return NameCount(key, len(rows), sum(themes for path, themes in rows if not paths.intersection(_paths_above(path))))


def find_labels(keys: Iterable[str]) -> list[SameName]:
    """Return the labels of each of these names, in two queries; names of one label are left out."""
    unique_keys = list(dict.fromkeys(keys))
    rows = nodes_with_counts().select_related("parent__parent", "counts").alias(last_name=LAST_NAME)
    nodes_by_name: dict[str, list[Node]] = {key: [] for key in unique_keys}
    for node in rows.filter(last_name__in=unique_keys).order_by("level", "path"):
        nodes_by_name[_get_last_name(node.path)].append(node)
    several = {key: nodes for key, nodes in nodes_by_name.items() if len(nodes) > 1}
    crossed = _find_crossing_names(several)
    for nodes in several.values():
        nodes.sort(key=lambda node: (node.level, -node.counts.themes, node.path))
    return [SameName(tuple(nodes), crossed.get(key, ())) for key, nodes in several.items()]


def find_repeated_names(nodes: Sequence[Node], first: str = "", most: int = 5) -> list[SameName]:
    """Return the names that several of these labels have, with all places of each: that of the text `first` comes
    first."""
    counts: dict[str, int] = defaultdict(int)
    for node in nodes:
        counts[_get_last_name(node.path)] += 1
    several = [key for key, number in counts.items() if number > 1 or key == fold_name(first)]
    several.sort(key=lambda key: (key != fold_name(first), -counts[key], key))
    return find_labels(several[:most])


def find_same_name(node: Node) -> SameName | None:
    """Return the labels with the name of this one, if there are others."""
    return next(iter(find_labels([_get_last_name(node.path)])), None)


def _find_crossing_names(found: dict[str, Collection[Node]] | dict[str, list[Node]]) -> dict[str, tuple[str, ...]]:
    """Return by name the names that are both right above and right below labels of it."""
    keys = {node.pk: key for key, nodes in found.items() for node in nodes}
    above: dict[str, dict[str, str]] = defaultdict(dict)
    for key, nodes in found.items():
        for node in nodes:
            if node.parent is not None:
                above[key][_get_last_name(node.parent.path)] = node.parent.name
    below: dict[str, set[str]] = defaultdict(set)
    for parent, path in Node.objects.filter(parent__in=keys).values_list("parent_id", "path"):
        below[keys[parent or 0]].add(_get_last_name(path))
    crossing = {key: sorted(names[other] for other in names.keys() & below[key]) for key, names in above.items()}
    return {key: tuple(names) for key, names in crossing.items() if names}


def _get_last_name(path: str) -> str:
    return path.rpartition(SEPARATOR)[2]


def _paths_above(path: str) -> list[str]:
    parts = path.split(SEPARATOR)
    return [SEPARATOR.join(parts[:depth]) for depth in range(1, len(parts))]
