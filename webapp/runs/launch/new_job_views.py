"""Views of a new training job: the form, its preflight while it is filled in, its submission."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from synthesis.errors import EnvariumError
from training import presets
from webapp.accounts.access import require_scope
from webapp.common.htmx import wants_fragment
from webapp.common.query_params import Params
from webapp.common.rest.idempotency import compute_fingerprint, run_form_once
from webapp.datasets.models import Dataset
from webapp.runs import setting_fields
from webapp.runs.launch import form_choices
from webapp.runs.launch.forms import HIDDEN, LOOK, NewJobForm, build_entries_from_job
from webapp.runs.models import TrainingJob
from webapp.runs.openai.api_examples import build_new_job_call
from webapp.runs.preflight.job_checks import Preflight, run_preflight
from webapp.runs.preflight.remarks import RefusedJob, Remark
from webapp.runs.services import create_job
from webapp.runs.setting_fields import FormSetting
from webapp.runs.setting_labels import BASICS_OF_JOB
from webapp.runs.spec import DEMO_MODEL

MOST_MARKED = 200
FOLDED = ("calls_allowed", "engine", "judge_model", "metadata", "user_model")
"""Rows that are shown at once where something in them is wrong."""


@require_scope("train")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def show_new_job_form(request: HttpRequest) -> HttpResponse:
    """Show the form: empty, as an address or another job says, or (POST) as it was filled in, with another preset's
    values."""
    if request.method == "POST":
        form = NewJobForm(request.POST.dict())
        return _render_page(request, form, build_preview(form))
    initial_values = _read_initial_values(request)
    form = NewJobForm(initial_values) if initial_values.get("dataset") else NewJobForm(given=initial_values)
    return _render_page(request, form, build_preview(form))


@require_scope("train")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def submit_job(request: HttpRequest) -> HttpResponse:
    """Create the job, once however often the same form is sent; else show the form again with its errors."""
    if request.method != "POST":
        return redirect("runs:new")
    form = NewJobForm(request.POST.dict())
    if form.is_valid() and form.moved:
        form.add_error("preset", LOOK)
    new_job = form.asked
    if new_job is None or form.errors:
        return _render_page(request, form, build_preview(form), refused=True)
    try:
        public_id, is_new = run_form_once(
            request.user, f"form-{compute_fingerprint(request)}", lambda: create_job(new_job, request.user).public_id
        )
    except RefusedJob as refused:
        form.put(refused.remarks)
    except EnvariumError as error:
        form.put((Remark(param=getattr(error, "param", ""), code="refused", message=str(error)),))
    else:
        message = "The job waits for a worker; this page follows it."
        messages.success(request, message if is_new else "This form was sent before; here is the job that it made.")
        return redirect("runs:job", public_id)
    return _render_page(request, form, FormPreview(form), refused=True)


@require_scope("train")
@require_POST
@never_cache
def show_preview(request: HttpRequest) -> HttpResponse:
    """Show what is beside the form while it is filled in; without htmx the whole page with it."""
    form = NewJobForm(request.POST.dict())
    looked = build_preview(form)
    if not wants_fragment(request):
        return _render_page(request, form, looked)
    marked = request.POST.get("marked", "").split()[:MOST_MARKED]
    wrong = {name: " ".join(map(str, errors)) for name, errors in form.errors.items()}
    marked_fields = [name for name in dict.fromkeys([*wrong, *marked]) if name in form.fields]
    departed = set(request.POST.get("departed", "").split()[:MOST_MARKED])
    groups = _build_groups(form)
    context = _build_preview_context(request, form, looked, groups) | {
        "told": [(name, wrong.get(name, "")) for name in marked_fields],
        "heads": groups,
        "rows": [row for group in groups for row in group.rows if row.changed or row.setting.name in departed],
    }
    return render(request, "runs/new/beside.html", context)


@dataclass
class FormPreview:
    """Form with the preflight and errors of the services; without them while the form is incomplete."""

    form: NewJobForm
    found: Preflight | None = None
    error: str = ""


def build_preview(form: NewJobForm) -> FormPreview:
    """Run the preflight of a valid form and put its problems at their fields."""
    if not form.is_valid() or form.asked is None:
        return FormPreview(form)
    try:
        report = run_preflight(form.asked)
    except EnvariumError as error:
        return FormPreview(form, error=str(error))
    form.put(report.problems)
    return FormPreview(form, report)


def _read_initial_values(request: HttpRequest) -> dict[str, str]:
    """Return the choices of an address: a job to begin like, a dataset, a method, a preset, a model."""
    entries: dict[str, str] = {"model": DEMO_MODEL, "method": "supervised"}
    params = Params(request.GET)
    origin = _find_origin(params.text("from", 60))
    if origin is not None:
        entries = build_entries_from_job(origin)
    dataset = params.text("dataset", 60)
    if dataset:
        row = Dataset.objects.filter(public_id=dataset).only("kind").first()
        kinds = {form_choices.get_dataset_kind(method): method for method in ("supervised", "reinforcement")}
        entries |= {"dataset": dataset} | ({"method": kinds[row.kind]} if row is not None and row.kind in kinds else {})
    for name in ("method", "preset", "model", "after", "name", "evaluation"):
        if value := params.text(name, 300):
            entries[name] = value
    if origin is None and entries["method"] == "evaluation" and not params.text("model", 300):
        entries["model"] = ""  # the tiny model knows nothing before it was taught
    return entries


def _find_origin(ident: str) -> TrainingJob | None:
    rows = TrainingJob.objects.select_related("dataset", "evaluation", "after")
    return rows.filter(public_id=ident).first() if ident else None


@dataclass(frozen=True)
class SettingRow:
    """Setting on the page. `preset` is the preset's value, as it would be typed; `mark` its source."""

    setting: FormSetting
    field: Any
    preset: str
    mark: presets.Mark | None
    changed: bool

    @property
    def classes(self) -> str:
        return f"of-{self.setting.variant}" if self.setting.variant else ""


