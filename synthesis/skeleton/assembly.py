"""Program assembly (EnvScaler 3.2, Eq. 4): fragments become one readable program.

`ast` says where things stand; what is written is the author's own text, so that comments, docstrings and layout stay.
Imports are hoisted, each once; one that would give a name a second meaning stays inside its function. Helpers that
methods bring along are kept, each once. Two different definitions of one name both stay: the static check names them.
"""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass, field

from synthesis import syntax
from synthesis.drafts import CodeDraft
from synthesis.runtime.imports import Bound, Imports, bound, first_line, with_imports
from synthesis.skeleton.fragments import normal


@dataclass
class _Pieces:
    """What methods add to the first fragment: texts outside of the class and in it, and what is defined so far."""

    indent: str
    imports: Imports = field(default_factory=Imports)
    outside: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    known_outside: dict[str, str] = field(default_factory=dict)
    known_inside: dict[str, str] = field(default_factory=dict)


def merge(code: CodeDraft) -> str:
    """The program of these fragments, which `fragments` has read before; else one of `syntax.UNREADABLE`."""
    source = normal(code.attributes)
    tree, lines = syntax.parse(source), source.split("\n")
    home = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == code.class_name)
    pieces = _Pieces(indent=lines[home.body[0].lineno - 1][: home.body[0].col_offset])
    for node in tree.body:
        pieces.known_outside |= dict.fromkeys(names(node), ast.dump(node))
    for node in home.body:
        pieces.known_inside |= dict.fromkeys(names(node), ast.dump(node))
    pieces.imports.taken |= dict.fromkeys(pieces.known_outside, "the program itself")
    gone = {line for node in tree.body if _moves(node, tree, pieces.imports) for line in _lines_of(node)}
    for fragment in code.methods:
        _add(pieces, fragment)
    return _written(lines, tree, home, gone, pieces)


def names(node: ast.stmt) -> list[str]:
    """The names that a definition or an assignment binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def _moves(node: ast.stmt, tree: ast.Module, imports: Imports) -> bool:
    """Whether an import goes to the top: it has its lines for itself, and none of its names means something else."""
    bindings = bound(node)
    shared = any(other is not node and _lines_of(other) & _lines_of(node) for other in tree.body)
    if not bindings or shared:
        return False
    moved = [imports.hoist(binding) for binding in bindings]
    return all(moved)


def _lines_of(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _add(pieces: _Pieces, fragment: str) -> None:
    source = normal(fragment)
    tree, lines = syntax.parse(source), source.split("\n")
    local = [binding for node in tree.body for binding in bound(node) if not pieces.imports.hoist(binding)]
    floor = 0
    for node in tree.body:
        start = first_line(node, lines, floor)
        if names(node) and start > floor:
            text = "\n".join(lines[start - 1 : node.end_lineno])
            _place(pieces, node, text, local)
        floor = max(floor, node.end_lineno or 0)


def _place(pieces: _Pieces, node: ast.stmt, text: str, local: list[Bound]) -> None:
    member = isinstance(node, ast.FunctionDef) and bool(node.args.args) and node.args.args[0].arg == "self"
    known = pieces.known_inside if member else pieces.known_outside
    written = dict.fromkeys(names(node), ast.dump(node))
    if written.items() <= known.items():
        return
    known |= written
    if isinstance(node, ast.FunctionDef):
        used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        text = with_imports(text, [binding.line for binding in local if binding.name in used])
    if member:
        pieces.inside.append(indented(text, pieces.indent))
    else:
        pieces.outside.append(text)


def indented(text: str, margin: str) -> str:
    """The text further in. Lines inside of a string of more than one line stay, unless it is a docstring."""
    fixed = _string_rows(text)
    rows = text.split("\n")
    return "\n".join(margin + row if row.strip() and number not in fixed else row for number, row in enumerate(rows, 1))


def _string_rows(text: str) -> set[int]:
    """The rows that begin inside of a string which is no docstring."""
    tree = syntax.parse(text)
    documented = {
        node.body[0].lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and ast.get_docstring(node, False)
    }
    rows: set[int] = set()
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind == "FSTRING_START":
            opened.append(token.start[0])
        first = opened.pop() if kind == "FSTRING_END" else token.start[0] if kind == "STRING" else token.end[0]
        if first not in documented:
            rows.update(range(first + 1, token.end[0] + 1))
    return rows


def _written(lines: list[str], tree: ast.Module, home: ast.ClassDef, gone: set[int], pieces: _Pieces) -> str:
    opening = tree.body[0]
    docstring_end = (opening.end_lineno or 0) if ast.get_docstring(tree) else 0
    start, end = first_line(home, lines, docstring_end) - 1, home.end_lineno or 0
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith((" ", "\t"))):
        end += 1  # comments that still belong to the class

    def kept(first: int, last: int) -> str:
        rows = (row for number, row in enumerate(lines[first:last], first + 1) if number not in gone)
        return "\n".join(rows).strip("\n")

    environment = "\n\n".join([kept(start, end).rstrip(), *pieces.inside])
    top = "\n\n".join(part for part in (kept(0, docstring_end), pieces.imports.text()) if part)
    parts = [top, kept(docstring_end, start).rstrip(), *pieces.outside, environment, kept(end, len(lines)).rstrip()]
    return "\n\n\n".join(part for part in parts if part.strip()) + "\n"
