"""What is imported within a function is there too: its line may run in no test."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.architecture.source_files import ROOT, sources, tree_of
from tests.architecture.test_directions import imports

FOLDERS = ("webapp", "synthesis", "training", "tests")


def file_of(module: str) -> Path | None:
    place = ROOT.joinpath(*module.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py")
    return next((file for file in files if file.exists()), None)


def bound(statements: list[ast.stmt]) -> Iterator[str]:
    """Names that these statements bind in their module: also within `if`, `try` and `with`."""
    for statement in statements:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield statement.name
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
            case _:
                yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
                inner = (node for node in ast.iter_child_nodes(statement) if isinstance(node, ast.stmt))
                yield from bound(list(inner))


@cache
def names_of(file: Path) -> set[str]:
    return set(bound(tree_of(file).body))


def is_there(target: str) -> bool:
    """`a.b`, of `from a import b` or `import a.b`: a module, a folder of modules, or a name of the module `a`."""
    module, _, name = target.rpartition(".")
    if file_of(target) or ROOT.joinpath(*target.split(".")).is_dir():
        return True
    file = file_of(module)
    return file is not None and (name == "*" or bool({name, "__getattr__", "*"} & names_of(file)))


def test_what_is_imported_is_there() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path in sources(*FOLDERS)
        for line, target in imports(path)
        if target.partition(".")[0] in FOLDERS and not is_there(target)
    ]
    assert not wrong, "\n".join(wrong)


def test_what_is_not_there_is_seen() -> None:
    assert not is_there("webapp.taxonomy.starting.start_grouping")
    assert not is_there("webapp.jobs.models.Jobs")
    assert is_there("webapp.jobs.models.Job")
