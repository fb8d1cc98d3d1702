"""Inputs and hints of a new training job's form, and what its selects list."""

from __future__ import annotations

from typing import Any

from django import forms
from django.urls import reverse_lazy

from training import presets
from webapp.endpoints.queries import choices
from webapp.forms.rows import Options, PlainInput, PlainTextarea, offer, options
from webapp.runs.launch import form_choices
from webapp.runs.launch.job_lookup import DEFAULTS
from webapp.runs.launch.setting_fields import FormSetting
from webapp.runs.setting_labels import METHODS

RELOADS: dict[str, Any] = {
    "hx-post": reverse_lazy("runs:new"),
    "hx-include": "#launch",
    "hx-trigger": "change",
    "hx-target": "#launch",
    "hx-select": "#launch",
    "hx-swap": "outerHTML",
    "hx-sync": "#launch:replace",
    "hx-indicator": "#values",
}
"""The form comes anew, with the values of another preset; the last choice counts."""
ENGINES = [("transformers", "transformers"), ("vllm", "vLLM"), ("vllm_server", "vLLM server")]
SWITCH = [("on", "on"), ("off", "off")]
PLACEHOLDERS = {
    "turns": "8, 15, 30",
    "phases": "share of steps: turns, …",
    "weights": "name: weight, …",
    "names": "name, name, …",
}
HINTS = {
    "dataset": "With its split.",
    "model": "A known name, or organisation/name of a model that a worker may fetch from Hugging Face; what is "
    "evaluated may also be behind an endpoint.",
    "preset": "Where the values below are from.",
    "after": "It is queued once that one has succeeded.",
    "engine": "What draws RL's tokens at the worker: the model itself, vLLM in the trainer, or the vLLM server that it "
    "was started with.",
    "user_model": "In conversations; the worker reaches it through this site, counted and capped.",
    "judge_model": "Decides the facts of tasks that are judged by a rubric; reached, counted and capped alike.",
    "calls_allowed": "At most so many for this job; then it pauses.",
}


LONGEST_TEXTS = {"name": 200, "model": 300}


def basic_widget(name: str) -> forms.Widget:
    """The input of a field beside the configuration."""
    if name == "method":
        return forms.RadioSelect(choices=list(METHODS.items()), attrs=RELOADS)
    attrs = {"aria-describedby": f"id_{name}_helptext id_{name}_error" if name in HINTS else f"id_{name}_error"}
    if name in ("dataset", "evaluation", "after", "user_model", "judge_model"):
        return forms.Select(attrs=attrs)
    if name == "preset":
        return forms.Select(attrs=attrs | RELOADS)
    if name == "engine":
        return forms.Select(choices=ENGINES, attrs=attrs)
    if name == "metadata":
        return PlainTextarea(attrs=attrs | {"rows": 2, "placeholder": "key = value, a line each"})
    own: dict[str, dict[str, Any]] = {
        "name": {"maxlength": LONGEST_TEXTS["name"], "placeholder": "optional"},
        "model": {
            "maxlength": LONGEST_TEXTS["model"],
            "list": "models",
            "spellcheck": "false",
            "autocapitalize": "off",
        },
        "calls_allowed": {"inputmode": "numeric"},
    }
    return PlainInput(attrs=attrs | own.get(name, {}))


def setting_widget(setting: FormSetting) -> forms.Widget:
    """The input of a value of the configuration, by its kind."""
    attrs: dict[str, Any] = {"aria-describedby": f"id_{setting.name}_helptext id_{setting.name}_error"}
    if setting.kind == "choice":
        return forms.Select(choices=[(choice, choice.replace("_", " ")) for choice in setting.choices], attrs=attrs)
    if setting.kind == "switch":
        return forms.Select(choices=SWITCH, attrs=attrs)
    if setting.kind in PLACEHOLDERS:
        attrs["placeholder"] = PLACEHOLDERS[setting.kind]
    if setting.kind == "weights":
        return PlainTextarea(attrs=attrs | {"rows": 2, "cols": 20, "spellcheck": "false"})
    if setting.kind in ("whole", "number"):
        attrs["inputmode"] = "numeric" if setting.kind == "whole" else "decimal"
    return PlainInput(attrs=attrs | {"autocomplete": "off"})


def setting_hint(setting: FormSetting) -> str:
    """What a value means and where it may lie. A mark stands beside it even where there is nothing to say."""
    bounds = f"{setting.range[:1].upper()}{setting.range[1:]}." if setting.range else ""
    return f"{setting.hint} {bounds}".strip() or " "


def offer_choices(form: forms.Form, method: str, chosen: dict[str, str]) -> None:
    """Lists of the page's selects; `chosen` stays among them, however old it is."""
    kind = form_choices.kind_of(method)
    offer(form, "dataset", _offers(form_choices.datasets(kind, chosen["dataset"]), 160, first=f"choose one of {kind}"))
    offer(form, "evaluation", _offers(form_choices.evaluations(method, chosen["evaluation"]), 160))
    offer(form, "after", _offers(form_choices.jobs_before(chosen["after"]), 120))
    players = [(model.value, model.label) for model in choices()]
    for role in ("user", "judge"):
        offer(form, f"{role}_model", options(players, 80, first=f"the default model of the role {role}"))
    listed = [(preset.name, _title(preset)) for preset in form_choices.presets_of(method)]
    offer(form, "preset", [*listed, (DEFAULTS, "Envarium's defaults")])


def _offers(rows: list[form_choices.Offer], length: int, *, first: str | None = None) -> Options:
    return options(((row.value, row.words) for row in rows), length, first=first)


def _title(preset: presets.Preset) -> str:
    return f"{preset.title} ({preset.paper})" if preset.paper else preset.title
