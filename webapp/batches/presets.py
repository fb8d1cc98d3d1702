"""Presets of a batch: the choices in which EnvScaler's paper and ours differ, each with its place in the paper.

This is the only place that records the paper's choices. A batch keeps the name of its preset; later changes are
departures from it, shown with the preset's value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from synthesis.stages import StageSettings

PresetName = Literal["ours", "as-published"]
OURS: PresetName = "ours"
AS_PUBLISHED: PresetName = "as-published"


@dataclass(frozen=True)
class PublishedChoice:
    """A value of `StageSettings` in the paper; `released` if it is in the authors' code and not in the paper."""

    name: str
    value: Any
    place: str
    released: bool = False

    @property
    def ours(self) -> Any:
        return StageSettings.model_fields[self.name].default


PUBLISHED: tuple[PublishedChoice, ...] = (
    PublishedChoice("stateful_only", True, "ES 3.1, Eq. 1: tasks in a stateful environment are retained"),
    PublishedChoice("least_usefulness", 7, "released code", released=True),
    PublishedChoice("least_modelability", 7, "released code", released=True),
    PublishedChoice("duplicate_pairs", 0, "ES 3.1: descriptions are embedded, and similar ones left out"),
    PublishedChoice("repairs", 0, "ES 3.2: invalid files are discarded"),
    PublishedChoice("tester", "free", "ES 3.3, Eq. 5: call = M(tools, state)"),
    PublishedChoice("test_states", 1, "ES 3.3: the environment class is instantiated once"),
    PublishedChoice("assessment_calls", 100, "ES 3.4: N"),
    PublishedChoice("sequential", False, "ES 3.3, Eq. 7: all N rounds are made"),
    PublishedChoice("assessment_threshold", 0.85, "ES 3.4"),
    PublishedChoice("tool_repairs", 0, "ES 3.3: environments below the threshold are discarded"),
    PublishedChoice("rule", "proportion", "ES 4.2, Eq. 10: the share of checks that hold"),
    PublishedChoice("frames", False, "ES 4.2, Eq. 10: nothing but the checks counts"),
    PublishedChoice("audit_rejects", False, "ES 4: tasks are not audited"),
    PublishedChoice("teach_unsolved", True, "ES 4, B.2: no solver runs before the teacher"),
    PublishedChoice("conversational", True, "ES 5.1: two interaction settings"),
    PublishedChoice("teacher_user", "base", "ES A.3, Figure 24"),
    PublishedChoice("filter_by_reward", False, "ES B.2: format and impossibility alone"),
    PublishedChoice("action_range", None, "ES B.2 names none; the released code has one"),
)
UNCOVERED = (
    "Calls of an assessment run on up to eight lines of states side by side; those of the paper go on from one state.",
    "Checks that hold before anybody acts, or that nothing can pass, are written again or left out; the paper keeps "
    "what the model writes.",
    "Solver runs look for a reference of each task, and an audit looks at its checks: both are stored, and neither "
    "leaves a task out.",
    "A conversation in which the simulated user erred is left out (AutoForge A.1).",
)
"""What stays ours under `as-published`, because no setting covers it."""
TITLES: dict[PresetName, str] = {OURS: "Ours", AS_PUBLISHED: "As published (EnvScaler)"}


@dataclass(frozen=True)
class Departure:
    """A choice that departs from the preset of its batch. `place` is the source of the preset's value."""

    name: str
    preset: Any
    chosen: Any
    place: str


def parse_preset(name: Any) -> PresetName:
    """Return the preset of this name, ours for anything else."""
    return next((known for known in TITLES if known == name), OURS)


def list_preset_values(preset: PresetName) -> dict[str, Any]:
    """Return the values of a preset, by the name of the setting."""
    return {choice.name: choice.value if preset == AS_PUBLISHED else choice.ours for choice in PUBLISHED}


def list_differing_choices() -> list[PublishedChoice]:
    """Return the choices in which the paper and ours differ."""
    return [choice for choice in PUBLISHED if choice.value != choice.ours]


def find_departures(preset: PresetName, stages: StageSettings) -> list[Departure]:
    """Return the settings that depart from the preset, in the order of the paper."""
    values = list_preset_values(preset)
    return [
        Departure(choice.name, values[choice.name], getattr(stages, choice.name), _name_place(preset, choice))
        for choice in PUBLISHED
        if getattr(stages, choice.name) != values[choice.name]
    ]


def apply_preset(settings: Mapping[str, Any], preset: PresetName) -> dict[str, Any]:
    """Return the settings of a batch, as JSON, with the values of a preset."""
    stages = dict(settings.get("stages") or {}) | list_preset_values(preset)
    return dict(settings) | {"preset": preset, "stages": stages}


def _name_place(preset: PresetName, choice: PublishedChoice) -> str:
    return choice.place if preset == AS_PUBLISHED else "our default"
