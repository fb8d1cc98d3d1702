"""The project's sources as these tests read them: each file parsed once a session, and forgotten afterwards."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def sources(*folders: str) -> list[Path]:
    return [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py")) if "__pycache__" not in p.parts]


@cache
def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@contextmanager
def without_collector() -> Iterator[None]:
    """The collector would look at millions of nodes again and again, half of the time that parsing takes."""
    gc.disable()
    yield
    gc.enable()


@cache
def tree_of(path: Path) -> ast.Module:
    with without_collector():
        return ast.parse(text_of(path))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Every node of the file's tree."""
    tree = tree_of(path)
    with without_collector():
        return tuple(ast.walk(tree))


def forget() -> None:
    for kept in (nodes_of, tree_of, text_of):
        kept.cache_clear()
