"""What a check reads, told from its source: whether the answer, and which parts of the final state.

It decides only which end states may share one verdict. In the language of checks nothing is reached but by its name;
source outside of it shares no verdict.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from synthesis.runtime.check_request import language_problem
from synthesis.syntax import UNREADABLE, parse
from synthesis.verifiers.loop_keys import loop_keys
from synthesis.verifiers.script_reads import assertion_reads_answer

Place = tuple[str, ...]
"""A path of keys into the final state, written in the source as `final_state["orders"]["O-1"]` or with `.get`."""
_FINAL = frozenset({"final_state", "state"})
_NOT_FINAL = frozenset({"initial_state", "answer"})


@dataclass(frozen=True)
class CheckReads:
    """`answer`: whether it may look at the answer. `places`: where it looks in the final state, None for all of it.

    With `all_but` it looks at every key of the final state but these, and at `places` besides.
    """

    answer: bool
    places: tuple[Place, ...] | None
    all_but: frozenset[str] | None = None


@functools.lru_cache(maxsize=4_096)
def reads_answer(source: str) -> bool:
    """Whether a check looks at the answer under a name of its own; False where it cannot be read."""
    found = _find_script(source)
    if found is not None:
        return assertion_reads_answer(*found)
    used, named = _names(source)
    return bool(used & named)


def _find_script(source: str) -> tuple[ast.FunctionDef, str] | None:
    """The function `verify` of a check that was made for an assertion of a script, and its name; None of any other
    check."""
    if "def verify(" not in source or "verify(read_answer(answer)," not in source:
        return None
    try:
        body = parse(source).body
    except UNREADABLE:
        return None
    found = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == "verify" and node.args.args]
    match body[-1]:
        case ast.FunctionDef(body=[*_, ast.Return(value=ast.Subscript(slice=ast.Constant(value=str() as name)))]):
            return (found[-1], name) if found else None
    return None


@functools.lru_cache(maxsize=4_096)
def check_reads(source: str) -> CheckReads:
    """What a check may read; everything, where its source does not tell."""
    used, named = _names(source)
    if not used or language_problem(source):
        return CheckReads(True, None)
    places, all_but = _looks(source)
    return CheckReads(bool(used & named), places, all_but)


def _names(source: str) -> tuple[set[str], set[str]]:
    """(names that are read, names that the answer goes by: its own, or a third parameter's). Empty if unreadable."""
    try:
        tree = parse(source)
    except UNREADABLE:
        return set(), set()
    nodes = list(ast.walk(tree))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used, {"answer", *_third_parameters(nodes)}


def _third_parameters(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            names = [*node.args.posonlyargs, *node.args.args]
            if len(names) > 2:
                yield names[2].arg


def _looks(source: str) -> tuple[tuple[Place, ...] | None, frozenset[str] | None]:
    """The places that a readable source names, sorted, and what it leaves out of all keys, if it goes over them.

    None for places if it uses the final state in any other way.
    """
    tree = parse(source)
    finals, passed = _passed_on(tree, _final_names(tree))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    places: set[Place] = set()
    left_out: frozenset[str] | None = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name) or node.id not in finals or node in passed:
            continue
        place = _place(node, parents)
        if place:
            places.add(place)
            continue
        keys = loop_keys(tree, parents, node) if "initial_state" not in finals else None
        if keys is None:
            return None, None
        if keys.all_but:
            left_out = keys.names if left_out is None else left_out & keys.names
        else:
            places |= {(name,) for name in keys.names}
    return tuple(sorted(places)), left_out


def _passed_on(tree: ast.Module, finals: set[str]) -> tuple[set[str], set[ast.AST]]:
    """The names of the final state with those that helpers call it, and the uses that only hand it to a helper."""
    defined = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    counts = Counter(node.name for node in defined)
    counts.update(name.id for name in ast.walk(tree) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))
    helpers = {node.name: [argument.arg for argument in node.args.args] for node in defined if counts[node.name] == 1}
    passed: set[ast.AST] = set()
    size = -1
    while size != len(passed):
        size = len(passed)
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
                continue
            for argument, parameter in zip(call.args, helpers.get(call.func.id, ()), strict=False):
                if isinstance(argument, ast.Starred):
                    break
                if isinstance(argument, ast.Name) and argument.id in finals:
                    passed.add(argument)
                    finals.add(parameter)
    return finals, passed


def _final_names(tree: ast.Module) -> set[str]:
    """The names that the final state goes by: its own, and what a function that may be the check calls it."""
    names = set(_FINAL)
    for function in _entries(tree):
        given = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        if not set(given) <= _FINAL | _NOT_FINAL:
            # Called by place: (final), (initial, final) or (initial, final, answer), where defaults may follow.
            names |= {name for name in given[:1] if name not in _NOT_FINAL} | set(given[1:2])
    return names


def _entries(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]:
    """The functions of a module, one of which is called: `check_func` or `check` where there is one, else any."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                found.append(node)
            else:
                waiting.append(node)
    for name in ("check_func", "check"):
        named = [node for node in found if not isinstance(node, ast.Lambda) and node.name == name]
        if named:
            return list(named)
    return found


def _place(name: ast.Name, parents: dict[ast.AST, ast.AST]) -> Place | None:
    """How far the source goes down from a name by constant keys; None when it does not."""
    if not isinstance(name.ctx, ast.Load):
        return None
    keys: list[str] = []
    node: ast.AST = name
    while True:
        parent = parents.get(node)
        if isinstance(parent, ast.Compare) and not keys:
            return _membership(parent, node)
        found = _step(parent, node, parents)
        if found is None:
            return tuple(keys) or None
        key, node = found
        keys.append(key)


def _step(parent: ast.AST | None, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> tuple[str, ast.AST] | None:
    """One key further down, and the expression that has it: `node["key"]` or `node.get("key", ...)`, read only."""
    if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load):
        key = parent.slice
        return (key.value, parent) if isinstance(key, ast.Constant) and isinstance(key.value, str) else None
    if isinstance(parent, ast.Attribute) and parent.attr == "get" and isinstance(parent.ctx, ast.Load):
        call = parents.get(parent)
        if isinstance(call, ast.Call) and call.func is parent and call.args and not call.keywords:
            key = call.args[0]
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                return key.value, call
    return None


def _membership(compare: ast.Compare, node: ast.AST) -> Place | None:
    """`"key" in final_state` looks at that key alone."""
    alone = len(compare.ops) == 1 and isinstance(compare.ops[0], ast.In | ast.NotIn) and compare.comparators == [node]
    key = compare.left
    return (key.value,) if alone and isinstance(key, ast.Constant) and isinstance(key.value, str) else None
