"""The tree in memory, on which a change is drawn: it refuses what the tree cannot be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webapp.common.errors import Conflict, NotFound
from webapp.taxonomy.labels import NAME, SEPARATOR, fold_name, rank_name
from webapp.taxonomy.models import LEVELS, Node


@dataclass
class DraftNode:
    """A node in the draft. The id of one that the draft made is below zero."""

    pk: int
    parent: int | None
    name: str


@dataclass(frozen=True)
class Was:
    """A node as it is in the database."""

    parent: int | None
    name: str
    path: str
    level: int
    made: str


def make_conflict(words: str, code: str) -> Conflict:
    return Conflict(words, code=code)


class TreeDraft:
    """All nodes, changed in memory. `hung` are things by kind that hang elsewhere than before (thing to node);
    `all_of` nodes whose things all go to another one; `into` the successors of nodes that are gone, `origin` the
    nodes that new ones were taken from."""

    def __init__(self) -> None:
        columns = ("pk", "parent_id", "name", "path", "level", "created_at")
        rows = Node.objects.order_by("level", "position", "path").values_list(*columns)
        self.was = {
            pk: Was(parent, name, path, level, made.isoformat()) for pk, parent, name, path, level, made in rows
        }
        self.nodes = {pk: DraftNode(pk, row.parent, row.name) for pk, row in self.was.items()}
        self.below: dict[int | None, dict[str, int]] = {}
        for pk, row in self.was.items():
            self.below.setdefault(row.parent, {})[row.path.rsplit(SEPARATOR, 1)[-1]] = pk
        self.hung: dict[str, dict[int, int]] = {}
        self.all_of: dict[int, int] = {}
        self.into: dict[int, int | None] = {}
        self.origin: dict[int, int | None] = {}
        self.made: dict[int, str] = {}
        """When nodes were made that are here again."""

    def node(self, pk: int) -> DraftNode:
        """Return a node. Raises NotFound."""
        found = self.nodes.get(pk)
        if found is None:
            raise NotFound(f"There is no label {pk} in the tree. It may have been merged or deleted.")
        return found

    def chain(self, pk: int | None) -> list[int]:
        """Return a node and those above it."""
        found = []
        while pk is not None:
            found.append(pk)
            pk = self.nodes[pk].parent
        return found

    def level(self, pk: int | None) -> int:
        return len(self.chain(pk))

    def words(self, pk: int | None) -> str:
        """Return a node with those above it, as people read it."""
        return SEPARATOR.join(self.nodes[one].name for one in reversed(self.chain(pk))) or "the first level"

    def children(self, pk: int | None) -> list[int]:
        return list(self.below.get(pk, {}).values())

    def subtree(self, pk: int) -> list[int]:
        """Return a node and all below it, parents first."""
        found = [pk]
        for one in found:
            found += self.children(one)
        return found

    def height(self, pk: int) -> int:
        """Return how many levels a node and the nodes below it take."""
        return 1 + max((self.height(one) for one in self.children(pk)), default=0)

    def move(self, pk: int, parent: int | None) -> None:
        """Put a node, with all below it, below another or on the first level. Raises NotFound, Conflict."""
        node = self.node(pk)
        if parent is not None and pk in self.chain(self.node(parent).pk):
            raise make_conflict(f"“{node.name}” cannot be below itself. Choose a label outside of it.", "below_itself")
        if node.parent == parent:
            raise make_conflict(f"“{node.name}” is there already.", "there_already")
        self._fit(pk, parent)
        self._settle(node, parent, node.name)

    def rename(self, pk: int, name: str) -> None:
        """Rename a node. Raises NotFound, Conflict."""
        node, line = self.node(pk), " ".join(name.split())[:NAME]
        if not fold_name(line):
            raise make_conflict("A label needs a name.", "no_name")
        if node.name == line:
            raise make_conflict(f"It is called “{line}” already.", "there_already")
        self._settle(node, node.parent, line)

    def merge(self, sources: Sequence[int], into: int, name: str = "") -> None:
        """Let nodes become another one, which may get a name: what hangs on them hangs there, labels below them move
        below it, and those of one name become one too. Raises NotFound, Conflict."""
        target = self.node(into)
        for pk in sources:
            node = self.node(pk)
            if pk in self.chain(into):
                words = f"“{target.name}” is “{node.name}” itself, or below it: merge the other way round."
                raise make_conflict(words, "below_itself")
            self._become(pk, into)
        if name and " ".join(name.split())[:NAME] != target.name:
            self.rename(into, name)

    def remove(self, pk: int) -> None:
        """Remove a node that has no label below it; the caller ensures that nothing hangs there either."""
        node = self.node(pk)
        if self.children(pk):
            raise make_conflict(f"There are labels below “{node.name}”. Say which label takes them.", "not_empty")
        self._detach(node)
        del self.nodes[pk]
        self.into[pk] = None

    def add(self, name: str, parent: int | None, origin: int | None = None) -> int:
        """Add a new node and return its id, below zero. Raises Conflict."""
        pk = -1 - len(self.origin)
        node = DraftNode(pk, None, "")
        self.nodes[pk], self.origin[pk] = node, origin
        line = " ".join(name.split())[:NAME]
        if not fold_name(line):
            raise make_conflict("A label needs a name.", "no_name")
        self._fit(pk, parent)
        self._settle(node, parent, line, fresh=True)
        return pk

    def lift(self, pk: int) -> None:
        """Take a node out of its place, to be restored elsewhere or dropped."""
        self._detach(self.nodes[pk])

    def drop(self, pk: int, into: int | None) -> None:
        """Remove a lifted node; its address leads to another one. Raises Conflict: labels are below it."""
        if left := self.children(pk):
            words = f"“{self.nodes[left[0]].name}” is below “{self.nodes[pk].name}” now. Move it elsewhere first."
            raise make_conflict(words, "not_empty")
        del self.nodes[pk]
        self.into[pk] = into

    def restore(self, pk: int, parent: int | None, name: str, made: str = "") -> None:
        """Put a lifted node, or one that is gone, back in its place. Raises Conflict."""
        node = self.nodes.setdefault(pk, DraftNode(pk, parent, name))
        self.made[pk] = made
        if parent is not None and parent not in self.nodes:
            raise make_conflict(f"The label that “{name}” was below no longer exists.", "parent_gone")
        self._settle(node, parent, name, fresh=True)

    def hang(self, kind: str, things: Iterable[int], node: int) -> None:
        """Hang things on a node. Raises NotFound."""
        self.node(node)
        self.hung.setdefault(kind, {}).update(dict.fromkeys(things, node))

    def home(self, node: int) -> int:
        """Return the node to which things of a node finally go."""
        while node in self.all_of:
            node = self.all_of[node]
        return node

    def _become(self, pk: int, into: int) -> None:
        node = self.nodes[pk]
        self._detach(node)
        for child in self.children(pk):
            same = self.below.get(into, {}).get(fold_name(self.nodes[child].name))
            if same is not None and same != child:
                self._become(child, same)
            else:
                self._fit(child, into)
                self._settle(self.nodes[child], into, self.nodes[child].name)
        del self.nodes[pk]
        self.all_of[pk] = self.into[pk] = into

    def _fit(self, pk: int, parent: int | None) -> None:
        if self.level(parent) + self.height(pk) > LEVELS:
            above = f"below “{self.words(parent)}”"
            words = f"{above} it, or a label below it, would be on a level below the third. The tree has {LEVELS}."
            raise make_conflict(words[0].upper() + words[1:], "too_deep")

    def _settle(self, node: DraftNode, parent: int | None, name: str, *, fresh: bool = False) -> None:
        """Put a node below another under a name, which must be free there."""
        same_named = self.below.get(parent, {}).get(fold_name(name))
        if same_named is not None and same_named != node.pk:
            where = f"below “{self.words(parent)}”" if parent is not None else "on the first level"
            words = f"There is a label “{self.nodes[same_named].name}” {where} already. "
            words += "Merge the two, or take another name."
            raise Conflict(words, code="name_taken", facts={"node": same_named})
        if not fresh:
            self._detach(node)
        node.parent, node.name = parent, name
        self.below.setdefault(parent, {})[fold_name(name)] = node.pk

    def _detach(self, node: DraftNode) -> None:
        names = self.below.get(node.parent, {})
        if names.get(fold_name(node.name)) == node.pk:
            del names[fold_name(node.name)]

    def path(self, pk: int) -> str:
        return SEPARATOR.join(fold_name(self.nodes[one].name) for one in reversed(self.chain(pk)))

    def place(self, pk: int) -> int:
        """Return the position among its siblings, before their names count."""
        node = self.nodes[pk]
        return rank_name(node.name) if node.parent is None else 0
