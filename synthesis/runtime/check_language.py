"""The language of checks and scripts: the part of Python that cannot observe when, where or how often it runs.

An allow-list of syntax, of built-ins and of names in modules. The host refuses source outside of the language before it
runs; the process that runs it has no other names, and inspects its code again (`child/check_names.py`). There are no
classes, decorators, generator functions or context managers, no attributes that begin with an underscore or lead to
frames and code, no formatting that reads attributes, and no way to swallow an exception that is not ordinary, such as
MemoryError.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any, NamedTuple

from synthesis.runtime.child.check_names import INSPECTED, MEMORY, MODULES, NAMES, ORDINARY, UNSEEN
from synthesis.syntax import compile_tree


class Breach(NamedTuple):
    """One place outside of the language: the line, and a message that names the construct and a replacement."""

    line: int
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.message}"


_BY_MODULE = {
    "JSONDecodeError": "json",
    "InvalidOperation": "decimal",
    "StatisticsError": "statistics",
    "error": "re",
}
"""Exceptions of modules, caught as `json.JSONDecodeError` or by an imported name."""
_NODES: frozenset[type[ast.AST]] = frozenset(
    (
        *(ast.Module, ast.Expr, ast.Expression, ast.Pass, ast.Assert, ast.Raise, ast.Return, ast.Break, ast.Continue),
        *(ast.FunctionDef, ast.Lambda, ast.arguments, ast.arg, ast.Call, ast.keyword, ast.Global, ast.Nonlocal),
        *(ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.Delete, ast.Name, ast.Attribute, ast.Starred),
        *(ast.If, ast.IfExp, ast.For, ast.While, ast.Try, ast.ExceptHandler, ast.Import, ast.ImportFrom, ast.alias),
        *(ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant, ast.JoinedStr, ast.FormattedValue),
        *(ast.Subscript, ast.Slice, ast.Dict, ast.List, ast.Set, ast.Tuple),
        *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension),
    )
)
_INSTEAD: dict[type[ast.AST], str] = {
    ast.ClassDef: "a class; use functions, dicts and tuples",
    ast.With: "`with`; call functions directly",
    ast.Yield: "`yield`; return a list, or write a generator expression",
    ast.YieldFrom: "`yield`; return a list, or write a generator expression",
    ast.Match: "`match`; use `if` and `elif`",
}
_SKIPPED = frozenset(("ctx", "op", "ops"))
_READABLE = frozenset(("_asdict", "_fields"))
_CONSTANT_NAME = frozenset(("getattr", "hasattr"))
_UNKNOWN = frozenset(dir(builtins)) - NAMES - ORDINARY


def find_breaches(tree: ast.Module) -> list[Breach]:
    """Return every place of a module that is outside of the language, in the order of lines."""
    return sorted(set(_Reader(tree).find_breaches()))


class _Reader:
    """A pass over one module. `bound` holds the names that the source binds to its own values, `modules` the names that
    always refer to an imported module."""

    def __init__(self, tree: ast.Module) -> None:
        self.nodes = list(_walk_nodes(tree))
        self.bound = {name for node, _ in self.nodes for name in _list_bound_names(node)}
        self.modules = _find_modules(node for node, _ in self.nodes)
        self.called = {id(node.func) for node, _ in self.nodes if type(node) is ast.Call}

    def find_breaches(self) -> Iterator[Breach]:
        for node, line in self.nodes:
            kind = type(node)
            if kind not in _NODES:
                yield Breach(line, f"{_INSTEAD.get(kind, f'`{kind.__name__}`')} is outside of the language of checks")
                continue
            look = _LOOKS.get(kind)
            if look is not None:
                for message in look(self, node):
                    yield Breach(line, message)
            for name in _list_bound_names(node):
                if name.startswith("__"):
                    yield Breach(line, f"the name `{name}`: names must not begin with two underscores")

    def name(self, node: Any) -> Iterator[str]:
        name = node.id
        if name.startswith("__"):
            yield f"the name `{name}`: names must not begin with two underscores"
        elif name in self.bound:
            return
        elif name in _UNKNOWN:
            yield f"`{name}` is not in the language of checks; its built-ins are {_join_sorted(NAMES)}"
        elif name in _CONSTANT_NAME and id(node) not in self.called:
            yield f"`{name}` can only be called, with a name that is written down; use `value[key]`"

    def attribute(self, node: Any) -> Iterator[str]:
        if type(node.ctx) is not ast.Load:
            yield f"`.{node.attr}` is set or deleted; a check only reads: keep values in variables or dicts"
        yield from _check_attribute_name(node.attr)
        module = self._module(node.value)
        if module and node.attr not in MODULES[module]:
            yield _format_unknown_word(node.attr, module)

    def _module(self, node: ast.expr) -> str:
        """Return the module of the language that an expression denotes, empty if it may denote something else."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, "")
        if isinstance(node, ast.Attribute) and node.attr == "abc" and self._module(node.value) == "collections":
            return "collections.abc"
        return ""

    def call(self, node: Any) -> Iterator[str]:
        function = node.func
        if type(function) is not ast.Name or function.id not in _CONSTANT_NAME or function.id in self.bound:
            return
        name = node.args[1] if len(node.args) > 1 and not node.keywords else None
        if type(name) is not ast.Constant or type(name.value) is not str or type(node.args[0]) is ast.Starred:
            yield f"`{function.id}` takes a name that is written down; use `value[key]`"
        else:
            yield from _check_attribute_name(name.value)

    def check_import(self, node: Any) -> Iterator[str]:
        for alias in node.names:
            if alias.name not in MODULES:
                yield _format_unknown_module(alias.name)

    def check_import_from(self, node: Any) -> Iterator[str]:
        module = "." * node.level + (node.module or "")
        if module not in MODULES:
            yield _format_unknown_module(module)
            return
        for alias in node.names:
            if alias.name not in MODULES[module]:
                yield _format_unknown_word(alias.name, module)

    def function(self, node: Any) -> Iterator[str]:
        if node.decorator_list:
            yield "a decorator; call the function that it would wrap"
        if getattr(node, "type_params", None):
            yield "type parameters; leave them out"

    def comprehension(self, node: Any) -> Iterator[str]:
        if node.is_async:
            yield "`async`; use a plain loop"

    def attempt(self, node: Any) -> Iterator[str]:
        if node.finalbody:
            yield "`finally` may swallow what was raised; put it behind the `try`"

    def handler(self, node: Any) -> Iterator[str]:
        caught = node.type
        if caught is None:
            yield "a bare `except`; name what may be raised: `except (KeyError, ValueError):`"
            return
        for part in caught.elts if type(caught) is ast.Tuple else (caught,):
            if not self._is_ordinary(part):
                yield f"`except {ast.unparse(part)[:80]}`; catch one of {_join_sorted(ORDINARY)}"

    def _is_ordinary(self, part: ast.expr) -> bool:
        if isinstance(part, ast.Attribute):
            return isinstance(part.value, ast.Name) and _BY_MODULE.get(part.attr) == part.value.id
        if not isinstance(part, ast.Name):
            return False
        return part.id not in self.bound if part.id in ORDINARY else part.id in _BY_MODULE


