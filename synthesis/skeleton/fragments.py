"""Fragments of code in an author's replies: read strictly, so that faults are reported while the author is asked.

Nothing is executed. Every error is an InputError that goes back to the author.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Collection

from synthesis import syntax
from synthesis.errors import InputError

ATTRIBUTES_CHARS = 60_000
METHOD_CHARS = 30_000
DEPTH = 100
_HELPERS = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
_IMPORTS = ast.Import | ast.ImportFrom


def normalize_fragment(source: str) -> str:
    """Return the fragment at the left margin, with plain line ends."""
    return textwrap.dedent(source.replace("\r\n", "\n").replace("\r", "\n")).strip("\n") + "\n"


def parse_fragment(source: str, most: int) -> ast.Module:
    """Return the tree of a normalised fragment. Raise InputError if it cannot be read."""
    if len(source) > most:
        raise InputError(f"the code has {len(source):,} characters; {most:,} are allowed")
    try:
        tree = syntax.parse_module(source)
    except SyntaxError as error:
        raise InputError(describe_syntax_error(error)) from None
    except syntax.UNREADABLE as error:
        raise InputError(f"the code cannot be read: {error or type(error).__name__}"[:300]) from None
    if measure_depth(tree) > DEPTH:
        raise InputError(f"the code is nested more than {DEPTH} deep")
    return tree


def describe_syntax_error(error: SyntaxError) -> str:
    """Return the message to the author on code that does not compile."""
    return f"the code is not Python: {error.msg}" + (f" (line {error.lineno})" if error.lineno else "")


def measure_depth(tree: ast.AST) -> int:
    """Return the nesting depth of a tree; computed without recursion, unlike later processing of trees."""
    level: list[ast.AST] = [tree]
    count = 0
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        count += 1
    return count


def read_attributes(source: str, operations: Collection[str]) -> ast.ClassDef:
    """Return the environment's class in the first fragment: the one class that has an `__init__`. Raise InputError."""
    tree = parse_fragment(normalize_fragment(source), ATTRIBUTES_CHARS)
    for node in tree.body:
        _require_definition(node, "imports, constants, types, helper functions and the class")
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and "__init__" in list_method_names(node)]
    if len(classes) != 1:
        raise InputError(f"exactly one class must define __init__; {len(classes)} do")
    (home,) = classes
    for name in list_method_names(home):
        if name in operations:
            raise InputError(f"{home.name} already has a method {name}; operations are written one by one, later")
        if not name.startswith("_"):
            raise InputError(f"{home.name}.{name} is no planned operation; begin a helper's name with an underscore")
    return home


def list_method_names(node: ast.ClassDef) -> list[str]:
    """Return the names of a class's own methods."""
    return [item.name for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)]


def read_method(source: str, name: str) -> ast.FunctionDef:
    """Return the one method of a fragment, which has the planned name. Raise InputError if it is not valid."""
    tree = parse_fragment(normalize_fragment(source), METHOD_CHARS)
    public: list[ast.FunctionDef] = []
    for node in tree.body:
        _require_definition(node, "imports and the method")
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        if isinstance(node, ast.ClassDef):
            raise InputError(f"give the method alone, without the class {node.name} around or beside it")
        public.append(node)
    if [node.name for node in public] != [name]:
        raise InputError(f"it must define exactly one method, {name}; it defines {_format_names(public)}")
    (method,) = public
    problems = list_method_problems(method)
    if problems:
        raise InputError("; ".join(problems))
    return method


def list_method_problems(node: ast.FunctionDef) -> list[str]:
    """Return why a function cannot be a tool's method: agents pass arguments by name, and read its docstring."""
    spec, name = node.args, node.name
    problems = []
    if node.decorator_list:
        problems.append(f"{name} must be an ordinary method without decorators")
    if not spec.args or spec.args[0].arg != "self" or spec.posonlyargs:
        problems.append(f"the first parameter of {name} must be self, and no parameter positional-only")
    if spec.vararg or spec.kwarg:
        problems.append(f"{name} must name its parameters, without * or **")
    bare = [item.arg for item in [*spec.args[1:], *spec.kwonlyargs] if item.annotation is None]
    if bare:
        problems.append(f"{name} must give its parameters types: {', '.join(bare[:8])}")
    if not ast.get_docstring(node):
        problems.append(f"{name} must have a docstring")
    return problems


def _require_definition(node: ast.stmt, allowed: str) -> None:
    docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
        raise InputError(f"line {node.lineno}: import names, not *")
    if not (docstring or isinstance(node, _IMPORTS | _HELPERS)):
        raise InputError(f"line {node.lineno}: only {allowed} may stand outside of definitions")


def _format_names(nodes: list[ast.FunctionDef]) -> str:
    return ", ".join(node.name for node in nodes[:5]) or "none"
