"""Findings that need no sandbox, from the source and the documents of an environment."""

from __future__ import annotations

import ast
from typing import Any

from synthesis.assessment.kinds import make_finding
from synthesis.assessment.truncated_names import find_cut_identifiers
from synthesis.contracts import Finding
from synthesis.formats.records import EnvironmentRecord

CLOCKS = frozenset(
    {
        *(f"time.{name}" for name in ("time", "time_ns", "monotonic", "perf_counter", "localtime", "gmtime")),
        *(f"time.{name}" for name in ("strftime", "ctime")),
        *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
        "datetime.date.today",
    }
)
SOURCES = {"uuid": "uses_uuid", "random": "uses_random", "secrets": "uses_random"}


def list_static_findings(record: EnvironmentRecord, tree: ast.Module, methods: list[str]) -> list[Finding]:
    """Return all static findings. `methods` are the public methods of the program's class."""
    return [
        *find_cut_identifiers(record.state_schema, tree, _join_prose(record), record.source),
        *list_tool_findings(record, methods),
        *find_nondeterminism(tree, record.class_name),
    ]


def _join_prose(record: EnvironmentRecord) -> str:
    described = [item.get("description") for item in record.state_schema]
    texts = [record.summary, record.introduction, *record.rules]
    return "\n".join([*texts, *(text for text in described if isinstance(text, str))])


def list_tool_findings(record: EnvironmentRecord, methods: list[str]) -> list[Finding]:
    """Return findings on public methods that are not tools, and on an environment without tools.

    Tools without a method are reported by the runtime.
    """
    tools = [tool.name for tool in record.tools]
    findings = [
        make_finding("method_without_tool", f"program.{name}", f"The public method {name!r} is not offered as a tool.")
        for name in methods
        if name not in tools
    ]
    if not tools:
        findings.append(
            make_finding("no_tools", "tools", "The environment has no tools; an agent can do nothing in it.")
        )
    return findings


def find_nondeterminism(tree: ast.Module, class_name: str) -> list[Finding]:
    """Return the uses of a clock, a random number or a random id by the program; one finding per source of chance."""
    aliases = _map_imports(tree)
    used: dict[str, list[str]] = {}
    for owner, node in _list_owned_nodes(tree, class_name):
        kind = _get_chance_kind(node, aliases)
        if kind and owner not in used.setdefault(kind, []):
            used[kind].append(owner)
    words = {"uses_clock": "the clock", "uses_uuid": "random ids", "uses_random": "random numbers"}
    return [
        make_finding(kind, "program", f"Uses {words[kind]} in {', '.join(used[kind][:8])}.", methods=used[kind])
        for kind in words
        if kind in used
    ]


def _map_imports(tree: ast.Module) -> dict[str, str]:
    imports: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {name.asname or name.name.split(".")[0]: name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            imports |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
    return imports


def _list_owned_nodes(tree: ast.Module, class_name: str) -> list[tuple[str, ast.AST]]:
    """Return every node with the method or top-level name that contains it."""
    nodes: list[tuple[str, ast.AST]] = []
    for top in tree.body:
        inner = top.body if isinstance(top, ast.ClassDef) and top.name == class_name else [top]
        for item in inner:
            owner = getattr(item, "name", "the module")
            nodes += [(owner, node) for node in ast.walk(item)]
    return nodes


def _get_chance_kind(node: ast.AST, aliases: dict[str, str]) -> str:
    """Return the kind of chance of a reference: calls, and functions passed on (default_factory=uuid4)."""
    if not isinstance(node, ast.Attribute | ast.Name) or not isinstance(node.ctx, ast.Load):
        return ""
    path = _format_dotted_name(node)
    root, _, rest = path.partition(".")
    if root not in aliases:
        return ""
    full = f"{aliases[root]}.{rest}" if rest else aliases[root]
    if full in CLOCKS:
        return "uses_clock"
    module, _, name = full.partition(".")
    if module in SOURCES and name and not (module == "uuid" and name[:5] != "uuid1" and name[:5] != "uuid4"):
        return SOURCES[module]
    return "uses_random" if full == "os.urandom" else ""


def _format_dotted_name(node: ast.expr) -> str:
    parts: list[str] = []
    current: Any = node
    while isinstance(current, ast.Attribute):
        parts.append(current.attr)
        current = current.value
    if not isinstance(current, ast.Name):
        return ""
    return ".".join([current.id, *reversed(parts)])
