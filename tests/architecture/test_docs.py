"""The documents name what is there: paths, modules, links; and the map stays short enough to be read."""

from __future__ import annotations

import ast
import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from tests.architecture.source_files import ROOT, sources, tree_of

DOCUMENTS = [ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md")]
DOCUMENTS += sorted((ROOT / "docs").rglob("*.md"))
MOST_LINES = 160
ROOMS = ("webapp", "synthesis", "training", "templates", "static", "docker", "docs", "tests", ".ci")
MADE_LATER = {"docker/.env"}
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
PATH = re.compile(r"(?<![\w./{}-])(?:[\w.{},-]+/)+(?:[\w.{},-]*[\w}])?")
MODULE = re.compile(r"(?<![\w./<>*-])\w+\.py\b")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


def spelled_out(path: str) -> list[str]:
    """`a/{b,c}.py` as both of its paths."""
    parts = [part[1:-1].split(",") if part.startswith("{") else [part] for part in re.split(r"(\{[^}]*\})", path)]
    return ["".join(chosen) for chosen in product(*parts)]


def paths(text: str) -> set[str]:
    """The paths in a document's code that lead into the project, or to a module of Python's somewhere."""
    found = {path for code in CODE.findall(text) for match in PATH.findall(code) for path in spelled_out(match)}
    return {path for path in found if path.split("/")[0] in ROOMS or path.endswith(".py")} - MADE_LATER


@cache
def module_names() -> frozenset[str]:
    folders = (ROOT / name for name in ("webapp", "synthesis", "training", "tests"))
    return frozenset({path.name for folder in folders for path in folder.rglob("*.py")} | {"manage.py"})


def named(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_paths_and_modules_that_are_named_exist(document: Path) -> None:
    text = document.read_text()
    missing = sorted(path for path in paths(text) if not (ROOT / path).exists())
    modules = {name for code in CODE.findall(text) for name in MODULE.findall(code)}
    assert not missing + sorted(modules - module_names())


@pytest.mark.parametrize("document", DOCUMENTS, ids=named)
def test_links_lead_somewhere(document: Path) -> None:
    assert not [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]


def test_packages_speak_of_modules_that_are_there() -> None:
    """A package names its own modules, by their place in it or in the project, and those of others by the latter."""
    missing = []
    for package in (path for path in sources("webapp", "synthesis", "training") if path.name == "__init__.py"):
        for code in CODE.findall(ast.get_docstring(tree_of(package)) or ""):
            names = {path for match in PATH.findall(code) for path in spelled_out(match)} | set(MODULE.findall(code))
            files = {name for name in names if name.endswith(".py") or name.split("/")[0] in ROOMS}
            places = [(package.parent / name, ROOT / name) for name in sorted(files)]
            missing += [str(own) for own, other in places if not own.exists() and not other.exists()]
    assert not missing


def test_paths_are_found_in_code() -> None:
    text = "See `webapp/common/{htmx,gone}.py` and `synthesis/formats/<name>.py`, not `/api/v1/jobs` or webapp/x.py:\n"
    text += "```\n a --> training/rl.py, .venv/bin/python docker/.env\n```\n"
    assert paths(text) == {"webapp/common/htmx.py", "webapp/common/gone.py", "synthesis/formats/", "training/rl.py"}


def test_the_map_of_the_house_is_short() -> None:
    assert (ROOT / "ARCHITECTURE.md").read_text().count("\n") <= MOST_LINES
