"""The reads of a check, derived from its source: whether it reads the answer, and which parts of the final state.

This decides only which end states may share one verdict. In the language of checks all access is by name; source
outside of it shares no verdict.
"""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from synthesis.runtime.check_request import find_language_problem
from synthesis.syntax import UNREADABLE, parse_module
from synthesis.verifiers.loop_keys import find_loop_keys
from synthesis.verifiers.script_reads import assertion_reads_answer

Place = tuple[str, ...]
"""A path of keys into the final state, written in the source as `final_state["orders"]["O-1"]` or with `.get`."""
_FINAL = frozenset({"final_state", "state"})
_NOT_FINAL = frozenset({"initial_state", "answer"})


@dataclass(frozen=True)
class CheckReads:
    """The values that a check may read.

    `answer`: whether it may read the answer. `places`: the places that it reads in the final state, None for all of it.
    With `all_but` it reads every key of the final state but these, and `places` besides.
    """

    answer: bool
    places: tuple[Place, ...] | None
    all_but: frozenset[str] | None = None


@functools.lru_cache(maxsize=4_096)
def reads_answer(source: str) -> bool:
    """Return whether a check reads the answer under a name of its own; False if it cannot be parsed."""
    script_and_name = _find_script(source)
    if script_and_name is not None:
        return assertion_reads_answer(*script_and_name)
    used, named = _find_names(source)
    return bool(used & named)


def _find_script(source: str) -> tuple[ast.FunctionDef, str] | None:
    """Return the function `verify` and the assertion's name of a check that was made for a script; None for any other
    check."""
    if "def verify(" not in source or "verify(read_answer(answer)," not in source:
        return None
    try:
        body = parse_module(source).body
    except UNREADABLE:
        return None
    scripts = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == "verify" and node.args.args]
    match body[-1]:
        case ast.FunctionDef(body=[*_, ast.Return(value=ast.Subscript(slice=ast.Constant(value=str() as name)))]):
            return (scripts[-1], name) if scripts else None
    return None


@functools.lru_cache(maxsize=4_096)
def find_check_reads(source: str) -> CheckReads:
    """Return what a check may read; everything if its source does not show that."""
    used, named = _find_names(source)
    if not used or find_language_problem(source):
        return CheckReads(True, None)
    places, all_but = _find_places(source)
    return CheckReads(bool(used & named), places, all_but)


def _find_names(source: str) -> tuple[set[str], set[str]]:
    """Return (names that are read, names of the answer: its own, or a third parameter's). Empty if unreadable."""
    try:
        tree = parse_module(source)
    except UNREADABLE:
        return set(), set()
    nodes = list(ast.walk(tree))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return used, {"answer", *_list_third_parameters(nodes)}


def _list_third_parameters(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            names = [*node.args.posonlyargs, *node.args.args]
            if len(names) > 2:
                yield names[2].arg


def _find_places(source: str) -> tuple[tuple[Place, ...] | None, frozenset[str] | None]:
    """Return the places that a readable source names, sorted, and the keys that it excludes if it loops over all keys.

    None for places if it uses the final state in any other way.
    """
    tree = parse_module(source)
    finals, passed = _find_passed_on(tree, _find_final_names(tree))
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    places: set[Place] = set()
    left_out: frozenset[str] | None = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Name) or node.id not in finals or node in passed:
            continue
        place = _read_place(node, parents)
        if place:
            places.add(place)
            continue
        keys = find_loop_keys(tree, parents, node) if "initial_state" not in finals else None
        if keys is None:
            return None, None
        if keys.all_but:
            left_out = keys.names if left_out is None else left_out & keys.names
        else:
            places |= {(name,) for name in keys.names}
    return tuple(sorted(places)), left_out


def _find_passed_on(tree: ast.Module, finals: set[str]) -> tuple[set[str], set[ast.AST]]:
    """Return the names of the final state, those in helpers included, and the uses that only pass it to a helper."""
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


def _find_final_names(tree: ast.Module) -> set[str]:
    """Return the names of the final state: its own, and the parameter names in functions that may be the check."""
    names = set(_FINAL)
    for function in _list_entry_functions(tree):
        parameters = [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]
        if not set(parameters) <= _FINAL | _NOT_FINAL:
            # Called by position: (final), (initial, final) or (initial, final, answer); defaults may follow.
            names |= {name for name in parameters[:1] if name not in _NOT_FINAL} | set(parameters[1:2])
    return names


def _list_entry_functions(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda]:
    """Return the functions of a module one of which is called: `check_func` or `check` if defined, else any."""
    functions: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        for node in ast.iter_child_nodes(waiting.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                functions.append(node)
            else:
                waiting.append(node)
    for name in ("check_func", "check"):
        named = [node for node in functions if not isinstance(node, ast.Lambda) and node.name == name]
        if named:
            return list(named)
    return functions


def _read_place(name: ast.Name, parents: dict[ast.AST, ast.AST]) -> Place | None:
    """Return the path of constant keys that the source follows from a name; None if there is none."""
    if not isinstance(name.ctx, ast.Load):
        return None
    keys: list[str] = []
    node: ast.AST = name
    while True:
        parent = parents.get(node)
        if isinstance(parent, ast.Compare) and not keys:
            return _read_membership(parent, node)
        key_step = _read_key_step(parent, node, parents)
        if key_step is None:
            return tuple(keys) or None
        key, node = key_step
        keys.append(key)


def _read_key_step(
    parent: ast.AST | None, node: ast.AST, parents: dict[ast.AST, ast.AST]
) -> tuple[str, ast.AST] | None:
    """Return the next key and the expression that reads it: `node["key"]` or `node.get("key", ...)`."""
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


def _read_membership(compare: ast.Compare, node: ast.AST) -> Place | None:
    """Return the key of `"key" in final_state`, which reads that key alone; None for another comparison."""
    alone = len(compare.ops) == 1 and isinstance(compare.ops[0], ast.In | ast.NotIn) and compare.comparators == [node]
    key = compare.left
    return (key.value,) if alone and isinstance(key, ast.Constant) and isinstance(key.value, str) else None
