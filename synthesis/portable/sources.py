"""The sources that a package brings along: what an attempt needs of Envarium, below the package's own name.

Below its own name, so that packages of different days stand beside each other, and beside Envarium, in one Python.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from synthesis.syntax import parse

HOUSE = "synthesis"
BELOW = "envarium"
"""The name of this house within a package."""
ENTRY = "synthesis.portable.taskset"
ROOT = Path(__file__).resolve().parents[1]
CHILD = ROOT / "runtime" / "child"
"""Started by its path, and its modules know each other by bare names: it goes along whole."""
_IMPORT = re.compile(rf"^(\s*(?:from|import)\s+){HOUSE}(?=[.\s])", re.MULTILINE)


def carried(package: str) -> Iterator[tuple[str, bytes]]:
    """(path within the package, content) of all that goes along, in the order of the paths."""
    for path in needed():
        content = path.read_bytes()
        if path.suffix == ".py":
            content = _IMPORT.sub(rf"\g<1>{package}.{BELOW}", content.decode()).encode()
        yield f"{BELOW}/{path.relative_to(ROOT).as_posix()}", content


@functools.cache
def sources_hash() -> str:
    """SHA-256, in hex, of all that goes along."""
    digest = hashlib.sha256()
    for path, content in carried(HOUSE):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@functools.cache
def needed() -> tuple[Path, ...]:
    """The files that the taskset imports, and so on, with the prompts that these ask for."""
    modules: dict[str, Path] = {}
    stages: set[str] = set()
    waiting = [ENTRY]
    while waiting:
        name = waiting.pop()
        if name in modules or (path := _file_of(name)) is None:
            continue
        modules[name] = path
        waiting.append(name.rpartition(".")[0])
        for node in ast.walk(parse(path.read_text(encoding="utf-8"))):
            waiting += _imported(node)
            stages |= _asked(node)
    prompts = [path for stage in stages for path in (ROOT / "prompts" / stage).glob("*.md")]
    return tuple(sorted({*modules.values(), *CHILD.rglob("*.py"), *prompts}))


def _file_of(name: str) -> Path | None:
    path = ROOT.parent.joinpath(*name.split("."))
    return next((found for found in (path / "__init__.py", path.with_suffix(".py")) if found.is_file()), None)


def _imported(node: ast.AST) -> Iterator[str]:
    """Modules of this house, or names in them, that may be modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == HOUSE)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == HOUSE:
        yield str(node.module)
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _asked(node: ast.AST) -> set[str]:
    """The stage whose prompt a call asks for."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "prompt" and node.args:
        stage = node.args[0]
        return {stage.value} if isinstance(stage, ast.Constant) and isinstance(stage.value, str) else set()
    return set()
