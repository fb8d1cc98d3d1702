"""The static check of an assembled program, then its construction in the sandbox. In this order, the cheap first:

size and syntax; what the runtime's own check finds (imports, class, planned methods); further public methods and double
definitions; names that nothing defines; state outside of what `__init__` sets; signatures as JSON schemas; only where
all of that is right, construction from nothing and from the state that this gave. Problems are told together, so that
one round of repair can mend them all.
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
    canonical_json,
    check_program,
    decode_state,
    encode_state,
    outline,
    working_schema,
)
from synthesis.skeleton.assembly import names
from synthesis.skeleton.attributes import state_problems
from synthesis.skeleton.documented_tools import find_signature_problems
from synthesis.skeleton.fragments import method_problems, not_python, read

PROGRAM_CHARS = 300_000
MOST = 40
SHOWN = 300
EMPTY_BYTES = 100_000
"""Of the state that a program makes of nothing, as JSON: what is more is ballast of every state, patch and prompt."""
_UNUSABLE = frozenset(("open", "input", "breakpoint", "exit", "quit", "help"))
"""Built-ins that cannot work without files and a terminal."""
_SAID_BELOW = frozenset(("undocumented", "positional_only"))
"""Findings that `method_problems` has better words for."""
_KNOWN = frozenset(dir(builtins)) - _UNUSABLE | {"__name__", "__doc__"}


def examine(sandbox: Sandbox, source: str, class_name: str, plan: Plan) -> list[str]:
    """What is wrong with a program, one sentence each; empty where nothing is.

    Raises SandboxUnavailable and, where the sandbox is closed meanwhile, SandboxLost: those say nothing about it.
    """
    wanted = [operation.name for operation in plan.operations]
    problems = read_problems(source, class_name, wanted)
    if not problems:
        problems = find_signature_problems(source, class_name, plan)
    if not problems:
        problems = construct_problems(sandbox, program_of(source, class_name, plan))
    return [problem[:SHOWN] for problem in problems[:MOST]]


def program_of(source: str, class_name: str, plan: Plan) -> Program:
    """The program with its planned tools as the runtime takes it. Raises ProgramError."""
    seen = outline(source, class_name)
    tools = []
    for operation in plan.operations:
        method = seen.method(operation.name)
        if method is not None:
            schema = working_schema(method)
            tools.append(
                Tool(name=operation.name, description=method.docstring, kind=operation.kind, parameters=schema)
            )
    return Program(source=source, class_name=class_name, tools=tuple(tools))


def read_problems(source: str, class_name: str, wanted: Collection[str]) -> list[str]:
    """What reading finds, without running anything."""
    try:
        tree = read(source, PROGRAM_CHARS)
        top = syntax.scopes(source)
    except InputError as error:
        return [str(error)]
    except SyntaxError as error:
        return [not_python(error)]
    findings = check_program(source, class_name, wanted)
    problems = [finding.message for finding in findings if finding.kind not in _SAID_BELOW]
    if any(finding.kind == "no_class" for finding in findings):
        return problems
    home = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == class_name)
    problems += surplus(source, class_name, wanted)
    problems += twice(tree.body, "the program") + twice(home.body, class_name)
    problems += undefined(top, tree)
    problems += state_problems(tree, home)
    for node in home.body:
        if isinstance(node, ast.FunctionDef) and node.name in wanted:
            problems += method_problems(node)
    return list(dict.fromkeys(problems))


def surplus(source: str, class_name: str, wanted: Collection[str]) -> list[str]:
    """Public methods that nobody planned, and planned ones that are no methods to call."""
    public = {method.name for method in outline(source, class_name).methods}
    return [
        *(f"{name} is public but no planned operation; begin its name with _" for name in sorted(public - set(wanted))),
        *(f"{name} is a property, not a method" for name in sorted(set(wanted) - public) if f"def {name}" in source),
    ]


def twice(body: list[ast.stmt], where: str) -> list[str]:
    """Functions and classes that are defined twice: the later would replace the earlier."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    seen = [name for node in body if isinstance(node, kinds) for name in names(node)]
    return [f"{where} defines {name} twice; keep one" for name in dict.fromkeys(seen) if seen.count(name) > 1]


def undefined(top: symtable.SymbolTable, tree: ast.Module) -> list[str]:
    """Names that are read and that neither the program nor Python defines."""
    defined = set(_KNOWN)
    used: set[str] = set()
    for scope in _every(top):
        for symbol in scope.get_symbols():
            name = symbol.get_name()
            binds = symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
            if binds and (scope is top or symbol.is_declared_global()):
                defined.add(name)
            if symbol.is_referenced() and (scope is top or symbol.is_global()):
                used.add(name)
    return [_undefined(name, tree) for name in sorted(used - defined)]


def _undefined(name: str, tree: ast.Module) -> str:
    places = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _reads(node, name)]
    where = places[-1].name if places else "the module"
    why = "which does not work in the sandbox" if name in _UNUSABLE else "which nothing defines"
    return f"{where} uses {name}, {why}"


def _reads(node: ast.AST, name: str) -> bool:
    return any(isinstance(item, ast.Name) and item.id == name for item in ast.walk(node))


def _every(scope: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield scope
    for child in scope.get_children():
        yield from _every(child)


def construct_problems(sandbox: Sandbox, program: Program) -> list[str]:
    """What constructing the program shows: from nothing, then from the state of the keys that this gave."""
    try:
        empty = _constructed(sandbox, program, {})
        if large := _large(empty):
            return large
        odd = [name for name, value in empty.items() if not plain(value)]
        if odd:
            return [f"self.{name} is not plain JSON (objects with text as keys, lists, text, numbers)" for name in odd]
        if not empty:
            return ["__init__ sets no attribute, so there is no state"]
        again = _constructed(sandbox, program, decode_state(empty))
    except ProgramEnded as error:
        return [f"the program does not come up ({error.reason}): {error.detail or 'its process ended'}"]
    except (ProgramError, StateError) as error:
        return [f"the program cannot be constructed: {error}"]
    changed = [name for name in empty | again if empty.get(name) != again.get(name)]
    return [f"self.{name} is not what the initial state says for {name!r}" for name in changed]


def _large(empty: State) -> list[str]:
    """The largest attributes, where a state of nothing is too large to work with."""
    sizes = {name: len(canonical_json(value)) for name, value in empty.items()}
    if sum(sizes.values()) <= EMPTY_BYTES:
        return []
    worst = sorted(sizes, key=lambda name: (-sizes[name], name))[:3]
    return [
        f"self.{name} takes {sizes[name]:,} bytes before any initial state is given; all attributes together may take "
        f"{EMPTY_BYTES:,}: begin with empty collections"
        for name in worst
    ]


def _constructed(sandbox: Sandbox, program: Program, state: State) -> State:
    """The state after construction."""
    with sandbox.reset(program, encode_state(state)) as episode:
        return episode.state()


def plain(encoded: object) -> bool:
    """Whether an encoded value is what JSON alone can hold."""
    value = decode_state(encoded)
    try:
        return bool(encode_state(json.loads(json.dumps(value, allow_nan=False))) == encoded)
    except (TypeError, ValueError, RecursionError, StateError):
        return False
