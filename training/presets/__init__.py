"""Presets: a job's values, each *published* (paper), *released* (code) or *ours* (reason). No torch.

A preset is a TOML file in this folder. A leaf is `{ value = ..., published = "ES B.2" }`, `{ value = ..., released =
"search, fixed" }` for values in the authors' code that their paper does not mention, or `{ value = ..., ours = "reason"
}`. A value that a file does not name comes from the preset that it `extends`, or is Envarium's default, marked ours.
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Iterator, Mapping
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel

from synthesis.contracts import Frozen
from synthesis.errors import InputError
from training.config import JobConfig, read_config

DEFAULT_REASON = "Envarium's default; the paper gives no value"
ORIGINS = ("published", "released", "ours")
UNIONS = ("kind", "type")
"""A change of one of these replaces the fields next to it: they belong to another variant."""


class Mark(Frozen):
    """Origin of a value: `published` names the place in a paper, `released` that in its code, `ours` the reason,
    `changed` the preset's value.
    """

    kind: Literal["published", "released", "ours", "changed"]
    note: str


class Preset(Frozen):
    """A preset. `marks` maps the path of every leaf (`optimiser.learning_rate`) to the origin of its value."""

    name: str
    title: str
    paper: str
    about: str
    config: JobConfig
    marks: dict[str, Mark]


class ChangedPreset(Frozen):
    """A preset with changed fields; their marks name the preset's values."""

    preset: str
    config: JobConfig
    marks: dict[str, Mark]


class Difference(Frozen):
    """One field that differs. A field that only one side has (another variant) is None on the other."""

    path: str
    preset: Any
    chosen: Any
    mark: Mark


def list_presets() -> tuple[str, ...]:
    """Return the names of all presets, in order."""
    entries = (entry.name for entry in resources.files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in entries if name.endswith(".toml")))


def load_preset(name: str) -> Preset:
    """Return the preset of this name. Raises InputError: it does not exist, or its file is invalid."""
    if name not in list_presets():
        raise InputError(f"preset: there is no preset {name[:100]!r}; take one of {', '.join(list_presets())}")
    return parse_preset(name, resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def parse_preset(name: str, text: str) -> Preset:
    """Return a preset parsed from TOML. Raises InputError: no TOML, a leaf without a mark, a value that does not
    fit.
    """
    content = _read_tables(name, text)
    head = {key: content.pop(key, "") for key in ("title", "paper", "about")}
    values, marks = _split_marks(name, content, "")
    config = read_config(values)
    all_marks = {path: marks.get(path, Mark(kind="ours", note=DEFAULT_REASON)) for path, _ in iterate_leaves(config)}
    return Preset(name=name, config=config, marks=all_marks, **head)


def _read_tables(name: str, text: str) -> dict[str, Any]:
    """Return a preset's tables, merged over those of the preset that it extends. Raises InputError."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"preset {name}: {error}") from error
    base = content.pop("extends", "")
    if not base:
        return content
    if base not in list_presets():
        raise InputError(f"preset {name}: extends {str(base)[:100]!r}, which is no preset")
    below = resources.files(__package__).joinpath(f"{base}.toml").read_text(encoding="utf-8")
    return _overlay_tables(_read_tables(base, below), content)


def _overlay_tables(base: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """Return tables with the leaves of `upper` in place of those of `base`; another `kind` replaces its whole table."""
    if any(key in upper and key in base and upper[key]["value"] != base[key]["value"] for key in UNIONS):
        return upper
    merged = dict(base)
    for key, entry in upper.items():
        below = base.get(key)
        tables = isinstance(entry, dict) and isinstance(below, dict) and "value" not in entry and "value" not in below
        merged[key] = _overlay_tables(below, entry) if tables and isinstance(below, dict) else entry
    return merged


def _split_marks(name: str, table: Mapping[str, Any], above: str) -> tuple[dict[str, Any], dict[str, Mark]]:
    values: dict[str, Any] = {}
    marks: dict[str, Mark] = {}
    for key, entry in table.items():
        path = f"{above}{key}"
        if not isinstance(entry, dict):
            raise InputError(f"preset {name}: {path} needs a value and its origin ({', '.join(ORIGINS)})")
        if "value" not in entry:
            values[key], below = _split_marks(name, entry, f"{path}.")
            marks |= below
            continue
        sources = [(kind, entry[kind]) for kind in ORIGINS if entry.get(kind)]
        if len(sources) != 1 or set(entry) - {"value", *ORIGINS}:
            raise InputError(f"preset {name}: {path} must be marked by one of {', '.join(ORIGINS)}, and nothing else")
        values[key] = entry["value"]
        marks[path] = Mark(kind=sources[0][0], note=sources[0][1])
    return values, marks


def iterate_leaves(config: BaseModel, above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, JSON value) of every field that has no nested settings."""
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            yield from iterate_leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", config.model_dump(mode="json", include={name})[name]


def change_preset(preset: Preset, changes: Mapping[str, Any]) -> ChangedPreset:
    """Return the preset with changed fields, nested as in the configuration (`{"optimiser": {"learning_rate": 1e-5}}`).

    A changed `kind` replaces its whole part. Raises InputError that names each field that does not fit.
    """
    if changes.get("type", preset.config.type) != preset.config.type:
        raise InputError(f"type: preset {preset.name} is {preset.config.type}; take a preset of the other type")
    config = read_config(_merge_changes(preset.config.model_dump(mode="json"), changes))
    before = dict(iterate_leaves(preset.config))
    marks = {
        path: preset.marks[path] if path in before and before[path] == value else _mark_changed(path, before)
        for path, value in iterate_leaves(config)
    }
    return ChangedPreset(preset=preset.name, config=config, marks=marks)


def _mark_changed(path: str, before: Mapping[str, Any]) -> Mark:
    return Mark(kind="changed", note=f"the preset has {before[path]!r}" if path in before else "the preset has none")


def _merge_changes(base: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    if any(key in changes and key in base and changes[key] != base[key] for key in UNIONS):
        return copy.deepcopy(dict(changes))
    merged = copy.deepcopy(base)
    for key, value in changes.items():
        below = merged.get(key)
        deeper = isinstance(value, Mapping) and isinstance(below, dict) and key not in _OPEN
        merged[key] = _merge_changes(below, value) if deeper and isinstance(below, dict) else copy.deepcopy(value)
    return merged


_OPEN = {"environments", "settings", "verifiers"}
"""Tables whose keys are names, not fields: a changed one replaces the preset's."""


def list_differences(preset: Preset, config: JobConfig) -> tuple[Difference, ...]:
    """Return the fields in which a configuration departs from a preset, with the preset's marks, in order of the
    fields.
    """
    before, after = dict(iterate_leaves(preset.config)), dict(iterate_leaves(config))
    missing_mark = Mark(kind="ours", note="the preset has no such field")
    return tuple(
        Difference(
            path=path, preset=before.get(path), chosen=after.get(path), mark=preset.marks.get(path, missing_mark)
        )
        for path in dict.fromkeys([*before, *after])
        if path not in before or path not in after or before[path] != after[path]
    )
