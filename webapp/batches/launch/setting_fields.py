"""Fields of the settings of stages, and their initial values."""

from __future__ import annotations

from typing import Any

from django import forms

from webapp.batches.engine.cast import fill_in_defaults
from webapp.batches.setting_labels import EMBEDDINGS, SettingLabel
from webapp.batches.spec import ROLES, BatchSettings
from webapp.common.forms.rows import PlainInput
from webapp.trajectories.rollouts.spec import SENT_REASONING

RANGES = [("", "any number"), ("released", "as released: 3 to 29, in conversations 5 to 39"), ("own", "from … to …")]
USERS = [("optimised", "optimised: AutoForge's rules (ours)"), ("base", "base: EnvScaler's Figure 24 (published)")]
TESTERS = [
    ("planned", "planned: every tool both ways, spread evenly (ours)"),
    ("free", "free: the tester picks its call, EnvScaler's Eq. 5 (published)"),
]
RULES = [("goals", "goals met, 0 if a guard breaks (ours)"), ("proportion", "share of checks passed (published)")]
AGREEMENTS = [
    ("verifier", "pass the verifier (ours)"),
    ("each_other", "equal each other (as printed)"),
]
CHOICES = {
    "rule": RULES,
    "sent_reasoning": SENT_REASONING,
    "teacher_user": USERS,
    "tester": TESTERS,
    "action_range": RANGES,
    "consistency_rule": AGREEMENTS,
}
"""Settings that are one of a few words, by name; those of a variant by their name in its group."""
VARIANT_GROUPS = ("graph", "programmatic", "walk")
"""Settings of one variant each, fields of `StageSettings`."""


def build_initial_values(settings: BatchSettings) -> dict[str, Any]:
    """Return a form's values for these settings, with a model for every role."""
    stages = settings.stages.model_dump(mode="json")
    action_range = stages.pop("action_range")
    stages["teacher_user_tools"] = ", ".join(stages["teacher_user_tools"])
    own = isinstance(action_range, list)
    filled_settings = fill_in_defaults(settings)
    return (
        stages
        | {f"{group}.{name}": value for group in VARIANT_GROUPS for name, value in stages[group].items()}
        | {"action_range": "own" if own else action_range or "", "cap": settings.cap, "seed": settings.seed}
        | {"lanes": settings.lanes, "at_once": settings.at_once, "preset": settings.preset, "variant": settings.variant}
        | {"actions_from": action_range[0] if own else None, "actions_to": action_range[1] if own else None}
        | {f"model_{role}": filled_settings.models[role] for role in ROLES}
        | {EMBEDDINGS.name: filled_settings.embeddings}
    )


def make_setting_field(setting: SettingLabel) -> forms.Field:
    """Return the field of a stage's setting, by the type of its default."""
    options: dict[str, Any] = {"label": setting.label, "help_text": setting.hint, "required": False}
    listed = CHOICES.get(setting.name) or CHOICES.get(setting.name.rpartition(".")[2])
    if listed:
        return forms.ChoiceField(choices=listed, **options)
    if isinstance(setting.default, bool):
        return forms.BooleanField(**options)
    if isinstance(setting.default, tuple):
        return forms.CharField(max_length=20_000, widget=PlainInput(attrs={"placeholder": "name, name, …"}), **options)
    if isinstance(setting.default, float):
        return forms.FloatField(**options)
    return forms.IntegerField(**options)
