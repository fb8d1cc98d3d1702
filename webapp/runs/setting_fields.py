"""Settings of a training job as form fields: label, kind, range and text. No rows."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from synthesis.errors import InputError
from training.config import (
    Constant,
    EvaluationJob,
    Fractions,
    Full,
    Increment,
    JobConfig,
    Listed,
    Lora,
    Reinforcement,
    Supervised,
    read_config,
)
from webapp.runs.models import TrainingJob
from webapp.runs.setting_labels import GROUPS, LABELS, UNITS

Config = JobConfig
Kind = Literal["choice", "switch", "whole", "number", "turns", "phases", "weights", "names"]
VARIANTS: dict[str, dict[str, type[BaseModel]]] = {
    "horizon": {"constant": Constant, "list": Listed, "increment": Increment, "fractions": Fractions},
    "tuning": {"full": Full, "lora": Lora},
}
OPEN = ("environments", "settings", "verifiers")
"""Tables whose keys are names: they change as a whole."""


@dataclass(frozen=True)
class FormSetting:
    """Setting as a form field. `path` is its place in the configuration; a field of one variant alone names that in
    `variant`."""

    path: str
    label: str
    kind: Kind
    hint: str = ""
    range: str = ""
    unit: str = ""
    choices: tuple[str, ...] = ()
    variant: str = ""

    @property
    def name(self) -> str:
        """Name in forms: `horizon__list__turns`, `optimiser__learning_rate`."""
        above, _, last = self.path.rpartition(".")
        return "__".join([*above.split("."), self.variant, last] if self.variant else self.path.split("."))


def list_settings(method: str) -> tuple[FormSetting, ...]:
    """Return every field of a method's configuration, in its order."""
    return _SETTINGS[method]


def group_settings(method: str) -> list[tuple[str, list[FormSetting]]]:
    """Return the fields under their headings."""
    left = list(list_settings(method))
    groups = []
    for title, starts in GROUPS[method]:
        here = [
            setting
            for setting in left
            if any(setting.path == start or setting.path.startswith(f"{start}.") for start in starts)
        ]
        groups.append((title, here))
        left = [setting for setting in left if setting not in here]
    return [(title, here) for title, here in groups if here]


def _walk_settings(model: type[BaseModel], above: str = "", variant: str = "") -> Iterator[FormSetting]:
    for name, info in model.model_fields.items():
        path = f"{above}{name}"
        if name in VARIANTS:
            kinds = tuple(VARIANTS[name])
            yield FormSetting(f"{path}.kind", LABELS[f"{path}.kind"], "choice", _describe_variants(name), choices=kinds)
            for kind, variant_model in VARIANTS[name].items():
                yield from _walk_settings(variant_model, f"{path}.", kind)
        elif isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from _walk_settings(info.annotation, f"{path}.", variant)
        elif name != "type" and not (variant and name == "kind"):
            yield _build_setting(path, variant, info)


def _describe_variants(name: str) -> str:
    return _quote_names(
        " ".join(f"`{kind}`: {(model.__doc__ or '').strip()}" for kind, model in VARIANTS[name].items())
    )


def _build_setting(path: str, variant: str, info: FieldInfo) -> FormSetting:
    kind, choices = _get_kind(info.annotation)
    words = LABELS.get(f"{path}@{variant}") or LABELS[path]
    unit = "" if kind == "turns" else UNITS.get(path, "")
    return FormSetting(
        path, words, kind, _quote_names(info.description or ""), _format_range(info), unit, choices, variant
    )


def _quote_names(text: str) -> str:
    return re.sub("`([^`]*)`", "“\\1”", text)


def _get_kind(annotation: Any) -> tuple[Kind, tuple[str, ...]]:
    origin = typing.get_origin(annotation)
    if origin is Literal:
        return "choice", tuple(typing.get_args(annotation))
    if origin is tuple:
        inner = typing.get_args(annotation)[0]
        if inner is str:
            return "names", ()
        return ("phases" if isinstance(inner, type) and issubclass(inner, BaseModel) else "turns"), ()
    if origin is dict:
        return "weights", ()
    simple: dict[Any, Kind] = {bool: "switch", int: "whole", float: "number"}
    if annotation in simple:
        return simple[annotation], ()
    raise TypeError(f"no field for {annotation!r}: teach webapp/runs/setting_fields.py its kind")


def _format_range(info: FieldInfo) -> str:
    """Return the bounds in words."""
    if typing.get_origin(info.annotation) is not None or isinstance(info.annotation, types.GenericAlias):
        return ""
    limits = {
        key: getattr(bound, key) for bound in info.metadata for key in ("ge", "gt", "le", "lt") if hasattr(bound, key)
    }
    low = f"from {limits['ge']:,}" if "ge" in limits else f"above {limits['gt']:,}" if "gt" in limits else ""
    high = f"up to {limits['le']:,}" if "le" in limits else f"below {limits['lt']:,}" if "lt" in limits else ""
    return ", ".join(part for part in (low, high) if part)


_SETTINGS = {
    "supervised": tuple(_walk_settings(Supervised)),
    "reinforcement": tuple(_walk_settings(Reinforcement)),
    "evaluation": tuple(_walk_settings(EvaluationJob)),
}


