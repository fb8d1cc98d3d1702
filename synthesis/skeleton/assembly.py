"""Program assembly (EnvScaler 3.2, Eq. 4): fragments become one readable program.

`ast` gives the places; the output is the author's own text, so that comments, docstrings and layout stay. Imports are
hoisted, each once; one that would give a name a second meaning stays inside its function. Helpers that come with
methods are kept, each once. Two different definitions of one name both stay: the static check reports them.
"""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass, field

from synthesis import syntax
from synthesis.drafts import CodeDraft
from synthesis.runtime.imports import Bound, Imports, find_first_line, insert_imports, list_bindings
from synthesis.skeleton.fragments import normalize_fragment


@dataclass
class _Pieces:
    """Additions of methods to the first fragment: texts outside of the class and in it, and the definitions so far."""

    indent: str
    imports: Imports = field(default_factory=Imports)
    outside: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    known_outside: dict[str, str] = field(default_factory=dict)
    known_inside: dict[str, str] = field(default_factory=dict)


def merge_fragments(code: CodeDraft) -> str:
    """Return the program of these fragments, which `fragments` has read before; else raise one of
    `syntax.UNREADABLE`."""
    source = normalize_fragment(code.attributes)
    tree, lines = syntax.parse_module(source), source.split("\n")
    home = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == code.class_name)
    pieces = _Pieces(indent=lines[home.body[0].lineno - 1][: home.body[0].col_offset])
    for node in tree.body:
        pieces.known_outside |= dict.fromkeys(list_bound_names(node), ast.dump(node))
    for node in home.body:
        pieces.known_inside |= dict.fromkeys(list_bound_names(node), ast.dump(node))
    pieces.imports.taken |= dict.fromkeys(pieces.known_outside, "the program itself")
    hoisted_lines = {line for node in tree.body if _can_hoist(node, tree, pieces.imports) for line in _get_lines(node)}
    for fragment in code.methods:
        _add_fragment(pieces, fragment)
    return _write_program(lines, tree, home, hoisted_lines, pieces)


def list_bound_names(node: ast.stmt) -> list[str]:
    """Return the names that a definition or an assignment binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]


def _can_hoist(node: ast.stmt, tree: ast.Module, imports: Imports) -> bool:
    """Return whether an import goes to the top: it has its own lines, and none of its names has another meaning."""
    bindings = list_bindings(node)
    shared = any(other is not node and _get_lines(other) & _get_lines(node) for other in tree.body)
    if not bindings or shared:
        return False
    moved = [imports.hoist(binding) for binding in bindings]
    return all(moved)


def _get_lines(node: ast.stmt) -> set[int]:
    return set(range(node.lineno, (node.end_lineno or node.lineno) + 1))


def _add_fragment(pieces: _Pieces, fragment: str) -> None:
    source = normalize_fragment(fragment)
    tree, lines = syntax.parse_module(source), source.split("\n")
    local = [binding for node in tree.body for binding in list_bindings(node) if not pieces.imports.hoist(binding)]
    floor = 0
    for node in tree.body:
        start = find_first_line(node, lines, floor)
        if list_bound_names(node) and start > floor:
            text = "\n".join(lines[start - 1 : node.end_lineno])
            _add_definition(pieces, node, text, local)
        floor = max(floor, node.end_lineno or 0)


def _add_definition(pieces: _Pieces, node: ast.stmt, text: str, local: list[Bound]) -> None:
    member = isinstance(node, ast.FunctionDef) and bool(node.args.args) and node.args.args[0].arg == "self"
    known_definitions = pieces.known_inside if member else pieces.known_outside
    written = dict.fromkeys(list_bound_names(node), ast.dump(node))
    if written.items() <= known_definitions.items():
        return
    known_definitions |= written
    if isinstance(node, ast.FunctionDef):
        used = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
        text = insert_imports(text, [binding.line for binding in local if binding.name in used])
    if member:
        pieces.inside.append(indent_text(text, pieces.indent))
    else:
        pieces.outside.append(text)


def indent_text(text: str, margin: str) -> str:
    """Return the text indented. Lines inside a multi-line string stay, unless it is a docstring."""
    fixed = _find_string_rows(text)
    rows = text.split("\n")
    return "\n".join(margin + row if row.strip() and number not in fixed else row for number, row in enumerate(rows, 1))


def _find_string_rows(text: str) -> set[int]:
    """Return the rows that begin inside a string that is not a docstring."""
    tree = syntax.parse_module(text)
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


def _write_program(lines: list[str], tree: ast.Module, home: ast.ClassDef, gone: set[int], pieces: _Pieces) -> str:
    opening = tree.body[0]
    docstring_end = (opening.end_lineno or 0) if ast.get_docstring(tree) else 0
    start, end = find_first_line(home, lines, docstring_end) - 1, home.end_lineno or 0
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith((" ", "\t"))):
        end += 1  # comments that still belong to the class

    def join_kept_rows(first: int, last: int) -> str:
        rows = (row for number, row in enumerate(lines[first:last], first + 1) if number not in gone)
        return "\n".join(rows).strip("\n")

    environment = "\n\n".join([join_kept_rows(start, end).rstrip(), *pieces.inside])
    top = "\n\n".join(part for part in (join_kept_rows(0, docstring_end), pieces.imports.text()) if part)
    parts = [
        top,
        join_kept_rows(docstring_end, start).rstrip(),
        *pieces.outside,
        environment,
        join_kept_rows(end, len(lines)).rstrip(),
    ]
    return "\n\n\n".join(part for part in parts if part.strip()) + "\n"