@dataclass(frozen=True)
class SettingGroup:
    title: str
    rows: list[SettingRow]
    changed: int
    wrong: bool

    @property
    def summary(self) -> str:
        """Values in a line, without those of variants that are not chosen."""
        kinds = {row.setting.path: row.field.value() for row in self.rows if row.setting.path.endswith(".kind")}
        shown = [row for row in self.rows if not row.setting.variant or _is_chosen(row.setting, kinds)]
        return ", ".join(f"{row.setting.label.lower()} {row.field.value() or 'none'}" for row in shown)


def _is_chosen(setting: FormSetting, kinds: dict[str, Any]) -> bool:
    return kinds.get(f"{setting.path.rpartition('.')[0]}.kind") == setting.variant


def _build_groups(form: NewJobForm) -> list[SettingGroup]:
    groups = []
    for title, settings in setting_fields.group_settings(form.method):
        rows = [_build_row(form, setting) for setting in settings]
        wrong = form.is_bound and any(setting.name in form.errors for setting in settings)
        groups.append(SettingGroup(title, rows, sum(row.changed for row in rows), wrong))
    return groups


def _build_row(form: NewJobForm, setting: FormSetting) -> SettingRow:
    typed, text = form.value(setting.name), form.texts[setting.name]
    own = setting.path in form.preset.marks and _is_in_preset(form, setting)
    return SettingRow(
        setting,
        form[setting.name],
        text,
        form.preset.marks[setting.path] if own else None,
        _has_changed(setting, typed, text),
    )


def _is_in_preset(form: NewJobForm, setting: FormSetting) -> bool:
    above = setting.path.rpartition(".")[0]
    return not setting.variant or form.texts[f"{above.replace('.', '__')}__kind"] == setting.variant


