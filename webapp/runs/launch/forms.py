"""Form of a new training job: dataset, model, preset, and every value of the preset."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from django import forms
from pydantic import ValidationError

from synthesis.errors import InputError
from training import presets
from webapp.runs import setting_fields
from webapp.runs.launch import job_widgets
from webapp.runs.models import TrainingJob
from webapp.runs.preflight.job_lookup import DEFAULTS, get_default_preset, load_preset, resolve_job
from webapp.runs.preflight.remarks import Remark
from webapp.runs.setting_labels import BASICS_OF_JOB, METHODS
from webapp.runs.spec import NewJob

BASICS: dict[str, str] = {**BASICS_OF_JOB, "name": "Name"}
"""Fields outside the configuration, with their labels."""
HIDDEN = ("token", "shown", "origin")
PARAMS = {"training_file": "dataset", "validation_file": "evaluation", "suffix": "name"}
"""What the API calls them."""
MOST_TEXT = 20_000
CALLS_ALLOWED = 100_000
LOOK = "These are the values of this preset. Look at them, then start."


class NewJobForm(forms.Form):
    """Form of a new job. `asked` is the job once the form is valid; `preset` the one whose values are in it."""

    def __init__(self, data: Mapping[str, str] | None = None, *, given: Mapping[str, str] | None = None) -> None:
        entries = {key: value[:MOST_TEXT].replace("\x00", "") for key, value in (data or given or {}).items()}
        self.method = entries["method"] if entries.get("method") in METHODS else "supervised"
        self.preset, self.unknown = _choose_preset(entries, self.method)
        texts = setting_fields.build_texts(self.preset.config)
        # A form that was handed out for another preset keeps what the person changed in it, and nothing else.
        self.moved = bool(entries.get("shown")) and entries["shown"] != self.shown
        typed = _get_changed_texts(entries) if self.moved else entries
        entries |= {name: typed.get(name, text) for name, text in texts.items()}
        entries |= {"method": self.method, "preset": self.preset.name, "shown": self.shown}
        entries.setdefault("token", secrets.token_urlsafe(18))
        entries["calls_allowed"] = entries.get("calls_allowed") or str(CALLS_ALLOWED)
        super().__init__(entries if data is not None else None, initial=entries, use_required_attribute=False)
        for name in (*BASICS, *HIDDEN, *texts):
            self.fields[name] = forms.CharField(label=BASICS.get(name), required=False, strip=False)
        for name in BASICS:
            self.fields[name].widget = job_widgets.make_basic_widget(name)
            self.fields[name].help_text = job_widgets.HINTS.get(name, "")
        for setting in setting_fields.list_settings(self.method):
            field = self.fields[setting.name]
            field.label, field.help_text = setting.label, job_widgets.format_setting_hint(setting)
            field.widget = job_widgets.make_setting_widget(setting)
        self.texts = texts
        self.asked: NewJob | None = None
        self.chosen: presets.ChangedPreset | None = None

    @property
    def shown(self) -> str:
        return f"{self.method}/{self.preset.name}"

    def value(self, name: str) -> str:
        return str(self[name].value() or "")

    def offer_choices(self) -> None:
        """Fill the selects of a form that is about to be shown."""
        chosen = {name: self.value(name) for name in ("dataset", "evaluation", "after")}
        job_widgets.fill_choices(self, self.method, chosen)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = self.cleaned_data
        if self.unknown:
            self.add_error("preset", self.unknown)
        config = self._config()
        tries = self.method == "evaluation"
        if not self.value("dataset").strip():
            self.add_error("dataset", "Choose the tasks that it tries." if tries else "Choose what it learns from.")
        if not self.value("model").strip():
            self.add_error("model", "Say which model is evaluated." if tries else "Say which model learns.")
        for name, most in job_widgets.LONGEST_TEXTS.items():
            if (length := len(self.value(name))) > most:
                self.add_error(name, f"It has {length:,} characters, and at most {most:,} are allowed. Shorten it.")
        metadata = self._metadata()
        calls = self._calls()
        if config is None:
            return cleaned
        changes = setting_fields.list_changes(
            self.preset.config.model_dump(mode="json"), config.model_dump(mode="json")
        )
        self.chosen = presets.change_preset(self.preset, changes)
        if self.errors:
            return cleaned
        plain = {name: self.value(name).strip() for name in BASICS if name not in ("metadata", "calls_allowed")}
        plain["engine"] = plain["engine"] or "transformers"
        try:
            self.asked = NewJob.model_validate(
                plain | {"changes": changes, "metadata": metadata, "calls_allowed": calls}
            )
        except ValidationError as error:
            self._refuse(error)
        return cleaned

    def _config(self) -> setting_fields.Config | None:
        """Return the whole configuration as it was typed; None if something in it needs a change."""
        values: dict[str, Any] = {}
        for setting in setting_fields.list_settings(self.method):
            kind = values.get("__".join([*setting.path.split(".")[:-1], "kind"]))
            if setting.variant and kind != setting.variant:
                continue
            try:
                values[setting.name] = setting_fields.parse_field_text(setting, self.value(setting.name))
            except ValueError as error:
                self.add_error(setting.name, str(error))
        if self.errors:
            return None
        try:
            config = type(self.preset.config).model_validate(setting_fields.nest_values(values, self.method))
        except ValidationError as error:
            self._refuse(error)
            return None
        return config

    def _metadata(self) -> dict[str, str]:
        metadata = {}
        for line in filter(str.strip, self.value("metadata").splitlines()):
            key, sign, text = line.partition("=")
            if not sign or not key.strip():
                self.add_error("metadata", f"“{line.strip()[:60]}” is no pair: write key = value, a line each.")
                return {}
            metadata[key.strip()] = text.strip()
        return metadata

    def _calls(self) -> int:
        text = self.value("calls_allowed").strip().replace(",", "") or str(CALLS_ALLOWED)
        if not (text.isascii() and text.isdigit() and len(text) < 12):
            self.add_error("calls_allowed", "It must be a whole number from 0 on.")
            return 0
        return int(text)

    def _refuse(self, error: ValidationError) -> None:
        """Put pydantic's errors at the fields in which the values were typed."""
        for fault in error.errors(include_url=False)[:20]:
            place = tuple(str(part) for part in fault["loc"])
            why = fault["msg"].removeprefix("Value error, ").replace("Input should be", "It must be")
            self._put(place, f"{why[:1].upper()}{why[1:]}.")

    def _put(self, place: tuple[str, ...], why: str) -> None:
        name = place[0] if place and place[0] in BASICS else setting_fields.find_field_name(place, self.method)
        if not name and place:
            # Rules over several fields begin with the name of the one to change: `tasks: must be a multiple of …`.
            first, sign, rest = why.partition(": ")
            inner = setting_fields.find_field_name((*place, *first.lower().split(".")), self.method) if sign else ""
            name, why = (inner, f"{rest[:1].upper()}{rest[1:]}") if inner else (name, why)
        elif not name:
            first, sign, rest = why.partition(": ")
            name = setting_fields.find_field_name(tuple(first.lower().split(".")), self.method) if sign else ""
        self.add_error(name or None, why)

    def put(self, remarks: tuple[Remark, ...]) -> None:
        """Put the services' remarks on a job that may not begin at its fields."""
        for remark in remarks:
            name = self.get_field_name(remark.param)
            self.add_error(name or None, remark.message)

    def get_field_name(self, param: str) -> str:
        """Return the field that a `param` of the API is about; empty if there is none."""
        if param in PARAMS or param in self.fields:
            return PARAMS.get(param, param)
        place = param.removeprefix("changes.").split(".")
        for name in (setting_fields.find_field_name(place, self.method), f"{'__'.join(place)}__kind"):
            if name in self.fields:
                return name
        # A whole part, or a field of a variant: its first field.
        return next((name for name in self.texts if name.split("__")[0] == place[0]), "")

    def faults(self) -> list[tuple[str, str, str]]:
        """Return (field, what it is called, error); of what no field is to blame for, empty texts."""
        faults = []
        for name, errors in self.errors.items():
            field = self.fields.get(name)
            faults += [(name if field else "", str(field.label or "") if field else "", str(error)) for error in errors]
        return faults