def format_field_text(kind: Kind, value: Any) -> str:
    """Return the text of a value in its field; `parse_field_text` is the inverse."""
    if kind == "switch":
        return "on" if value else "off"
    if kind == "number":
        return f"{float(value):.12g}"
    if kind == "turns":
        return ", ".join(str(turns) for turns in value)
    if kind == "names":
        return ", ".join(value)
    if kind == "phases":
        return ", ".join(f"{_format_number(phase['begins'])}: {phase['turns']}" for phase in value)
    if kind == "weights":
        lines = [f"{name}: {_format_number(weight)}" for name, weight in value.items()]
        return "".join(f"{line}\n" for line in lines) if any("," in line for line in lines) else ", ".join(lines)
    return str(value)


def _format_number(value: float) -> str:
    return f"{float(value):.12g}"


def parse_field_text(setting: FormSetting, text: str) -> Any:
    """Return the JSON value of what was typed. Raises ValueError with what a person can do about it."""
    if setting.kind == "weights":
        return {name: _parse_number(weight) for name, weight in _parse_pairs(text)}
    text = text.strip()
    if setting.kind == "names":
        return [part.strip() for part in text.split(",") if part.strip()]
    if not text:
        raise ValueError("Say a value.")
    if setting.kind == "switch":
        return text == "on"
    if setting.kind == "whole":
        return _parse_whole(text)
    if setting.kind == "number":
        return _parse_number(text)
    if setting.kind == "turns":
        return [_parse_whole(part) for part in text.replace(";", ",").split(",") if part.strip()]
    if setting.kind == "phases":
        return [{"begins": _parse_number(begins), "turns": _parse_whole(turns)} for begins, turns in _parse_pairs(text)]
    return text


def _parse_pairs(text: str) -> list[tuple[str, str]]:
    """Parse `a: 1, b: 2`, or a line each, in which names may hold commas."""
    parts = [part.strip() for part in text.split("\n" if "\n" in text else ",") if part.strip()]
    pairs = [part.rpartition(":") for part in parts]
    bad_pair = next((part for part, (name, _, _) in zip(parts, pairs, strict=True) if not name.strip()), None)
    if bad_pair is not None:
        raise ValueError(f"“{bad_pair[:60]}” is no pair: write “name: number”, with commas between.")
    return [(name.strip(), value) for name, _, value in pairs]


def _parse_whole(text: str) -> int:
    plain = text.strip().replace("_", "").removeprefix("+")
    if not (plain.removeprefix("-").isascii() and plain.removeprefix("-").isdigit() and len(plain) < 19):
        raise ValueError(f"“{text.strip()[:60]}” is no whole number.")
    return int(plain)


def _parse_number(text: str) -> float:
    try:
        number = float(text.strip())
    except ValueError:
        raise ValueError(f"“{text.strip()[:60]}” is no number.") from None
    if number != number or number in (float("inf"), float("-inf")):
        raise ValueError("It must be a finite number.")
    return number


def build_texts(config: Config) -> dict[str, str]:
    """Return texts of the form's fields for a configuration. Variants that it does not use show their defaults."""
    dumped = config.model_dump(mode="json")
    texts = {}
    for setting in list_settings(config.type):
        value = _get_value(setting, dumped)
        texts[setting.name] = "" if value is None else format_field_text(setting.kind, value)
    return texts


def read_job_config(job: TrainingJob) -> Config | None:
    """Return a job's configuration; None if it is invalid, which does not occur for jobs of this site's own."""
    try:
        return read_config(job.config)
    except InputError:
        return None


def _get_value(setting: FormSetting, dumped: Mapping[str, Any]) -> Any:
    *above, last = setting.path.split(".")
    table: Any = dumped
    for part in above:
        table = table[part]
    if setting.variant and table["kind"] != setting.variant:
        default = VARIANTS[above[-1]][setting.variant].model_fields[last].get_default()
        return None if repr(default) == "PydanticUndefined" else default
    return table[last]


def nest_values(values: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Return the configuration as JSON from values by field name; of variants those of the chosen kind."""
    config: dict[str, Any] = {"type": method}
    for setting in list_settings(method):
        *above, last = setting.path.split(".")
        table = config
        for part in above:
            table = table.setdefault(part, {})
        if setting.name in values and (not setting.variant or table.get("kind") == setting.variant):
            table[last] = values[setting.name]
    return config


def find_field_name(place: tuple[Any, ...] | list[Any], method: str) -> str:
    """Return the field that an error of pydantic, or an API's `param`, is about; empty if it is a whole part."""
    parts = [str(part) for part in place if not isinstance(part, int)]
    names = {setting.name for setting in list_settings(method)} | {
        setting.path.replace(".", "__") for setting in list_settings(method)
    }
    for length in range(len(parts), 0, -1):
        name = "__".join(parts[:length])
        if name in names:
            return name
    return ""


def list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes that make `before` (a configuration's JSON) into `after`, nested as a job's `changes` are."""
    changes: dict[str, Any] = {}
    for key, value in after.items():
        was = before.get(key)
        if was == value:
            continue
        if (
            isinstance(value, dict)
            and isinstance(was, dict)
            and key not in OPEN
            and was.get("kind") == value.get("kind")
        ):
            changes[key] = list_changes(was, value)
        else:
            changes[key] = value
    return changes


def format_value(value: Any) -> str:
    """Return the text of a value in a list of differences."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return _format_number(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
