"""Location of a program's state, as far as reading it shows: everything in attributes that `__init__` sets.

State elsewhere (on the class, in a global, in an attribute that a tool adds later) is lost when an episode is built
from a state, and no check ever sees it.
"""

from __future__ import annotations

import ast

from synthesis.formats.signatures import MUTATORS
from synthesis.skeleton.assembly import list_bound_names

_GROWING = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp


def find_state_problems(tree: ast.Module, home: ast.ClassDef) -> list[str]:
    """Return all faults in the location of state, one sentence each."""
    return [*find_unset_attributes(tree, home), *find_class_containers(home), *find_global_changes(tree)]


def find_class_containers(home: ast.ClassDef) -> list[str]:
    """Return containers in the class itself that are not constants: all episodes of a process would share them."""
    return [
        f"{home.name}.{name} stands on the class; set self.{name} in __init__"
        for node in home.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, _GROWING)
        for name in list_bound_names(node)
        if not name.isupper()
    ]


def find_global_changes(tree: ast.Module) -> list[str]:
    """Return functions that change globals of the module."""
    held = {
        name for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) for name in list_bound_names(node)
    }
    problems: dict[str, None] = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if isinstance(node, ast.Global):
                problems[f"{function.name} declares {', '.join(node.names)} global; keep state in self"] = None
        local = {
            node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        local |= {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
        for name in sorted(_get_changed_names(function) & held - local):
            problems[f"{function.name} changes {name}, which is no part of the state; keep it in self"] = None
    return list(problems)


def _get_changed_names(function: ast.FunctionDef) -> set[str]:
    """Return the names through which a function writes: `NAME[...] = `, `NAME.x = `, `NAME.append(...)`."""
    written: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            written.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            written.append(node.func.value)
    return {name for node in written if (name := _get_root_name(node))}


def _get_root_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def find_unset_attributes(tree: ast.Module, home: ast.ClassDef) -> list[str]:
    """Return attributes of self that `__init__`, with the methods it calls, never sets, and those that hide a method.

    Classes with foreign bases, or whose `__init__` sets attributes by computed names, are not examined.
    """
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    family = _list_family(home, classes)
    if family is None:
        return []
    methods: dict[str, ast.FunctionDef] = {}
    fields: set[str] = set()
    for node in reversed(family):
        methods |= {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        fields |= {
            name for item in node.body if getattr(item, "value", item) is not None for name in list_bound_names(item)
        }
    made_attributes = _list_made_attributes("__init__", methods)
    if made_attributes is None:
        return []
    hidden = [f"self.{name} hides the method {name}; rename one" for name in sorted(made_attributes & set(methods))]
    known_attributes = made_attributes | fields
    missing: dict[str, str] = {}
    for name, method in methods.items():
        for item in _list_self_attributes(method):
            if item.attr not in known_attributes and not item.attr.startswith("__"):
                missing.setdefault(
                    item.attr, f"line {item.lineno}: {name} uses self.{item.attr}, which __init__ never sets"
                )
    return hidden + list(missing.values())


def _list_family(home: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef] | None:
    """Return the class and its bases, itself first; None if a base is not of this program."""
    family, waiting = [], [home]
    while waiting:
        node = waiting.pop(0)
        if node in family:
            continue
        family.append(node)
        for base in node.bases:
            name = base.id if isinstance(base, ast.Name) else ""
            if name in classes:
                waiting.append(classes[name])
            elif name not in ("object", "ABC"):
                return None
    return family


def _list_made_attributes(start: str, methods: dict[str, ast.FunctionDef]) -> set[str] | None:
    """Return the attributes that a method, with the methods it calls on self, sets; None if their names are
    computed."""
    attributes: set[str] = set()
    waiting, visited = [start], set()
    while waiting:
        name = waiting.pop()
        method = methods.get(name)
        if name in visited or method is None:
            continue
        visited.add(name)
        computed = {n.id for n in ast.walk(method) if isinstance(n, ast.Name)} & {"setattr", "vars"}
        if computed or any(item.attr == "__dict__" for item in _list_self_attributes(method)):
            return None
        bare = {n.target for n in ast.walk(method) if isinstance(n, ast.AnnAssign) and n.value is None}
        attributes |= {
            item.attr for item in _list_self_attributes(method) if isinstance(item.ctx, ast.Store) and item not in bare
        }
        waiting += [item.attr for item in _list_self_attributes(method)]
    return attributes


def _list_self_attributes(method: ast.FunctionDef) -> list[ast.Attribute]:
    self_name = method.args.args[0].arg if method.args.args else ""
    walked = (node for node in ast.walk(method) if isinstance(node, ast.Attribute))
    return [node for node in walked if isinstance(node.value, ast.Name) and node.value.id == self_name]
