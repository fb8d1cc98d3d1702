"""Form of a new batch: items and their number, the model of each role, thresholds, how it runs."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.text import Truncator
from pydantic import ValidationError

from synthesis.errors import InputError
from synthesis.scripted import list_bundled_themes as bundled_themes
from synthesis.themes.typed import build_typed_theme
from synthesis.variant_settings import VARIANT_TITLES
from webapp.batches.engine.theme_source import build_environment_specs, build_theme_specs
from webapp.batches.launch import choice, prompt_trials, task_files
from webapp.batches.launch.choice import ChosenItems, RowFilter
from webapp.batches.launch.setting_fields import build_initial_values, make_setting_field
from webapp.batches.presets import TITLES
from webapp.batches.services import build_theme_spec
from webapp.batches.setting_labels import (
    EMBEDDINGS,
    LOCAL_LABEL,
    ROLE_WORDS,
    RUNNING,
    SCRIPTED_LABEL,
    STAGE_SETTINGS,
    VARIANT_HINT,
    SettingLabel,
)
from webapp.batches.spec import LOCAL, MOST_THEMES, ROLES, SCRIPTED, BatchSettings
from webapp.common.forms.rows import PlainInput, PlainSearch, build_options, offer_options
from webapp.common.templatetags.show import plain
from webapp.endpoints import sampling_fields
from webapp.endpoints.queries import get_sampling_defaults, list_model_choices

FILTERED = 20
MOST_TYPED = 20
NOTHING = "Choose what to grow: tick a bundled theme, or open one of the other ways below."

DESCRIPTION = "Who uses it and for what, which records it keeps, what can be looked up and changed, and by which rules"


def _make_text_field(label: str, widget: type[forms.Widget], **attrs: str) -> forms.CharField:
    return forms.CharField(label=label, max_length=200, required=False, widget=widget(attrs=attrs))


def _make_picked_field(what: str) -> forms.TypedMultipleChoiceField:
    """Return a field of rows that a page named one by one: chips, each with a button that removes it."""
    gone_message = f"This {what} is not there any more: %(value)s. It is left out here."
    return forms.TypedMultipleChoiceField(
        label=f"Chosen {what}s",
        coerce=int,
        required=False,
        error_messages={"invalid_choice": gone_message},
    )


def _make_limit_field() -> forms.IntegerField:
    return forms.IntegerField(label="At most", min_value=1, max_value=MOST_THEMES, required=False)


def _make_file_input() -> forms.FileInput:
    kinds = ".jsonl,.json,.txt,.gz,application/json,text/plain"
    return forms.FileInput(attrs={"accept": kinds, "aria-describedby": "tasks-hint"})


@dataclass
class TypedRow:
    """A typed theme, with its errors."""

    name: str = ""
    description: str = ""
    category: str = ""
    errors: list[str] = field(default_factory=list)
    placeholder = DESCRIPTION

    @property
    def said(self) -> bool:
        return bool(self.name.strip() or self.description.strip() or self.category.strip())


class SettingsForm(forms.Form):
    """Form of all settings except the choice of items. Bounds are those of `BatchSettings`; its errors are mapped to
    fields."""

    name = _make_text_field("Name", PlainInput)
    token = forms.CharField(max_length=64, widget=forms.HiddenInput)
    variant = forms.ChoiceField(
        label="Variant",
        help_text=VARIANT_HINT,
        required=False,
        template_name="batches/launch/variant.html",  # type: ignore[call-arg]  # newer than its stubs
    )
    preset = forms.ChoiceField(choices=list(TITLES.items()), required=False, widget=forms.HiddenInput)
    cap = forms.FloatField(label="Spend cap", help_text="the batch pauses before it spends more", required=False)
    seed = forms.IntegerField(required=False)
    lanes = forms.IntegerField(required=False)
    at_once = forms.IntegerField(required=False)
    actions_from = forms.IntegerField(label="Actions from", required=False)
    actions_to = forms.IntegerField(label="Actions to", required=False)

    def __init__(self, data: Any = None, files: Any = None, *, before: BatchSettings, **named: Any) -> None:
        named["initial"] = (
            build_initial_values(before) | {"token": secrets.token_urlsafe(18)} | named.get("initial", {})
        )
        super().__init__(data, files, use_required_attribute=False, **named)
        self.fields["variant"].choices = list(VARIANT_TITLES.items())  # type: ignore[attr-defined]
        self.before = before
        self.settings = before
        for setting in STAGE_SETTINGS:
            self.fields[setting.name] = make_setting_field(setting)
        for name, label, hint in RUNNING:
            self.fields[name].label, self.fields[name].help_text = label, hint
        models = [(SCRIPTED, SCRIPTED_LABEL), *((model.value, model.label) for model in list_model_choices())]
        for role in ROLES:
            self._add_model(f"model_{role}", f"Model of the {role}", ROLE_WORDS[role], models)
        vectors = [(LOCAL, LOCAL_LABEL), *models[1:]]
        self._add_model(EMBEDDINGS.name, EMBEDDINGS.label, EMBEDDINGS.hint, vectors, required=False)
        prompt_trials.add_trial_fields(self)
        sampling_fields.add_fields(self, ROLES, get_sampling_defaults() | before.sampling)

    def _add_model(
        self, name: str, label: str, hint: str, models: list[tuple[str, str]], *, required: bool = True
    ) -> None:
        gone_messages = {"invalid_choice": "This model is not listed at its endpoint any more. Choose another."}
        self.fields[name] = forms.ChoiceField(
            choices=models, label=label, help_text=hint, error_messages=gone_messages, required=required
        )
        listed, chosen = build_options(models, 80), self[name].value()
        if chosen not in dict(models):
            unlisted = Truncator(plain(chosen or "")).chars(60)
            listed.insert(0, (chosen, f"{unlisted} (not listed any more)"))
        offer_options(self, name, listed)

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        filled_names = [setting.name for setting in STAGE_SETTINGS if cleaned.get(setting.name) not in (None, "")]
        stages = {name: cleaned[name] for name in filled_names if "." not in name}
        stages["action_range"] = self._range()
        names = str(cleaned.get("teacher_user_tools") or "").split(",")
        stages["teacher_user_tools"] = [name.strip() for name in names if name.strip()]
        changes = {name: cleaned[name] for name in ("seed", "lanes", "at_once") if cleaned.get(name) is not None}
        models = {role: cleaned[f"model_{role}"] for role in ROLES if cleaned.get(f"model_{role}")}
        whole = self.before.model_dump(mode="json") | changes
        for group, _, name in (name.partition(".") for name in filled_names if "." in name):
            stages[group] = stages.get(group, whole["stages"][group]) | {name: cleaned[f"{group}.{name}"]}
        whole |= {"stages": whole["stages"] | stages, "models": models, "cap": cleaned.get("cap")}
        whole["preset"] = cleaned.get("preset") or self.before.preset
        whole["variant"] = cleaned.get("variant") or self.before.variant
        whole["embeddings"] = cleaned.get(EMBEDDINGS.name) or self.before.embeddings
        whole["prompts"] = prompt_trials.read_trial_texts(self, self.before.prompts)
        if sampling_fields.has_fields(self.data, ROLES):
            role_sampling = sampling_fields.read_sampling(
                cleaned, [role for role in ROLES if models.get(role) != SCRIPTED]
            )
            whole["sampling"] = {role: values.model_dump(mode="json") for role, values in role_sampling.items()}
        try:
            self.settings = BatchSettings.model_validate(whole)
        except ValidationError as error:
            for fault in error.errors():
                self._refuse([str(part) for part in fault["loc"]], str(fault["msg"]))
        low, high = stages.get("least_tools"), stages.get("most_tools")
        if low is not None and high is not None and low > high:
            self.add_error("most_tools", f"It must not be below the least number of tools ({low}).")
        return cleaned

    def _range(self) -> Any:
        if self.cleaned_data.get("action_range") != "own":
            return self.cleaned_data.get("action_range") or None
        ends = self.cleaned_data.get("actions_from"), self.cleaned_data.get("actions_to")
        if None in ends:
            self.add_error("action_range", "Say both ends of the range.")
            return None
        return ends

    def _refuse(self, place: list[str], why: str) -> None:
        """Add an error of `BatchSettings` to the field that it is about."""
        inner = ".".join(place[1:])
        name = place[0] if place[0] != "stages" else inner if inner in self.fields else "".join(place[1:2])
        why = why.removeprefix("Value error, ").replace("Input should be", "It must be")
        self.add_error(name if name in self.fields else None, f"{why[:1].upper()}{why[1:]}.")

    def faults(self) -> list[tuple[str, str, str]]:
        """Return (field, label, error) of each error; field and label are empty if no field is to blame."""
        faults = []
        for name, errors in self.errors.items():
            field = self.fields.get(name)
            label = str(field.label or name.replace("_", " ")).capitalize() if field else ""
            faults += [(name if field else "", label, str(error)) for error in errors]
        return faults

    @property
    def sampling_wrong(self) -> bool:
        return self.is_bound and any(name.startswith("sampling_") for name in self.errors)

    def has_faults(self, settings: tuple[SettingLabel, ...]) -> bool:
        return self.is_bound and any(setting.name in self.errors for setting in settings)


class LaunchForm(SettingsForm):
    """Form of a new batch: the settings and the choice of items. Ways to choose them add up."""

    bundled = forms.MultipleChoiceField(label="What to grow", required=False)
    use_themes = forms.BooleanField(label="Grow kept themes that fit", required=False)
    themes_text = _make_text_field("Name holds", PlainSearch)
    themes_source = _make_text_field("Source", forms.Select)
    themes_node = forms.IntegerField(
        label="Label, with all below", min_value=1, max_value=2**63 - 1, required=False, widget=forms.Select
    )
    themes_most = _make_limit_field()
    themes_ids = _make_picked_field("theme")
    environments_ids = _make_picked_field("environment")
    use_environments = forms.BooleanField(label="Grow more onto environments that fit", required=False)
    environments_text = _make_text_field("Name or id", PlainSearch)
    environments_category = _make_text_field("Category", forms.Select)
    environments_source = _make_text_field("Source", forms.Select)
    environments_most = _make_limit_field()
    tasks_file = forms.FileField(label="File", required=False, allow_empty_file=True, widget=_make_file_input())
    tasks_kept = forms.CharField(max_length=2_000, required=False)
    tasks_source = _make_text_field("Name of the source", PlainInput, placeholder="the file's name")
    tasks_most = _make_limit_field()

    def __init__(self, user: Any, data: QueryDict | None = None, files: Any = None, **named: Any) -> None:
        drafts = bundled_themes()
        filters = {"themes_most": FILTERED, "environments_most": FILTERED, "bundled": [draft.key for draft in drafts]}
        named["initial"] = filters | named.get("initial", {})
        super().__init__(data, files, **named)
        self.user = user
        self.drafts = drafts
        self.chosen = ChosenItems()
        self.kept_file = ""
        """A file that was put aside: its name in the form."""
        self.sent_file: task_files.TaskFile | None = None
        self.fields["name"].widget.attrs["placeholder"] = "optional"
        self.fields["bundled"].choices = [(draft.key, draft.name) for draft in drafts]  # type: ignore[attr-defined]
        for name, rows in choice.PICKED.items():
            offered = choice.find_named_rows(rows(), self[name].value())
            self.fields[name].choices = offered  # type: ignore[attr-defined]
        typed_first = TypedRow(category=self.initial.get("typed_category", ""))
        self.typed = _read_typed_rows(data) if data is not None else [typed_first]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        self.chosen.add("bundled themes", choice.build_bundled_specs(cleaned.get("bundled", [])))
        self._add_picked()
        if cleaned.get("use_themes") and not self._has_filter_error("themes"):
            self._require_added("use_themes", choice.add_themes(self.chosen, self.filter("themes")), "theme")
        if cleaned.get("use_environments") and not self._has_filter_error("environments"):
            added = choice.add_environments(self.chosen, self.filter("environments"))
            self._require_added("use_environments", added, "environment")
        self._add_file()
        self._add_typed()
        if not self.chosen.specs and not self.errors:
            self.add_error("bundled", NOTHING)
        return cleaned

    def filter(self, what: str) -> RowFilter:
        cleaned = self.cleaned_data
        return RowFilter(
            text=cleaned.get(f"{what}_text", ""),
            source=cleaned.get(f"{what}_source", ""),
            category=cleaned.get(f"{what}_category", ""),
            node=cleaned.get(f"{what}_node"),
            most=cleaned.get(f"{what}_most") or FILTERED,
        )

    def _has_filter_error(self, what: str) -> bool:
        return any(name.startswith(f"{what}_") and name not in choice.PICKED for name in self.errors)

    def _add_picked(self) -> None:
        for name, what, specs in (
            ("themes_ids", "chosen themes", build_theme_specs),
            ("environments_ids", "chosen environments", build_environment_specs),
        ):
            try:
                self.chosen.add(what, specs(self.cleaned_data.get(name) or []))
            except InputError as error:
                self.add_error(name, str(error))

    def picked(self, name: str) -> list[tuple[int, str]]:
        """Return (number, name) of rows that are chosen one by one."""
        chosen = {str(value) for value in self[name].value() or []}
        return [(pk, words) for pk, words in self.fields[name].choices if str(pk) in chosen]  # type: ignore[attr-defined]

    def _require_added(self, name: str, count: int, what: str) -> None:
        if not count:
            self.add_error(name, f"No {what} fits this filter, or each is chosen already. Change it, or untick this.")

    def _add_file(self) -> None:
        cleaned = self.cleaned_data
        file, self.kept_file = cleaned.get("tasks_file"), cleaned.get("tasks_kept", "")
        if file is None and not self.kept_file:
            return
        try:
            task_file = (
                task_files.read_upload(file)
                if file is not None
                else task_files.load_task_file(self.user, self.kept_file)
            )
            entries = task_files.read_task_lines(task_file)
            source = cleaned.get("tasks_source") or task_file.name
            before = len(self.chosen.left_out)
            added = choice.add_task_lines(self.chosen, entries, source, cleaned.get("tasks_most"))
            if not added:
                why = (*self.chosen.left_out[before : before + 1], "it holds no records")[0]
                raise InputError(f"{task_file.name}: no task in it can be used: {why}.")
            if file is not None:
                self.kept_file, self.sent_file = "", task_file
        except InputError as error:
            self.kept_file = ""
            self.add_error("tasks_file", str(error))

    def keep_file(self) -> None:
        """Store the uploaded file before the form is shown again: a browser would not send it again."""
        if self.sent_file is not None:
            self.kept_file = task_files.store_task_file(self.user, self.sent_file)

    @property
    def file_name(self) -> str:
        try:
            return task_files.load_task_file(self.user, self.kept_file).name if self.kept_file else ""
        except InputError:
            return ""

    def _add_typed(self) -> None:
        for row in self.typed:
            if row.said:
                try:
                    self.chosen.add(
                        "typed themes", [build_theme_spec(build_typed_theme(row.name, row.description, row.category))]
                    )
                except InputError as error:
                    row.errors.append(str(error))
        if any(row.errors for row in self.typed):
            self.add_error(None, f"A theme in your words: {next(row.errors[0] for row in self.typed if row.errors)}")


def _read_typed_rows(data: QueryDict) -> list[TypedRow]:
    columns = [data.getlist(f"typed_{name}")[:MOST_TYPED] for name in ("name", "description", "category")]
    longest = max(len(column) for column in columns)
    filled = [[*column, *[""] * (longest - len(column))] for column in columns]
    rows = [TypedRow(*texts) for texts in zip(*filled, strict=True)]
    rows = [row for row in rows if row.said]
    more = not rows or ("more" in data and len(rows) < MOST_TYPED)
    return [*rows, TypedRow()] if more else rows


class LimitsForm(forms.Form):
    """Limits on the cost and the number of themes of an annotator's batch."""

    annotator_cap = forms.FloatField(
        label="Spend cap",
        help_text="In the money of the endpoints' prices. A batch without a cap of its own gets this one, pauses when "
        "it is reached, and keeps all it has.",
        min_value=0,
        max_value=1e9,
    )
    annotator_themes = forms.IntegerField(
        label="Themes at once",
        help_text="Themes, tasks of a file and environments, together.",
        min_value=1,
        max_value=MOST_THEMES,
    )
