"""Settings of a batch, as a person chooses them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from synthesis.contracts import Frozen
from synthesis.llm.calls import Sampling
from synthesis.llm.cost import Price
from synthesis.pipeline import PIPELINES
from synthesis.stages import Pipeline, StageSettings, Variant
from webapp.batches.presets import OURS, PresetName

ROLES = ("author", "tester", "checker", "teacher", "user", "judge")
EMBEDDER = "embedder"
"""The role that is not asked in words: its model gives vectors of themes, or none does."""
LOCAL = "local"
"""In place of a model's: vectors that are computed here."""
SCRIPTED = "scripted"
"""The model value of the offline provider; others are `endpoint id/model`."""
MOST_THEMES = 10_000


class BatchSettings(Frozen):
    """All settings of a batch, without its themes. `models` and `sampling` are by role, `prices` by model name
    (`endpoint/model`), in place of the endpoint's own.

    `lanes` jobs work on it, each on `at_once` items; an endpoint's own limit is shared among the lanes.
    """

    variant: Variant = "envscaler"
    """Whose pipeline its items go through."""
    preset: PresetName = OURS
    """Preset that `stages` began with; if its choices differ now, the batch departs from it (`presets.py`)."""
    stages: StageSettings = StageSettings()
    models: dict[str, str] = Field(default_factory=dict)
    sampling: dict[str, Sampling] = Field(default_factory=dict)
    prices: dict[str, Price] = Field(default_factory=dict)
    embeddings: str = ""
    """`endpoint id/model` whose vectors say which themes may be one, or `local`; "" is the site's default."""
    prompts: dict[str, str] = Field(default_factory=dict)
    """Its own texts of prompts, by name; checked when they are given (`synthesis/prompts/trial.py`)."""
    cap: Annotated[float, Field(ge=0)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0
    lanes: Annotated[int, Field(ge=1, le=8)] = 1
    at_once: Annotated[int, Field(ge=1, le=256)] = 16

    @property
    def pipeline(self) -> Pipeline:
        """The stages of its variant."""
        return PIPELINES[self.variant]


def compare_settings(before: BatchSettings, after: BatchSettings) -> list[dict[str, Any]]:
    """Return the differences of two settings as `{name, before, after}`, in the order of the fields."""
    old, new = flatten_settings(before.model_dump(mode="json")), flatten_settings(after.model_dump(mode="json"))
    names = list(dict.fromkeys([*old, *new]))
    return [
        {"name": name, "before": old.get(name), "after": new.get(name)}
        for name in names
        if old.get(name) != new.get(name)
    ]


def flatten_settings(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return settings by their full name (`stages.tasks`)."""
    settings: dict[str, Any] = {}
    for name, inner in value.items():
        settings |= (
            flatten_settings(inner, f"{prefix}{name}.") if isinstance(inner, dict) else {f"{prefix}{name}": inner}
        )
    return settings
