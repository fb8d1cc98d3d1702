"""The form “Export for training”."""

from __future__ import annotations

from typing import Any

from django import forms

from synthesis.formats.sft import Shape
from synthesis.stages import ActionRange
from synthesis.tasks.trajectory_filters import RELEASED, FilterSettings
from webapp.trajectories.export.spec import ExportSpec, build_selection
from webapp.trajectories.trajectory_list import Filters

FORMATS = [
    ("trl", "TRL: messages and tools"),
    ("sharegpt", "LlamaFactory ShareGPT"),
    ("alpaca", "LlamaFactory Alpaca with history"),
]
ACTIONS = [
    ("", "any number"),
    ("released", "as released: {} to {}, and {} to {} in conversations".format(*RELEASED[False], *RELEASED[True])),
    ("own", "my own range"),
]


class TrainingForm(forms.Form):
    format = forms.ChoiceField(choices=FORMATS)
    reasoning = forms.BooleanField(label="Keep the reasoning", required=False)
    mask_history = forms.BooleanField(label="One record a turn (mask history)", required=False)
    least_reward = forms.FloatField(label="Least reward", min_value=0, max_value=1)
    actions = forms.ChoiceField(label="Actions (calls and messages)", choices=ACTIONS, required=False)
    fewest = forms.IntegerField(label="Own range: from", min_value=0, max_value=100_000, required=False)
    most = forms.IntegerField(label="to", min_value=0, max_value=100_000, required=False)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if cleaned.get("actions") == "own":
            low, high = cleaned.get("fewest"), cleaned.get("most")
            if (low is None or high is None) and not {"fewest", "most"} & self.errors.keys():
                self.add_error("most", "Give both ends of your own range, or choose another.")
            elif low is not None and high is not None and low > high:
                self.add_error("most", "The higher end is below the lower one.")
        return cleaned

    def spec(self, filters: Filters) -> ExportSpec:
        """Return the export that a valid form asks for."""
        cleaned = self.cleaned_data
        allowed: ActionRange = None
        if cleaned["actions"] == "released":
            allowed = "released"
        elif cleaned["actions"] == "own":
            allowed = (cleaned["fewest"], cleaned["most"])
        return ExportSpec(
            selection=build_selection(filters),
            shape=Shape(format=cleaned["format"], reasoning=cleaned["reasoning"], mask_history=cleaned["mask_history"]),
            sifting=FilterSettings(least_reward=cleaned["least_reward"], action_range=allowed),
        )


def build_training_form(data: Any = None) -> TrainingForm:
    return TrainingForm(data, initial={"format": "trl", "reasoning": True, "least_reward": 1, "actions": ""})
