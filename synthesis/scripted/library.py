"""A theme's folder as replies of an author.

| file | holds |
|---|---|
| `theme.json` | name, category, description; the task it was inferred from and what the author thinks of that task |
| `plan.json` | introduction, records, rules, time, operations; one that is `added` comes when asked what is missing |
| `program.py` | the whole program; cut at its public methods |
| `states.json` | `scenario-N`: name and initial state |
| `tasks.json` | `scenario-N/task-M`: title, instruction, answer form and expected answer |
| `checks.py` | a class a task, a function a check; its docstring is the item of the checklist |
| `programs/` | `queries.json`; `scenario-N-task-M`: solution and verification script, of the variant `programmatic` |
| `planted.json`, `planted/` | faults, and the replies that carry them |
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from synthesis.contracts import Frozen
from synthesis.drafts import ThemeDraft
from synthesis.scripted.fragments import Fragments, WrittenCheck, program_fragments, task_checks
from synthesis.scripted.planted import THEMES
from synthesis.scripted.requests import REQUESTS
from synthesis.stages import Variant


class MissingReply(LookupError):
    """The theme's folder has no such reply. `str(error)` says what is missing."""


class WrittenProgram(Frozen):
    """A programmatic task: the query's reply (title, instruction, answer form), solution and verification script."""

    query: dict[str, Any]
    solution: str
    verification: str


class ThemeFiles(Frozen):
    """The files of one theme, read."""

    key: str
    theme: dict[str, Any]
    plan: dict[str, Any]
    states: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, Any]]
    fragments: Fragments
    checks: dict[str, list[WrittenCheck]]
    programs: dict[str, WrittenProgram]


@functools.cache
def keys() -> tuple[str, ...]:
    """The keys of all themes."""
    return tuple(sorted(file.parent.name for file in THEMES.glob("*/theme.json")))


@functools.cache
def shelf(key: str) -> ThemeFiles:
    """The files of a theme. Raises MissingReply."""
    if key not in keys():
        raise MissingReply(f"nothing is written for the theme {key[:80]!r}; the themes are {', '.join(keys())}")
    folder = THEMES / key

    def data(name: str) -> Any:
        return json.loads((folder / name).read_text(encoding="utf-8"))

    return ThemeFiles(
        key=key,
        theme=data("theme.json"),
        plan=data("plan.json"),
        states=data("states.json"),
        tasks=data("tasks.json"),
        fragments=program_fragments((folder / "program.py").read_text(encoding="utf-8")),
        checks=task_checks((folder / "checks.py").read_text(encoding="utf-8")),
        programs=_read_programs(folder / "programs"),
    )


def _read_programs(folder: Path) -> dict[str, WrittenProgram]:
    """By item below the theme; empty for a theme without any."""
    if not folder.is_dir():
        return {}
    queries = json.loads((folder / "queries.json").read_text(encoding="utf-8"))

    def source(item: str, kind: str) -> str:
        return (folder / f"{item.replace('/', '-')}.{kind}.py").read_text(encoding="utf-8")

    return {
        item: WrittenProgram(query=query, solution=source(item, "solution"), verification=source(item, "verification"))
        for item, query in queries.items()
    }


def themes(variant: Variant = "envscaler") -> list[ThemeDraft]:
    """The bundled themes for which the replies of a variant are written, as a batch starts from them."""
    return [_draft(shelf(key)) for key in keys() if _plays(key, variant)]


def _plays(key: str, variant: Variant) -> bool:
    if variant == "autoforge":
        return key in REQUESTS
    return variant != "programmatic" or bool(shelf(key).programs)


def _draft(files: ThemeFiles) -> ThemeDraft:
    about = files.theme
    return ThemeDraft(
        key=files.key,
        name=about["name"],
        description=about["description"],
        category=about["category"],
        origin="scripted",
        origin_text=about["origin_text"],
    )
