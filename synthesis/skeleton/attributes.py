"""Where a program keeps its state, as far as reading it tells: everything in attributes that `__init__` sets.

What lives elsewhere (on the class, in a global, in an attribute that a tool adds later) is lost when an episode is
built from a state, and no check ever sees it.
"""

from __future__ import annotations

import ast

from synthesis.formats.signatures import MUTATORS
from synthesis.skeleton.assembly import names

_GROWING = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp


def state_problems(tree: ast.Module, home: ast.ClassDef) -> list[str]:
    """Everything that is wrong with where state is kept, one sentence each."""
    return [*unset(tree, home), *on_the_class(home), *in_globals(tree)]


def on_the_class(home: ast.ClassDef) -> list[str]:
    """Containers in the class itself that are no constants: all episodes of a process would share them."""
    return [
        f"{home.name}.{name} stands on the class; set self.{name} in __init__"
        for node in home.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, _GROWING)
        for name in names(node)
        if not name.isupper()
    ]


def in_globals(tree: ast.Module) -> list[str]:
    """Functions that change what the module holds."""
    held = {name for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign) for name in names(node)}
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
        for name in sorted(_changed(function) & held - local):
            problems[f"{function.name} changes {name}, which is no part of the state; keep it in self"] = None
    return list(problems)


def _changed(function: ast.FunctionDef) -> set[str]:
    """The names through which a function writes: `NAME[...] = `, `NAME.x = `, `NAME.append(...)`."""
    written: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            written.append(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            written.append(node.func.value)
    return {name for node in written if (name := _root(node))}


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def unset(tree: ast.Module, home: ast.ClassDef) -> list[str]:
    """Attributes of self that `__init__`, with what it calls on self, never sets, and those that hide a method.

    Nothing is said of classes that derive from elsewhere, or whose `__init__` sets attributes by computed names.
    """
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    family = _family(home, classes)
    if family is None:
        return []
    methods: dict[str, ast.FunctionDef] = {}
    fields: set[str] = set()
    for node in reversed(family):
        methods |= {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        fields |= {name for item in node.body if getattr(item, "value", item) is not None for name in names(item)}
    made = _made_by("__init__", methods)
    if made is None:
        return []
    hidden = [f"self.{name} hides the method {name}; rename one" for name in sorted(made & set(methods))]
    known = made | fields
    missing: dict[str, str] = {}
    for name, method in methods.items():
        for item in _of_self(method):
            if item.attr not in known and not item.attr.startswith("__"):
                missing.setdefault(
                    item.attr, f"line {item.lineno}: {name} uses self.{item.attr}, which __init__ never sets"
                )
    return hidden + list(missing.values())


def _family(home: ast.ClassDef, classes: dict[str, ast.ClassDef]) -> list[ast.ClassDef] | None:
    """The class and its bases, itself first; None where a base is not of this program."""
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


def _made_by(start: str, methods: dict[str, ast.FunctionDef]) -> set[str] | None:
    """The attributes that a method, and what it calls on self, sets; None where the names are computed."""
    attributes: set[str] = set()
    waiting, seen = [start], set()
    while waiting:
        name = waiting.pop()
        method = methods.get(name)
        if name in seen or method is None:
            continue
        seen.add(name)
        computed = {n.id for n in ast.walk(method) if isinstance(n, ast.Name)} & {"setattr", "vars"}
        if computed or any(item.attr == "__dict__" for item in _of_self(method)):
            return None
        bare = {n.target for n in ast.walk(method) if isinstance(n, ast.AnnAssign) and n.value is None}
        attributes |= {item.attr for item in _of_self(method) if isinstance(item.ctx, ast.Store) and item not in bare}
        waiting += [item.attr for item in _of_self(method)]
    return attributes


def _of_self(method: ast.FunctionDef) -> list[ast.Attribute]:
    own = method.args.args[0].arg if method.args.args else ""
    walked = (node for node in ast.walk(method) if isinstance(node, ast.Attribute))
    return [node for node in walked if isinstance(node.value, ast.Name) and node.value.id == own]