def _has_changed(setting: FormSetting, typed: str, text: str) -> bool:
    try:
        return bool(setting_fields.parse_field_text(setting, typed) != setting_fields.parse_field_text(setting, text))
    except ValueError:
        return typed.strip() != text.strip()


def _build_preview_context(
    request: HttpRequest, form: NewJobForm, looked: FormPreview, groups: list[SettingGroup]
) -> dict[str, Any]:
    """Build the context of the differences, the preflight and the same by API."""
    origin = _find_origin(form.value("origin"))
    config = form.chosen.config if form.chosen else None
    return {
        "form": form,
        "preset": form.preset,
        "found": looked.found,
        "stopped": looked.error,
        "faults": form.faults() if form.is_bound else [],
        "wrong": " ".join(name for name in form.errors if name in form.fields) if form.is_bound else "",
        "departed": " ".join(row.setting.name for group in groups for row in group.rows if row.changed),
        "differences": _list_preset_changes(form) if config else None if form.is_bound else [],
        "origin": origin,
        "from_origin": _list_origin_changes(form, origin) if origin is not None and config else None,
        "copy_as": build_new_job_call(request, form.asked) if form.asked else None,
    }


@dataclass(frozen=True)
class FormChange:
    """Value that differs from the preset's: its field, and both values, in words. `note`: the source of the preset's
    value."""

    name: str
    label: str
    path: str
    before: str
    after: str
    note: str


def _list_preset_changes(form: NewJobForm) -> list[FormChange]:
    """Return values that differ, without those that only the preset's variant has."""
    assert form.chosen is not None
    shown = {
        setting.path: setting for setting in setting_fields.list_settings(form.method) if _is_applicable(form, setting)
    }
    return [
        FormChange(
            name=shown[difference.path].name,
            label=shown[difference.path].label,
            path=difference.path,
            before=setting_fields.format_value(difference.preset),
            after=setting_fields.format_value(difference.chosen),
            note=f"{difference.mark.kind}: {difference.mark.note}" if difference.path in form.preset.marks else "",
        )
        for difference in presets.list_differences(form.preset, form.chosen.config)
        if difference.path in shown
    ]


def _list_origin_changes(form: NewJobForm, origin: TrainingJob) -> list[tuple[str, str, str]]:
    """Return (what, that job's, this form's) wherever they differ."""
    before = build_entries_from_job(origin)
    differences = [
        (BASICS_OF_JOB[name], before.get(name, ""), form.value(name))
        for name in BASICS_OF_JOB
        if before.get(name, "").strip() != form.value(name).strip()
    ]
    for setting in setting_fields.list_settings(form.method):
        was, now = before.get(setting.name, ""), form.value(setting.name)
        if _is_applicable(form, setting) and _has_changed(setting, now, was):
            differences.append((setting.label, was, now))
    return differences


def _is_applicable(form: NewJobForm, setting: FormSetting) -> bool:
    above = setting.path.rpartition(".")[0]
    return not setting.variant or form.value(f"{above.replace('.', '__')}__kind") == setting.variant


def _render_page(request: HttpRequest, form: NewJobForm, looked: FormPreview, *, refused: bool = False) -> HttpResponse:
    form.offer_choices()
    groups = _build_groups(form)
    context = _build_preview_context(request, form, looked, groups) | {
        "hidden": [form[name] for name in HIDDEN],
        "groups": groups,
        "models": form_choices.offer_models(form.method),
        "heading": "What is evaluated on what" if form.method == "evaluation" else "What learns from what",
        "learns_from": form_choices.get_dataset_kind(form.method),
        "is_more_open": any(form.value(name) for name in ("after", "user_model", "judge_model", "metadata"))
        or (form.is_bound and any(name in form.errors for name in FOLDED)),
        "refused": refused,
    }
    return render(request, "runs/new.html", context, status=422 if refused else 200)
