"""States that one module alone writes: what changes an item's state is read in one place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.architecture.source_files import ROOT, nodes_of, sources, tree_of

STATES = "ItemState"
MODEL = "BatchItem"
WRITER = "webapp/batches/engine/item_state.py"


def names(node: ast.AST, wanted: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == wanted for one in ast.walk(node))


def writes(tree: ast.AST) -> Iterator[int]:
    """Lines that give an item a state: an assignment, an update, a new row, SQL."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            attributes = [one for target in targets for one in ast.walk(target) if isinstance(one, ast.Attribute)]
            if any(one.attr == "state" for one in attributes) and names(node.value, STATES):
                yield node.lineno
        elif isinstance(node, ast.Call):
            update = isinstance(node.func, ast.Attribute) and node.func.attr in ("update", "create", "update_or_create")
            state = any(key.arg in ("state", "defaults") and names(key.value, STATES) for key in node.keywords)
            made = isinstance(node.func, ast.Name) and node.func.id == MODEL
            if made or (update and state):
                yield node.lineno
        elif isinstance(node, ast.JoinedStr) and names(node, MODEL) and "UPDATE" in ast.unparse(node):
            yield node.lineno


def test_one_module_writes_the_state_of_items() -> None:
    found = {}
    for path in sources("webapp"):
        name = str(path.relative_to(ROOT))
        if "/migrations/" not in name and (lines := list(writes(tree_of(path)))):
            found[name] = lines
    assert len(found.pop(WRITER)) >= 8
    assert found == {}


def test_the_test_sees_every_way_to_write() -> None:
    written = [
        "row.state = ItemState.KEPT",
        "row.state, row.reason = ItemState.KEPT, ''",
        "rows.update(state=ItemState.WAITING)",
        "BatchItem(path='a')",
        "sql = f'UPDATE {BatchItem._meta.db_table} SET state = 1'",
    ]
    assert all(list(writes(ast.parse(text))) for text in written)
    assert not list(writes(ast.parse("rows.filter(state=ItemState.KEPT)")))


def test_one_module_adds_up_trajectories() -> None:
    """What a row says of its steps, and what trajectories add to counts above them."""
    columns = {"step_count", "call_count", "error_count", "duration_us", "trajectory_count"}
    found = set()
    for path in sources("webapp/trajectories", "webapp/runs", "webapp/batches"):
        for node in nodes_of(path):
            stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in columns
            if stored or (isinstance(node, ast.keyword) and node.arg == "trajectory_count"):
                found.add(str(path.relative_to(ROOT)))
    assert found == {"webapp/trajectories/totals.py"}
