"""Changes that the settled items of a session make to the tree: things that move, labels that become one, and
hindrances.

Computed against the tree as it is now, which others may have changed since the session opened: a label that was merged
since is replaced by what it became.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from webapp.common.errors import Conflict
from webapp.common.templatetags.show import counted
from webapp.environments.models import Environment
from webapp.labelling.frozen import FrozenTree
from webapp.labelling.grouping.label_groups import is_lone
from webapp.labelling.models import LabelSession, PlacedKind, SessionKind, Settlement
from webapp.taxonomy.changes.draft import TreeDraft
from webapp.taxonomy.changes.wishes import Wish
from webapp.taxonomy.former import map_present_ids
from webapp.taxonomy.labels import NAME, SEPARATOR
from webapp.taxonomy.models import ChangeKind, Node, Theme

MOST_HINDERED = 50
"""Number of groups of labels that are tried one by one before the rest is called hindered too."""


@dataclass(frozen=True)
class Movement:
    """Things of one kind (`PlacedKind`) that hang on another node than the settled one."""

    kind: str
    node: int
    words: str
    ids: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Merger:
    """Labels of one group: the `sources` become `into`, which is called `name` from then on."""

    into: int
    sources: tuple[int, ...]
    name: str
    words: str
    """The names of all of them, the one that stays first."""
    was: str = ""
    """What `into` is called now."""

    @property
    def is_renaming(self) -> bool:
        """True if the label that stays gets another name."""
        return self.was != self.name


@dataclass(frozen=True)
class Outcome:
    """Everything that changes, in one change. `hindrances` say what cannot be carried out, and why; `notes` what is
    carried out otherwise than it was settled."""

    movements: tuple[Movement, ...] = ()
    mergers: tuple[Merger, ...] = ()
    unchanged: int = 0
    """Settled things that are in their right place, or fit no node; ungrouped labels."""
    open_items: int = 0
    hindrances: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def changes(self) -> int:
        return sum(len(one.ids) for one in self.movements) + len(self.mergers)


def compute_outcome(session: LabelSession) -> Outcome:
    """Return the current outcome of the settled items."""
    if session.kind == SessionKind.MERGE:
        return _drop_hindered_mergers(session, _compute_mergers(session))
    return _compute_movements(session)


def build_outcome_wish(session: LabelSession, outcome: Outcome) -> Wish:
    """Return an outcome as one change of the tree."""

    def draw_outcome(draft: TreeDraft) -> str:
        for movement in outcome.movements:
            draft.hang(f"{movement.kind}s", movement.ids, movement.node)
        _merge_all(draft, outcome.mergers)
        return f"Carried out “{session.name}”: {describe_outcome_size(outcome)}"

    return Wish(ChangeKind.SETTLED, draw_outcome)


def describe_outcome_size(outcome: Outcome) -> str:
    """Return how much an outcome changes, in words."""
    if outcome.movements:
        number = sum(len(one.ids) for one in outcome.movements)
        return f"{number:,} {outcome.movements[0].kind}{'s' * (number != 1)} moved"
    merged = sum(len(one.sources) + 1 for one in outcome.mergers if one.sources)
    groups = sum(1 for one in outcome.mergers if one.sources)
    renamed = len(outcome.mergers) - groups
    parts = [f"{counted(merged, 'label')} became {groups:,}"] if groups else []
    parts += [f"{renamed:,} label{'s' * (renamed != 1)} renamed"] if renamed else []
    return ", ".join(parts)


def _merge_all(draft: TreeDraft, mergers: Iterable[Merger]) -> None:
    """Merge first, then name: a name may be free only when the label that had it is merged away. Raises Conflict,
    which names in `facts` the merger at fault (`into`)."""
    for merger in mergers:
        with _of(merger):
            draft.merge(merger.sources, merger.into)
    renamed = [one for one in mergers if draft.node(one.into).name != one.name]
    for merger in renamed:
        draft.lift(merger.into)
    for merger in renamed:
        with _of(merger):
            draft.restore(merger.into, draft.node(merger.into).parent, " ".join(merger.name.split())[:NAME])


class _of:
    """Context that adds to a Conflict which merger it belongs to."""

    def __init__(self, merger: Merger) -> None:
        self.merger = merger

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Conflict):
            error.facts |= {"into": self.merger.into}


def _drop_hindered_mergers(session: LabelSession, outcome: Outcome) -> Outcome:
    """Leave out, with its reason, each group of labels that the tree does not let become one."""
    mergers, hindrances = list(outcome.mergers), list(outcome.hindrances)
    for _ in range(MOST_HINDERED):
        try:
            build_outcome_wish(session, replace(outcome, mergers=tuple(mergers))).draw(TreeDraft())
        except Conflict as error:
            hindered = next(one for one in mergers if one.into == error.facts["into"])
            mergers.remove(hindered)
            hindrances.append(f"{hindered.words} cannot become “{hindered.name}”. {error}")
        else:
            return replace(outcome, mergers=tuple(mergers), hindrances=tuple(hindrances))
    return replace(outcome, mergers=(), hindrances=(*hindrances, "The tree was changed too much since."))


def _compute_movements(session: LabelSession) -> Outcome:
    tree = FrozenTree.of(session)
    settled = Settlement.objects.filter(item__session=session).values_list("item__key", "item__name", "node")
    settled_nodes = {key: (name, node) for key, name, node in settled}
    model = Environment if session.places == PlacedKind.ENVIRONMENT else Theme
    now = dict(model._default_manager.filter(pk__in=settled_nodes).values_list("pk", "node_id"))
    nodes = map_present_ids({node for _, node in settled_nodes.values() if node})
    node_words = _describe_nodes(nodes.values())
    things_by_node: dict[int, list[tuple[int, str]]] = {}
    unchanged, hindrances = 0, []
    for key, (name, node) in settled_nodes.items():
        if key not in now:
            hindrances.append(f"“{name}” is gone.")
        elif node is None or now[key] == nodes.get(node):
            unchanged += 1
        elif node not in nodes:
            hindrances.append(f"“{name}” belongs on {tree.words(node)}, which is not in the tree any more.")
        else:
            things_by_node.setdefault(nodes[node], []).append((key, name))
    notes = tuple(
        f"“{tree.words(was)}” is part of “{node_words[node]}” now: what belongs there goes there."
        for was, node in nodes.items() if was != node and node in things_by_node
    )  # fmt: skip
    movements = tuple(
        Movement(session.places, node, node_words[node], tuple(pk for pk, _ in rows), tuple(name for _, name in rows))
        for node, rows in sorted(things_by_node.items(), key=lambda pair: node_words[pair[0]])
    )
    open_items = session.item_count - session.settled_count
    return Outcome(movements, (), unchanged, open_items, tuple(hindrances), notes)


def _describe_nodes(nodes: Iterable[int]) -> dict[int, str]:
    """Return current nodes with those above them, in words."""
    rows = Node.objects.filter(pk__in=set(nodes)).select_related("parent__parent")
    chains = ((row, [one for one in (row.parent and row.parent.parent, row.parent, row) if one]) for row in rows)
    return {row.pk: SEPARATOR.join(one.name for one in chain) for row, chain in chains}


def _compute_mergers(session: LabelSession) -> Outcome:
    settlement = Settlement.objects.filter(item__session=session).select_related("item").first()
    if settlement is None or settlement.groups is None:
        return Outcome(open_items=1)
    labels = {label["id"]: label for label in settlement.item.content["labels"]}
    now = map_present_ids(labels)
    rows = {row.pk: row for row in Node.objects.filter(pk__in=set(now.values()))}
    mergers, hindrances, unchanged = [], [], 0
    for group in settlement.groups:
        present_labels = [pk for pk in group["labels"] if now.get(pk) == pk]
        for pk in group["labels"]:
            name = labels[pk]["name"]
            if pk not in now:
                hindrances.append(f"“{name}” is not in the tree any more.")
            elif now[pk] not in group["labels"]:
                hindrances.append(f"“{name}” is part of “{rows[now[pk]].name}” since, which is in no group with it.")
        if not present_labels:
            continue
        into = _choose_staying_label(present_labels, labels, group["name"])
        others = tuple(pk for pk in present_labels if pk != into)
        if is_lone(group) or (not others and rows[into].name == group["name"]):
            unchanged += 1
            continue
        words = ", ".join(labels[pk]["name"] for pk in (into, *others))
        mergers.append(Merger(into, others, group["name"], words, rows[into].name))
    return Outcome((), tuple(mergers), unchanged, 0, tuple(hindrances))


def _choose_staying_label(here: list[int], labels: dict[int, dict[str, object]], name: str) -> int:
    """Return the label of a group that stays: the one with the group's name, else the first below the node that most
    of them are below."""
    same = [pk for pk in here if labels[pk]["name"] == name]
    most = Counter(labels[pk]["parent"] for pk in here).most_common(1)[0][0]
    return (same or [pk for pk in here if labels[pk]["parent"] == most])[0]
