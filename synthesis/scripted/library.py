"""Folder of a theme as replies of an author.

| file | holds |
|---|---|
| `theme.json` | name, category, description; the task it was inferred from and the author's judgement of it |
| `plan.json` | introduction, records, rules, time, operations; an `added` one is the reply on missing ones |
| `program.py` | the whole program; cut at its public methods |
| `states.json` | `scenario-N`: name and initial state |
| `tasks.json` | `scenario-N/task-M`: title, instruction, answer form and expected answer |
| `checks.py` | a class per task, a function per check; its docstring is the item of the checklist |
| `programs/` | `queries.json`; `scenario-N-task-M`: solution and verification script, of the variant `programmatic` |
| `planted.json`, `planted/` | faults, and the replies that carry them |
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from synthesis.contracts import Frozen
from synthesis.drafts import ThemeDraft
from synthesis.scripted.errands import ERRANDS
from synthesis.scripted.errors import MissingReply
from synthesis.scripted.fragments import Fragments, WrittenCheck, read_task_checks, split_program
from synthesis.scripted.planted import THEMES
from synthesis.scripted.requests import REQUESTS
from synthesis.stages import Variant

T = TypeVar("T")


class WrittenProgram(Frozen):
    """Programmatic task: the query's reply (title, instruction, answer form), solution and verification script."""

    query: dict[str, Any]
    solution: str
    verification: str


class ThemeFiles(Frozen):
    """Parsed files of one theme."""

    key: str
    theme: dict[str, Any]
    plan: dict[str, Any]
    states: dict[str, dict[str, Any]]
    tasks: dict[str, dict[str, Any]]
    fragments: Fragments
    checks: dict[str, list[WrittenCheck]]
    programs: dict[str, WrittenProgram]

    def select_written(self, by_theme: Mapping[str, T]) -> T:
        """Return the entry of this theme. Raise MissingReply if there is none."""
        if self.key not in by_theme:
            listed = ", ".join(sorted(by_theme))
            raise MissingReply(f"nothing is written for the theme {self.key!r}; the themes are {listed}")
        return by_theme[self.key]


@functools.cache
def list_theme_keys() -> tuple[str, ...]:
    """Return the keys of all themes."""
    return tuple(sorted(file.parent.name for file in THEMES.glob("*/theme.json")))


@functools.cache
def load_theme(key: str) -> ThemeFiles:
    """Return the files of a theme. Raise MissingReply if it does not exist."""
    if key not in list_theme_keys():
        raise MissingReply(
            f"nothing is written for the theme {key[:80]!r}; the themes are {', '.join(list_theme_keys())}"
        )
    folder = THEMES / key

    def read_data(name: str) -> Any:
        return json.loads((folder / name).read_text(encoding="utf-8"))

    return ThemeFiles(
        key=key,
        theme=read_data("theme.json"),
        plan=read_data("plan.json"),
        states=read_data("states.json"),
        tasks=read_data("tasks.json"),
        fragments=split_program((folder / "program.py").read_text(encoding="utf-8")),
        checks=read_task_checks((folder / "checks.py").read_text(encoding="utf-8")),
        programs=_read_programs(folder / "programs"),
    )


def _read_programs(folder: Path) -> dict[str, WrittenProgram]:
    """Return the programs by item below the theme; empty for a theme without any."""
    if not folder.is_dir():
        return {}
    queries = json.loads((folder / "queries.json").read_text(encoding="utf-8"))

    def read_source(item: str, kind: str) -> str:
        return (folder / f"{item.replace('/', '-')}.{kind}.py").read_text(encoding="utf-8")

    return {
        item: WrittenProgram(
            query=query, solution=read_source(item, "solution"), verification=read_source(item, "verification")
        )
        for item, query in queries.items()
    }


def list_bundled_themes(variant: Variant = "envscaler") -> list[ThemeDraft]:
    """Return the bundled themes that have replies for a variant, as a batch starts from them."""
    return [_build_theme_draft(load_theme(key)) for key in list_theme_keys() if _has_replies(key, variant)]


def _has_replies(key: str, variant: Variant) -> bool:
    if variant == "autoforge":
        return key in REQUESTS
    if variant == "walk":
        return key in ERRANDS
    return variant != "programmatic" or bool(load_theme(key).programs)


def _build_theme_draft(files: ThemeFiles) -> ThemeDraft:
    about = files.theme
    return ThemeDraft(
        key=files.key,
        name=about["name"],
        description=about["description"],
        category=about["category"],
        origin="scripted",
        origin_text=about["origin_text"],
    )
