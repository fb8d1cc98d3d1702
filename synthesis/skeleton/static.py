"""Static check of an assembled program, then its construction in the sandbox. In this order, the cheap first:

size and syntax; the findings of the runtime's own check (imports, class, planned methods); further public methods and
double definitions; undefined names; state outside of the attributes that `__init__` sets; signatures as JSON schemas;
only if all of that is right, construction from nothing and from the resulting state. Problems are reported together, so
that one round of repair can mend them all.
"""

from __future__ import annotations

import ast
import builtins
import json
import symtable
from collections.abc import Collection, Iterator

from synthesis import syntax
from synthesis.contracts import Program, State, Tool
from synthesis.drafts import Plan
from synthesis.errors import InputError, ProgramEnded, ProgramError, StateError
from synthesis.runtime import (
    Sandbox,
    check_program,
    decode_state,
    derive_working_schema,
    encode_state,
    outline_program,
    to_canonical_json,
)
from synthesis.skeleton.assembly import list_bound_names
from synthesis.skeleton.attributes import find_state_problems
from synthesis.skeleton.documented_tools import find_signature_problems
from synthesis.skeleton.fragments import describe_syntax_error, list_method_problems, parse_fragment

PROGRAM_CHARS = 300_000
MOST = 40
SHOWN = 300
EMPTY_BYTES = 100_000
"""Of the state that a program makes of nothing, as JSON: what is more is ballast of every state, patch and prompt."""
_UNUSABLE = frozenset(("open", "input", "breakpoint", "exit", "quit", "help"))
"""Built-ins that cannot work without files and a terminal."""
_SAID_BELOW = frozenset(("undocumented", "positional_only"))
"""Findings that `list_method_problems` has better words for."""
_KNOWN = frozenset(dir(builtins)) - _UNUSABLE | {"__name__", "__doc__"}


def examine_program(sandbox: Sandbox, source: str, class_name: str, plan: Plan) -> list[str]:
    """Return the faults of a program, one sentence each; empty if there are none.

    Raise SandboxUnavailable and, if the sandbox is closed meanwhile, SandboxLost: those imply nothing about it.
    """
    operation_names = [operation.name for operation in plan.operations]
    problems = list_read_problems(source, class_name, operation_names)
    if not problems:
        problems = find_signature_problems(source, class_name, plan)
    if not problems:
        problems = find_construction_problems(sandbox, build_program(source, class_name, plan))
    return [problem[:SHOWN] for problem in problems[:MOST]]


def build_program(source: str, class_name: str, plan: Plan) -> Program:
    """Return the program with its planned tools for the runtime. Raise ProgramError if it cannot be read."""
    program_outline = outline_program(source, class_name)
    tools = []
    for operation in plan.operations:
        method = program_outline.method(operation.name)
        if method is not None:
            schema = derive_working_schema(method)
            tools.append(
                Tool(name=operation.name, description=method.docstring, kind=operation.kind, parameters=schema)
            )
    return Program(source=source, class_name=class_name, tools=tuple(tools))


def list_read_problems(source: str, class_name: str, wanted: Collection[str]) -> list[str]:
    """Return the problems found by reading, without running anything."""
    try:
        tree = parse_fragment(source, PROGRAM_CHARS)
        top = syntax.build_scopes(source)
    except InputError as error:
        return [str(error)]
    except SyntaxError as error:
        return [describe_syntax_error(error)]
    findings = check_program(source, class_name, wanted)
    problems = [finding.message for finding in findings if finding.kind not in _SAID_BELOW]
    if any(finding.kind == "no_class" for finding in findings):
        return problems
    home = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name)
    problems += find_surplus_methods(source, class_name, wanted)
    problems += find_double_definitions(tree.body, "the program") + find_double_definitions(home.body, class_name)
    problems += find_undefined_names(top, tree)
    problems += find_state_problems(tree, home)
    for node in home.body:
        if isinstance(node, ast.FunctionDef) and node.name in wanted:
            problems += list_method_problems(node)
    return list(dict.fromkeys(problems))


