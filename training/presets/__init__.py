"""Presets: a job's values, each *published* (where), *released* (in which code) or *ours* (why). No torch.

A preset is a TOML file beside this one. A leaf is `{ value = ..., published = "ES B.2" }`, `{ value = ..., released =
"search, fixed" }` for what the authors' code has and their paper does not say, or `{ value = ..., ours = "reason" }`.
What a file does not name is as in the preset that it `extends`, else Envarium's default, which is marked ours.
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
"""A change of one of these replaces what stands beside it: those fields belong to another variant."""


class Mark(Frozen):
    """Where a value comes from: `published` names the place in a paper, `released` that in its code, `ours` the
    reason, `changed` what the preset has."""

    kind: Literal["published", "released", "ours", "changed"]
    note: str


class Preset(Frozen):
    """`marks` maps the path of every leaf (`optimiser.learning_rate`) to where its value comes from."""

    name: str
    title: str
    paper: str
    about: str
    config: JobConfig
    marks: dict[str, Mark]


class ChangedPreset(Frozen):
    """A preset with changed fields; their marks say what the preset had."""

    preset: str
    config: JobConfig
    marks: dict[str, Mark]


class Difference(Frozen):
    """One field that differs. A field that only one side has (another variant) is None on the other."""

    path: str
    preset: Any
    chosen: Any
    mark: Mark


def names() -> tuple[str, ...]:
    """The names of all presets, in order."""
    entries = (entry.name for entry in resources.files(__package__).iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in entries if name.endswith(".toml")))


def load(name: str) -> Preset:
    """The preset of this name. Raises InputError: there is none, or its file is at fault."""
    if name not in names():
        raise InputError(f"preset: there is no preset {name[:100]!r}; take one of {', '.join(names())}")
    return read_preset(name, resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def read_preset(name: str, text: str) -> Preset:
    """A preset out of TOML. Raises InputError: no TOML, a leaf without a mark, a value that does not fit."""
    content = _read_tables(name, text)
    head = {key: content.pop(key, "") for key in ("title", "paper", "about")}
    values, marks = _split(name, content, "")
    config = read_config(values)
    every = {path: marks.get(path, Mark(kind="ours", note=DEFAULT_REASON)) for path, _ in leaves(config)}
    return Preset(name=name, config=config, marks=every, **head)


def _read_tables(name: str, text: str) -> dict[str, Any]:
    """A preset's tables, upon those of the preset that it extends. Raises InputError."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"preset {name}: {error}") from error
    base = content.pop("extends", "")
    if not base:
        return content
    if base not in names():
        raise InputError(f"preset {name}: extends {str(base)[:100]!r}, which is no preset")
    below = resources.files(__package__).joinpath(f"{base}.toml").read_text(encoding="utf-8")
    return _laid_upon(_read_tables(base, below), content)


def _laid_upon(base: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """Tables with the leaves of `upper` in place of those of `base`; another `kind` replaces its whole table."""
    if any(key in upper and key in base and upper[key]["value"] != base[key]["value"] for key in UNIONS):
        return upper
    merged = dict(base)
    for key, entry in upper.items():
        below = base.get(key)
        tables = isinstance(entry, dict) and isinstance(below, dict) and "value" not in entry and "value" not in below
        merged[key] = _laid_upon(below, entry) if tables and isinstance(below, dict) else entry
    return merged


def _split(name: str, table: Mapping[str, Any], above: str) -> tuple[dict[str, Any], dict[str, Mark]]:
    values: dict[str, Any] = {}
    marks: dict[str, Mark] = {}
    for key, entry in table.items():
        path = f"{above}{key}"
        if not isinstance(entry, dict):
            raise InputError(f"preset {name}: {path} needs a value and where it comes from ({', '.join(ORIGINS)})")
        if "value" not in entry:
            values[key], below = _split(name, entry, f"{path}.")
            marks |= below
            continue
        sources = [(kind, entry[kind]) for kind in ORIGINS if entry.get(kind)]
        if len(sources) != 1 or set(entry) - {"value", *ORIGINS}:
            raise InputError(f"preset {name}: {path} must be marked by one of {', '.join(ORIGINS)}, and nothing else")
        values[key] = entry["value"]
        marks[path] = Mark(kind=sources[0][0], note=sources[0][1])
    return values, marks


def leaves(config: BaseModel, above: str = "") -> Iterator[tuple[str, Any]]:
    """(path, JSON value) of every field that holds no further settings of its own."""
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            yield from leaves(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", config.model_dump(mode="json", include={name})[name]


def change(preset: Preset, changes: Mapping[str, Any]) -> ChangedPreset:
    """The preset with changed fields, nested as in the configuration (`{"optimiser": {"learning_rate": 1e-5}}`).

    A changed `kind` replaces its whole part. Raises InputError that names each field that does not fit.
    """
    if changes.get("type", preset.config.type) != preset.config.type:
        raise InputError(f"type: preset {preset.name} is {preset.config.type}; take a preset of the other type")
    config = read_config(_merged(preset.config.model_dump(mode="json"), changes))
    before = dict(leaves(preset.config))
    marks = {
        path: preset.marks[path] if path in before and before[path] == value else _changed(path, before)
        for path, value in leaves(config)
    }
    return ChangedPreset(preset=preset.name, config=config, marks=marks)


def _changed(path: str, before: Mapping[str, Any]) -> Mark:
    return Mark(kind="changed", note=f"the preset has {before[path]!r}" if path in before else "the preset has none")


def _merged(base: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    if any(key in changes and key in base and changes[key] != base[key] for key in UNIONS):
        return copy.deepcopy(dict(changes))
    merged = copy.deepcopy(base)
    for key, value in changes.items():
        below = merged.get(key)
        deeper = isinstance(value, Mapping) and isinstance(below, dict) and key not in _OPEN
        merged[key] = _merged(below, value) if deeper and isinstance(below, dict) else copy.deepcopy(value)
    return merged


_OPEN = {"environments", "settings", "verifiers"}
"""Tables whose keys are names, not fields: a changed one replaces the preset's."""


def differences(preset: Preset, config: JobConfig) -> tuple[Difference, ...]:
    """Where a configuration departs from a preset, with the mark of what the preset has; in the fields' order."""
    before, after = dict(leaves(preset.config)), dict(leaves(config))
    gone = Mark(kind="ours", note="the preset has no such field")
    return tuple(
        Difference(path=path, preset=before.get(path), chosen=after.get(path), mark=preset.marks.get(path, gone))
        for path in dict.fromkeys([*before, *after])
        if path not in before or path not in after or before[path] != after[path]
    )