def _choose_preset(entries: Mapping[str, str], method: str) -> tuple[presets.Preset, str]:
    """Return the preset whose values are shown, and what is wrong with the one that was asked for."""
    preset_name, unknown = entries.get("preset", ""), ""
    if not preset_name:
        preset_name = _get_preset_of_model(entries, method)
    try:
        preset = load_preset(preset_name, method)  # type: ignore[arg-type]
    except InputError:
        unknown = f"There is no preset “{preset_name[:60]}” any more; these are Envarium's defaults."
        preset = load_preset(DEFAULTS, method)  # type: ignore[arg-type]
    if preset.config.type != method:
        # The method was changed after the preset: the first of its own.
        preset = load_preset(get_default_preset(method, entries.get("model", "")), method)  # type: ignore[arg-type]
    return preset, unknown


def _get_preset_of_model(entries: Mapping[str, str], method: str) -> str:
    """Return the preset that the services take for the model if none is named."""
    model, after = entries.get("model", "").strip()[:300], entries.get("after", "").strip()[:60]
    if not model:
        return DEFAULTS
    return resolve_job(NewJob(method=method, model=model, dataset="-", after=after)).preset


def _get_changed_texts(entries: Mapping[str, str]) -> dict[str, str]:
    """Return what a person changed in a form that showed another preset."""
    method, _, name = entries["shown"].partition("/")
    try:
        texts = setting_fields.build_texts(load_preset(name, method).config)  # type: ignore[arg-type]
    except (InputError, KeyError):
        return {}
    return {key: entries[key] for key, text in texts.items() if entries.get(key, text).strip() != text.strip()}


def build_entries_from_job(job: TrainingJob) -> dict[str, str]:
    """Return the values of a form that begins as this job did."""
    config = setting_fields.read_job_config(job)
    entries = {
        "method": job.method,
        "name": f"{job.name} (again)"[:200] if job.name else "",
        "model": job.model,
        "dataset": job.dataset.public_id,
        "evaluation": job.evaluation.public_id if job.evaluation else "",
        "preset": job.preset,
        "after": job.after.public_id if job.after else "",
        "engine": job.engine,
        "user_model": f"{job.user_endpoint_id}/{job.user_model}" if job.user_endpoint_id else "",
        "judge_model": f"{job.judge_endpoint_id}/{job.judge_model}" if job.judge_endpoint_id else "",
        "calls_allowed": str(job.calls_allowed),
        "metadata": "\n".join(f"{key} = {value}" for key, value in job.metadata.items()),
        "origin": job.public_id,
    }
    return entries | (setting_fields.build_texts(config) if config else {})