_LOOKS: dict[type[ast.AST], Callable[[_Reader, Any], Iterator[str]]] = {
    ast.Name: _Reader.name,
    ast.Attribute: _Reader.attribute,
    ast.Call: _Reader.call,
    ast.Import: _Reader.check_import,
    ast.ImportFrom: _Reader.check_import_from,
    ast.FunctionDef: _Reader.function,
    ast.comprehension: _Reader.comprehension,
    ast.Try: _Reader.attempt,
    ast.ExceptHandler: _Reader.handler,
}


def _walk_nodes(tree: ast.Module) -> Iterator[tuple[ast.AST, int]]:
    """Yield every significant node with its line."""
    waiting: list[tuple[ast.AST, int]] = [(tree, 1)]
    while waiting:
        node, line = waiting.pop()
        line = getattr(node, "lineno", line)
        yield node, line
        for field in node._fields:
            if field in _SKIPPED:
                continue
            value = getattr(node, field)
            if isinstance(value, ast.AST):
                waiting.append((value, line))
            elif type(value) is list:
                waiting.extend((item, line) for item in value if isinstance(item, ast.AST))


def _list_bound_names(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a node binds."""
    if isinstance(node, ast.Name):
        return () if isinstance(node.ctx, ast.Load) else (node.id,)
    if isinstance(node, ast.arg):
        return (node.arg,)
    if isinstance(node, ast.FunctionDef):
        return (node.name,)
    if isinstance(node, ast.alias):
        return (node.asname or node.name.partition(".")[0],) if node.name != "__future__" else ()
    if isinstance(node, ast.ExceptHandler):
        return (node.name,) if node.name else ()
    return tuple(node.names) if isinstance(node, ast.Global | ast.Nonlocal) else ()


def _find_modules(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return the modules of the language by the names that the source gives them: names that only `import` binds, each
    to one module."""
    modules_by_name: dict[str, set[str]] = {}
    for node in nodes:
        for alias in node.names if isinstance(node, ast.Import) else ():
            first = alias.name.partition(".")[0]
            modules_by_name.setdefault(alias.asname or first, set()).add(alias.name if alias.asname else first)
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            modules_by_name.setdefault(alias.asname or alias.name, set()).add("")
        if not isinstance(node, ast.alias):
            for name in _list_bound_names(node):
                modules_by_name.setdefault(name, set()).add("")
    return {
        name: min(modules) for name, modules in modules_by_name.items() if len(modules) == 1 and min(modules) in MODULES
    }


def _check_attribute_name(name: str) -> Iterator[str]:
    if name in UNSEEN:
        yield f'`.{name}`; write an f-string, or read a key of that name: value["{name}"]'
    elif name in INSPECTED or (name.startswith("_") and name not in _READABLE):
        yield f'`.{name}` leads behind the data; read it by its key: value["{name}"]'


def _format_unknown_module(name: str) -> str:
    return f"the module {name!r} is not in the language of checks; it has {_join_sorted(MODULES)}"


def _format_unknown_word(word: str, module: str) -> str:
    return f"`{word}` of {module}; of this module there are {_join_sorted(MODULES[module])}"


def _join_sorted(names: Any) -> str:
    return ", ".join(sorted(names))


def compile_check(tree: ast.Module) -> CodeType:
    """Compile a module that is inside the language.

    Each `try` re-raises MemoryError first, since catching it would let a check measure the memory of the machine. A
    docstring of the module is dropped: the compiler would store it under a name that leads behind the data.
    """
    if ast.get_docstring(tree, clean=False) is not None:
        tree.body[0] = ast.copy_location(ast.Pass(), tree.body[0])
    for node, _ in list(_walk_nodes(tree)):
        if isinstance(node, ast.Try) and node.handlers:
            caught = ast.copy_location(ast.Name(id=MEMORY, ctx=ast.Load()), node)
            again = ast.copy_location(ast.Raise(), node)
            node.handlers.insert(0, ast.copy_location(ast.ExceptHandler(type=caught, body=[again]), node))
    return compile_tree(ast.fix_missing_locations(tree), "<check>")
