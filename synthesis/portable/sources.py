"""Sources that a package includes: the modules of Envarium that an attempt needs, below the package's own name.

Below its own name, so that packages of different dates can be installed together, and with Envarium, in one Python.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from synthesis.syntax import parse_module

HOUSE = "synthesis"
BELOW = "envarium"
"""The name of this house within a package."""
ENTRY = "synthesis.portable.taskset"
ROOT = Path(__file__).resolve().parents[1]
CHILD = ROOT / "runtime" / "child"
"""Started by its path, and its modules know each other by bare names: it goes along whole."""
_IMPORT = re.compile(rf"^(\s*(?:from|import)\s+){HOUSE}(?=[.\s])", re.MULTILINE)


def list_carried_files(package: str) -> Iterator[tuple[str, bytes]]:
    """Yield (path within the package, content) of all included files, in the order of the paths."""
    for path in list_needed_files():
        content = path.read_bytes()
        if path.suffix == ".py":
            content = _IMPORT.sub(rf"\g<1>{package}.{BELOW}", content.decode()).encode()
        yield f"{BELOW}/{path.relative_to(ROOT).as_posix()}", content


@functools.cache
def hash_sources() -> str:
    """Return the SHA-256, in hex, of all included files."""
    digest = hashlib.sha256()
    for path, content in list_carried_files(HOUSE):
        digest.update(f"{path}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


@functools.cache
def list_needed_files() -> tuple[Path, ...]:
    """Return the files that the taskset imports, transitively, with the prompts that these request."""
    modules: dict[str, Path] = {}
    stages: set[str] = set()
    waiting_modules = [ENTRY]
    while waiting_modules:
        name = waiting_modules.pop()
        if name in modules or (path := _find_module_file(name)) is None:
            continue
        modules[name] = path
        waiting_modules.append(name.rpartition(".")[0])
        for node in ast.walk(parse_module(path.read_text(encoding="utf-8"))):
            waiting_modules += _find_imported_names(node)
            stages |= _find_requested_stages(node)
    prompts = [path for stage in stages for path in (ROOT / "prompts" / stage).glob("*.md")]
    return tuple(sorted({*modules.values(), *CHILD.rglob("*.py"), *prompts}))


def _find_module_file(name: str) -> Path | None:
    path = ROOT.parent.joinpath(*name.split("."))
    return next((found for found in (path / "__init__.py", path.with_suffix(".py")) if found.is_file()), None)


def _find_imported_names(node: ast.AST) -> Iterator[str]:
    """Yield modules of this project, or names in them that may be modules."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.split(".")[0] == HOUSE)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == HOUSE:
        yield str(node.module)
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _find_requested_stages(node: ast.AST) -> set[str]:
    """Return the stage whose prompt a call requests."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "get_prompt" and node.args:
        stage = node.args[0]
        return {stage.value} if isinstance(stage, ast.Constant) and isinstance(stage.value, str) else set()
    return set()
