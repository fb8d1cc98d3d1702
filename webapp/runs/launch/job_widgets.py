"""Inputs and hints of a new training job's form, and the options of its selects."""

from __future__ import annotations

from typing import Any

from django import forms
from django.urls import reverse_lazy

from training import presets
from webapp.common.forms.rows import Options, PlainInput, PlainTextarea, build_options, offer_options
from webapp.endpoints.queries import list_model_choices
from webapp.runs.launch import form_choices
from webapp.runs.preflight.job_lookup import DEFAULTS
from webapp.runs.setting_fields import FormSetting
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
    "preset": "The source of the values below.",
    "after": "It is queued once that one has succeeded.",
    "engine": "What draws RL's tokens at the worker: the model itself, vLLM in the trainer, or the vLLM server that it "
    "was started with.",
    "user_model": "In conversations; the worker reaches it through this site, counted and capped.",
    "judge_model": "Decides the facts of tasks that are judged by a rubric; reached, counted and capped alike.",
    "calls_allowed": "Maximum for this job; then it pauses.",
}


LONGEST_TEXTS = {"name": 200, "model": 300}


def make_basic_widget(name: str) -> forms.Widget:
    """Return the input of a field beside the configuration."""
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


def make_setting_widget(setting: FormSetting) -> forms.Widget:
    """Return the input of a value of the configuration, by its kind."""
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


def format_setting_hint(setting: FormSetting) -> str:
    """Return the meaning of a value and its range. A space if there is no hint, so that its mark is shown all the
    same."""
    bounds = f"{setting.range[:1].upper()}{setting.range[1:]}." if setting.range else ""
    return f"{setting.hint} {bounds}".strip() or " "


def fill_choices(form: forms.Form, method: str, chosen: dict[str, str]) -> None:
    """Fill the page's selects; the options include `chosen`, however old it is."""
    kind = form_choices.get_dataset_kind(method)
    offer_options(
        form,
        "dataset",
        _build_options(form_choices.offer_datasets(kind, chosen["dataset"]), 160, first=f"choose one of {kind}"),
    )
    offer_options(form, "evaluation", _build_options(form_choices.offer_evaluations(method, chosen["evaluation"]), 160))
    offer_options(form, "after", _build_options(form_choices.offer_jobs_before(chosen["after"]), 120))
    players = [(model.value, model.label) for model in list_model_choices()]
    for role in ("user", "judge"):
        offer_options(form, f"{role}_model", build_options(players, 80, first=f"the default model of the role {role}"))
    listed = [(preset.name, _format_title(preset)) for preset in form_choices.list_presets(method)]
    offer_options(form, "preset", [*listed, (DEFAULTS, "Envarium's defaults")])


def _build_options(rows: list[form_choices.Offer], length: int, *, first: str | None = None) -> Options:
    return build_options(((row.value, row.words) for row in rows), length, first=first)


def _format_title(preset: presets.Preset) -> str:
    return f"{preset.title} ({preset.paper})" if preset.paper else preset.title
