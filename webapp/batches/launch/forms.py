"""Form of a new batch: what to grow, how much of it, who plays which role, thresholds, how it runs."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.text import Truncator
from pydantic import ValidationError

from synthesis.errors import InputError
from synthesis.scripted import themes as bundled_themes
from synthesis.themes.typed import typed
from webapp.batches.engine.cast import with_defaults
from webapp.batches.engine.theme_source import of_environments, of_rows
from webapp.batches.launch import choice, prompt_trials, task_files
from webapp.batches.launch.choice import ChosenItems, RowFilter
from webapp.batches.presets import TITLES
from webapp.batches.services import of_theme
from webapp.batches.setting_labels import (
    EMBEDDINGS,
    LOCAL_LABEL,
    ROLE_WORDS,
    RUNNING,
    SCRIPTED_LABEL,
    STAGE_SETTINGS,
    VARIANT_HINT,
    VARIANT_TITLES,
    SettingLabel,
)
from webapp.batches.spec import LOCAL, MOST_THEMES, ROLES, SCRIPTED, BatchSettings
from webapp.endpoints import sampling_fields
from webapp.endpoints.queries import choices, sampling_defaults
from webapp.forms.rows import PlainInput, PlainSearch, offer, options
from webapp.templatetags.show import plain
from webapp.trajectories.rollouts.spec import SENT_REASONING

FILTERED = 20
MOST_TYPED = 20
RANGES = [("", "any number"), ("released", "as released: 3 to 29, in conversations 5 to 39"), ("own", "from … to …")]
USERS = [("optimised", "optimised: AutoForge's rules (ours)"), ("base", "base: EnvScaler's Figure 24 (published)")]
TESTERS = [
    ("planned", "planned: every tool both ways, spread evenly (ours)"),
    ("free", "free: the tester picks its call, EnvScaler's Eq. 5 (published)"),
]
RULES = [("goals", "goals met, 0 if a guard breaks (ours)"), ("proportion", "share of checks passed (published)")]
CHOICES = {
    "rule": RULES,
    "sent_reasoning": SENT_REASONING,
    "teacher_user": USERS,
    "tester": TESTERS,
    "action_range": RANGES,
}
"""Settings that are one of a few words."""
NOTHING = "Choose what to grow: tick a bundled theme, or open one of the other ways below."

DESCRIPTION = "Who uses it and for what, which records it keeps, what can be looked up and changed, and by which rules"


def _text(label: str, widget: type[forms.Widget], **attrs: str) -> forms.CharField:
    return forms.CharField(label=label, max_length=200, required=False, widget=widget(attrs=attrs))


def _picked(what: str) -> forms.TypedMultipleChoiceField:
    """Rows that a page named one by one: as chips, each to be taken away."""
    gone = f"This {what} is not there any more: %(value)s. It is left out here."
    return forms.TypedMultipleChoiceField(
        label=f"Chosen {what}s",
        coerce=int,
        required=False,
        error_messages={"invalid_choice": gone},
    )


def _at_most() -> forms.IntegerField:
    return forms.IntegerField(label="At most", min_value=1, max_value=MOST_THEMES, required=False)


def _task_file() -> forms.FileInput:
    kinds = ".jsonl,.json,.txt,.gz,application/json,text/plain"
    return forms.FileInput(attrs={"accept": kinds, "aria-describedby": "tasks-hint"})


@dataclass
class TypedRow:
    """A theme as it is typed, with what is wrong with it."""

    name: str = ""
    description: str = ""
    category: str = ""
    errors: list[str] = field(default_factory=list)
    placeholder = DESCRIPTION

    @property
    def said(self) -> bool:
        return bool(self.name.strip() or self.description.strip() or self.category.strip())


class SettingsForm(forms.Form):
    """Form of all settings but what to grow. Bounds are those of `BatchSettings`, whose answers come back by field."""

    name = _text("Name", PlainInput)
    token = forms.CharField(max_length=64, widget=forms.HiddenInput)
    variant = forms.ChoiceField(label="Variant", help_text=VARIANT_HINT, required=False)
    preset = forms.ChoiceField(choices=list(TITLES.items()), required=False, widget=forms.HiddenInput)
    cap = forms.FloatField(label="Spend cap", help_text="the batch pauses before it spends more", required=False)
    seed = forms.IntegerField(required=False)
    lanes = forms.IntegerField(required=False)
    at_once = forms.IntegerField(required=False)
    actions_from = forms.IntegerField(label="Actions from", required=False)
    actions_to = forms.IntegerField(label="Actions to", required=False)

    def __init__(self, data: Any = None, files: Any = None, *, before: BatchSettings, **named: Any) -> None:
        named["initial"] = _initial(before) | {"token": secrets.token_urlsafe(18)} | named.get("initial", {})
        super().__init__(data, files, use_required_attribute=False, **named)
        self.fields["variant"].choices = list(VARIANT_TITLES.items())  # type: ignore[attr-defined]
        self.before = before
        self.settings = before
        for setting in STAGE_SETTINGS:
            self.fields[setting.name] = _field(setting)
        for name, label, hint in RUNNING:
            self.fields[name].label, self.fields[name].help_text = label, hint
        models = [(SCRIPTED, SCRIPTED_LABEL), *((model.value, model.label) for model in choices())]
        for role in ROLES:
            self._add_model(f"model_{role}", f"Model of the {role}", ROLE_WORDS[role], models)
        vectors = [(LOCAL, LOCAL_LABEL), *models[1:]]
        self._add_model(EMBEDDINGS.name, EMBEDDINGS.label, EMBEDDINGS.hint, vectors, required=False)
        prompt_trials.add_fields(self)
        sampling_fields.add_fields(self, ROLES, sampling_defaults() | before.sampling)

    def _add_model(
        self, name: str, label: str, hint: str, models: list[tuple[str, str]], *, required: bool = True
    ) -> None:
        gone = {"invalid_choice": "This model is not listed at its endpoint any more. Choose another."}
        self.fields[name] = forms.ChoiceField(
            choices=models, label=label, help_text=hint, error_messages=gone, required=required
        )
        listed, chosen = options(models, 80), self[name].value()
        if chosen not in dict(models):
            unlisted = Truncator(plain(chosen or "")).chars(60)
            listed.insert(0, (chosen, f"{unlisted} (not listed any more)"))
        offer(self, name, listed)

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        given = [setting.name for setting in STAGE_SETTINGS if cleaned.get(setting.name) not in (None, "")]
        stages = {name: cleaned[name] for name in given if "." not in name}
        stages["action_range"] = self._range()
        names = str(cleaned.get("teacher_user_tools") or "").split(",")
        stages["teacher_user_tools"] = [name.strip() for name in names if name.strip()]
        changes = {name: cleaned[name] for name in ("seed", "lanes", "at_once") if cleaned.get(name) is not None}
        models = {role: cleaned[f"model_{role}"] for role in ROLES if cleaned.get(f"model_{role}")}
        whole = self.before.model_dump(mode="json") | changes
        for group, _, name in (name.partition(".") for name in given if "." in name):
            stages[group] = stages.get(group, whole["stages"][group]) | {name: cleaned[f"{group}.{name}"]}
        whole |= {"stages": whole["stages"] | stages, "models": models, "cap": cleaned.get("cap")}
        whole["preset"] = cleaned.get("preset") or self.before.preset
        whole["variant"] = cleaned.get("variant") or self.before.variant
        whole["embeddings"] = cleaned.get(EMBEDDINGS.name) or self.before.embeddings
        whole["prompts"] = prompt_trials.chosen(self, self.before.prompts)
        if sampling_fields.has_fields(self.data, ROLES):
            asked = sampling_fields.chosen(cleaned, [role for role in ROLES if models.get(role) != SCRIPTED])
            whole["sampling"] = {role: values.model_dump(mode="json") for role, values in asked.items()}
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
        """Put what `BatchSettings` says where the person typed it."""
        inner = ".".join(place[1:])
        name = place[0] if place[0] != "stages" else inner if inner in self.fields else "".join(place[1:2])
        why = why.removeprefix("Value error, ").replace("Input should be", "It must be")
        self.add_error(name if name in self.fields else None, f"{why[:1].upper()}{why[1:]}.")

    def faults(self) -> list[tuple[str, str, str]]:
        """(field, what it is called, error); of what no field is to blame for, empty texts."""
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
    """Form of a new batch: the settings and what to grow. Ways to choose it add up."""

    bundled = forms.MultipleChoiceField(label="What to grow", required=False)
    use_themes = forms.BooleanField(label="Grow kept themes that fit", required=False)
    themes_text = _text("Name holds", PlainSearch)
    themes_source = _text("Source", forms.Select)
    themes_node = forms.IntegerField(
        label="Label, with all below", min_value=1, max_value=2**63 - 1, required=False, widget=forms.Select
    )
    themes_most = _at_most()
    themes_ids = _picked("theme")
    environments_ids = _picked("environment")
    use_environments = forms.BooleanField(label="Grow more onto environments that fit", required=False)
    environments_text = _text("Name or id", PlainSearch)
    environments_category = _text("Category", forms.Select)
    environments_source = _text("Source", forms.Select)
    environments_most = _at_most()
    tasks_file = forms.FileField(label="File", required=False, allow_empty_file=True, widget=_task_file())
    tasks_kept = forms.CharField(max_length=2_000, required=False)
    tasks_source = _text("Name of the source", PlainInput, placeholder="the file's name")
    tasks_most = _at_most()

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
            offered = choice.named(rows(), self[name].value())
            self.fields[name].choices = offered  # type: ignore[attr-defined]
        typed_first = TypedRow(category=self.initial.get("typed_category", ""))
        self.typed = _typed_rows(data) if data is not None else [typed_first]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        self.chosen.add("bundled themes", choice.bundled(cleaned.get("bundled", [])))
        self._add_picked()
        if cleaned.get("use_themes") and not self._filtered("themes"):
            self._added("use_themes", choice.add_themes(self.chosen, self.filter("themes")), "theme")
        if cleaned.get("use_environments") and not self._filtered("environments"):
            added = choice.add_environments(self.chosen, self.filter("environments"))
            self._added("use_environments", added, "environment")
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

    def _filtered(self, what: str) -> bool:
        return any(name.startswith(f"{what}_") and name not in choice.PICKED for name in self.errors)

    def _add_picked(self) -> None:
        for name, what, specs in (
            ("themes_ids", "chosen themes", of_rows),
            ("environments_ids", "chosen environments", of_environments),
        ):
            try:
                self.chosen.add(what, specs(self.cleaned_data.get(name) or []))
            except InputError as error:
                self.add_error(name, str(error))

    def picked(self, name: str) -> list[tuple[int, str]]:
        """Rows that are chosen one by one: number and name."""
        chosen = {str(value) for value in self[name].value() or []}
        return [(pk, words) for pk, words in self.fields[name].choices if str(pk) in chosen]  # type: ignore[attr-defined]

    def _added(self, name: str, count: int, what: str) -> None:
        if not count:
            self.add_error(name, f"No {what} fits this filter, or each is chosen already. Change it, or untick this.")

    def _add_file(self) -> None:
        cleaned = self.cleaned_data
        file, self.kept_file = cleaned.get("tasks_file"), cleaned.get("tasks_kept", "")
        if file is None and not self.kept_file:
            return
        try:
            task_file = task_files.taken(file) if file is not None else task_files.find(self.user, self.kept_file)
            entries = task_files.tasks_of(task_file)
            source = cleaned.get("tasks_source") or task_file.name
            before = len(self.chosen.left_out)
            added = choice.add_tasks(self.chosen, entries, source, cleaned.get("tasks_most"))
            if not added:
                why = (*self.chosen.left_out[before : before + 1], "it holds no records")[0]
                raise InputError(f"{task_file.name}: no task in it can be used: {why}.")
            if file is not None:
                self.kept_file, self.sent_file = "", task_file
        except InputError as error:
            self.kept_file = ""
            self.add_error("tasks_file", str(error))

    def keep_file(self) -> None:
        """Before the form goes back whole: a browser would not send the file again."""
        if self.sent_file is not None:
            self.kept_file = task_files.keep(self.user, self.sent_file)

    @property
    def file_name(self) -> str:
        try:
            return task_files.find(self.user, self.kept_file).name if self.kept_file else ""
        except InputError:
            return ""

    def _add_typed(self) -> None:
        for row in self.typed:
            if row.said:
                try:
                    self.chosen.add("typed themes", [of_theme(typed(row.name, row.description, row.category))])
                except InputError as error:
                    row.errors.append(str(error))
        if any(row.errors for row in self.typed):
            self.add_error(None, f"A theme in your words: {next(row.errors[0] for row in self.typed if row.errors)}")


def _typed_rows(data: QueryDict) -> list[TypedRow]:
    columns = [data.getlist(f"typed_{name}")[:MOST_TYPED] for name in ("name", "description", "category")]
    longest = max(len(column) for column in columns)
    filled = [[*column, *[""] * (longest - len(column))] for column in columns]
    rows = [TypedRow(*texts) for texts in zip(*filled, strict=True)]
    rows = [row for row in rows if row.said]
    more = not rows or ("more" in data and len(rows) < MOST_TYPED)
    return [*rows, TypedRow()] if more else rows


def _initial(settings: BatchSettings) -> dict[str, Any]:
    """A form's values for these settings, with a model for every role."""
    stages = settings.stages.model_dump(mode="json")
    wanted = stages.pop("action_range")
    stages["teacher_user_tools"] = ", ".join(stages["teacher_user_tools"])
    own = isinstance(wanted, list)
    played = with_defaults(settings)
    return (
        stages
        | {f"{group}.{name}": stages[group][name] for group in ("graph", "programmatic") for name in stages[group]}
        | {"action_range": "own" if own else wanted or "", "cap": settings.cap, "seed": settings.seed}
        | {"lanes": settings.lanes, "at_once": settings.at_once, "preset": settings.preset, "variant": settings.variant}
        | {"actions_from": wanted[0] if own else None, "actions_to": wanted[1] if own else None}
        | {f"model_{role}": played.models[role] for role in ROLES}
        | {EMBEDDINGS.name: played.embeddings}
    )


def _field(setting: SettingLabel) -> forms.Field:
    """The field of a stage's setting, by the type of its default."""
    told: dict[str, Any] = {"label": setting.label, "help_text": setting.hint, "required": False}
    if setting.name in CHOICES:
        return forms.ChoiceField(choices=CHOICES[setting.name], **told)
    if isinstance(setting.default, bool):
        return forms.BooleanField(**told)
    if isinstance(setting.default, tuple):
        return forms.CharField(max_length=20_000, widget=PlainInput(attrs={"placeholder": "name, name, …"}), **told)
    if isinstance(setting.default, float):
        return forms.FloatField(**told)
    return forms.IntegerField(**told)


class LimitsForm(forms.Form):
    """What a batch of an annotator may cost, and how many themes it may have."""

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