def find_surplus_methods(source: str, class_name: str, wanted: Collection[str]) -> list[str]:
    """Return public methods that are not planned, and planned ones that are not callable methods."""
    public = {method.name for method in outline_program(source, class_name).methods}
    return [
        *(f"{name} is public but no planned operation; begin its name with _" for name in sorted(public - set(wanted))),
        *(f"{name} is a property, not a method" for name in sorted(set(wanted) - public) if f"def {name}" in source),
    ]


def find_double_definitions(body: list[ast.stmt], where: str) -> list[str]:
    """Return functions and classes that are defined twice: the later would replace the earlier."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    defined_names = [name for node in body if isinstance(node, kinds) for name in list_bound_names(node)]
    return [
        f"{where} defines {name} twice; keep one"
        for name in dict.fromkeys(defined_names)
        if defined_names.count(name) > 1
    ]


def find_undefined_names(top: symtable.SymbolTable, tree: ast.Module) -> list[str]:
    """Return names that are read and that neither the program nor Python defines."""
    defined = set(_KNOWN)
    used: set[str] = set()
    for scope in _iter_scopes(top):
        for symbol in scope.get_symbols():
            name = symbol.get_name()
            binds = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if binds and (scope is top or symbol.is_declared_global()):
                defined.add(name)
            if symbol.is_referenced() and (scope is top or symbol.is_global()):
                used.add(name)
    return [_describe_undefined(name, tree) for name in sorted(used - defined)]


def _describe_undefined(name: str, tree: ast.Module) -> str:
    places = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _reads_name(node, name)]
    where = places[-1].name if places else "the module"
    why = "which does not work in the sandbox" if name in _UNUSABLE else "which nothing defines"
    return f"{where} uses {name}, {why}"


def _reads_name(node: ast.AST, name: str) -> bool:
    return any(isinstance(item, ast.Name) and item.id == name for item in ast.walk(node))


def _iter_scopes(scope: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield scope
    for child in scope.get_children():
        yield from _iter_scopes(child)


def find_construction_problems(sandbox: Sandbox, program: Program) -> list[str]:
    """Return the problems of construction: from nothing, then from the resulting state."""
    try:
        empty = _read_constructed_state(sandbox, program, {})
        if large := _find_large_attributes(empty):
            return large
        odd = [name for name, value in empty.items() if not is_plain_json(value)]
        if odd:
            return [f"self.{name} is not plain JSON (objects with text as keys, lists, text, numbers)" for name in odd]
        if not empty:
            return ["__init__ sets no attribute, so there is no state"]
        again = _read_constructed_state(sandbox, program, decode_state(empty))
    except ProgramEnded as error:
        return [f"the program does not come up ({error.reason}): {error.detail or 'its process ended'}"]
    except (ProgramError, StateError) as error:
        return [f"the program cannot be constructed: {error}"]
    changed = [name for name in empty | again if empty.get(name) != again.get(name)]
    return [f"self.{name} is not what the initial state says for {name!r}" for name in changed]


def _find_large_attributes(empty: State) -> list[str]:
    """Return the largest attributes if the state built from nothing is too large to work with."""
    sizes = {name: len(to_canonical_json(value)) for name, value in empty.items()}
    if sum(sizes.values()) <= EMPTY_BYTES:
        return []
    worst = sorted(sizes, key=lambda name: (-sizes[name], name))[:3]
    return [
        f"self.{name} takes {sizes[name]:,} bytes before any initial state is given; all attributes together may take "
        f"{EMPTY_BYTES:,}: begin with empty collections"
        for name in worst
    ]


def _read_constructed_state(sandbox: Sandbox, program: Program, state: State) -> State:
    """Return the state after construction."""
    with sandbox.reset(program, encode_state(state)) as episode:
        return episode.state()


def is_plain_json(encoded: object) -> bool:
    """Return whether plain JSON can hold an encoded value."""
    value = decode_state(encoded)
    try:
        return bool(encode_state(json.loads(json.dumps(value, allow_nan=False))) == encoded)
    except (TypeError, ValueError, RecursionError, StateError):
        return False
