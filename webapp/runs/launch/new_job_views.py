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
from webapp.accounts.access import access
from webapp.datasets.models import Dataset
from webapp.htmx import wants_fragment
from webapp.query_params import Params
from webapp.rest.idempotency import fingerprint, once
from webapp.runs.launch import form_choices, setting_fields
from webapp.runs.launch.forms import HIDDEN, LOOK, NewJobForm, of_job
from webapp.runs.launch.job_lookup import RefusedJob, Remark
from webapp.runs.launch.preflight import Preflight, preflight
from webapp.runs.launch.setting_fields import FormSetting
from webapp.runs.models import TrainingJob
from webapp.runs.openai.api_examples import new_job_call
from webapp.runs.services import create_job
from webapp.runs.setting_labels import BASICS_OF_JOB
from webapp.runs.spec import DEMO_MODEL

MOST_MARKED = 200
FOLDED = ("calls_allowed", "engine", "judge_model", "metadata", "user_model")
"""Rows that are shown at once where something in them is wrong."""


@access("train")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def new(request: HttpRequest) -> HttpResponse:
    """The form: empty, as an address or another job says, or (POST) as it stands, with another preset's values."""
    if request.method == "POST":
        form = NewJobForm(request.POST.dict())
        return _page(request, form, look(form))
    given = _given(request)
    form = NewJobForm(given) if given.get("dataset") else NewJobForm(given=given)
    return _page(request, form, look(form))


@access("train")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def submit(request: HttpRequest) -> HttpResponse:
    """Make the job, once however often the same form is sent; else the form again, with what needs a change."""
    if request.method != "POST":
        return redirect("runs:new")
    form = NewJobForm(request.POST.dict())
    if form.is_valid() and form.moved:
        form.add_error("preset", LOOK)
    asked = form.asked
    if asked is None or form.errors:
        return _page(request, form, look(form), refused=True)
    try:
        made, now = once(
            request.user, f"form-{fingerprint(request)}", lambda: create_job(asked, request.user).public_id
        )
    except RefusedJob as refused:
        form.put(refused.remarks)
    except EnvariumError as error:
        form.put((Remark(param=getattr(error, "param", ""), code="refused", message=str(error)),))
    else:
        message = "The job waits for a worker; this page follows it."
        messages.success(request, message if now else "This form was sent before; here is the job that it made.")
        return redirect("runs:job", made)
    return _page(request, form, FormPreview(form), refused=True)


@access("train")
@require_POST
@never_cache
def beside(request: HttpRequest) -> HttpResponse:
    """What stands beside the form while it is filled in; without htmx the whole page with it."""
    form = NewJobForm(request.POST.dict())
    looked = look(form)
    if not wants_fragment(request):
        return _page(request, form, looked)
    marked = request.POST.get("marked", "").split()[:MOST_MARKED]
    wrong = {name: " ".join(map(str, errors)) for name, errors in form.errors.items()}
    named = [name for name in dict.fromkeys([*wrong, *marked]) if name in form.fields]
    departed = set(request.POST.get("departed", "").split()[:MOST_MARKED])
    groups = _groups(form)
    context = _beside(request, form, looked, groups) | {
        "told": [(name, wrong.get(name, "")) for name in named],
        "heads": groups,
        "rows": [row for group in groups for row in group.rows if row.changed or row.setting.name in departed],
    }
    return render(request, "runs/new/beside.html", context)


@dataclass
class FormPreview:
    """A form and what the services say of it; nothing before there is enough to ask them."""

    form: NewJobForm
    found: Preflight | None = None
    error: str = ""


def look(form: NewJobForm) -> FormPreview:
    """Ask for the preflight of a valid form and put its problems at their fields."""
    if not form.is_valid() or form.asked is None:
        return FormPreview(form)
    try:
        report = preflight(form.asked)
    except EnvariumError as error:
        return FormPreview(form, error=str(error))
    form.put(report.problems)
    return FormPreview(form, report)


def _given(request: HttpRequest) -> dict[str, str]:
    """What an address chooses: a job to begin like, a dataset, a method, a preset, a model."""
    entries: dict[str, str] = {"model": DEMO_MODEL, "method": "supervised"}
    params = Params(request.GET)
    origin = _origin(params.text("from", 60))
    if origin is not None:
        entries = of_job(origin)
    dataset = params.text("dataset", 60)
    if dataset:
        row = Dataset.objects.filter(public_id=dataset).only("kind").first()
        kinds = {form_choices.kind_of(method): method for method in ("supervised", "reinforcement")}
        entries |= {"dataset": dataset} | ({"method": kinds[row.kind]} if row is not None and row.kind in kinds else {})
    for name in ("method", "preset", "model", "after", "name", "evaluation"):
        if value := params.text(name, 300):
            entries[name] = value
    if origin is None and entries["method"] == "evaluation" and not params.text("model", 300):
        entries["model"] = ""  # the tiny model knows nothing before it was taught
    return entries


def _origin(ident: str) -> TrainingJob | None:
    rows = TrainingJob.objects.select_related("dataset", "evaluation", "after")
    return rows.filter(public_id=ident).first() if ident else None


@dataclass(frozen=True)
class SettingRow:
    """A setting on the page. `preset` is what the preset has, as it would be typed; `mark` where that comes from."""

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
        """The values in a line, those of variants that are not chosen left out."""
        kinds = {row.setting.path: row.field.value() for row in self.rows if row.setting.path.endswith(".kind")}
        shown = [row for row in self.rows if not row.setting.variant or _is_chosen(row.setting, kinds)]
        return ", ".join(f"{row.setting.label.lower()} {row.field.value() or 'none'}" for row in shown)


def _is_chosen(setting: FormSetting, kinds: dict[str, Any]) -> bool:
    return kinds.get(f"{setting.path.rpartition('.')[0]}.kind") == setting.variant


def _groups(form: NewJobForm) -> list[SettingGroup]:
    groups = []
    for title, settings in setting_fields.grouped(form.method):
        rows = [_row(form, setting) for setting in settings]
        wrong = form.is_bound and any(setting.name in form.errors for setting in settings)
        groups.append(SettingGroup(title, rows, sum(row.changed for row in rows), wrong))
    return groups


def _row(form: NewJobForm, setting: FormSetting) -> SettingRow:
    typed, text = form.value(setting.name), form.texts[setting.name]
    own = setting.path in form.preset.marks and _in_preset(form, setting)
    return SettingRow(
        setting,
        form[setting.name],
        text,
        form.preset.marks[setting.path] if own else None,
        _differs(setting, typed, text),
    )


def _in_preset(form: NewJobForm, setting: FormSetting) -> bool:
    above = setting.path.rpartition(".")[0]
    return not setting.variant or form.texts[f"{above.replace('.', '__')}__kind"] == setting.variant


def _differs(setting: FormSetting, typed: str, text: str) -> bool:
    try:
        return bool(setting_fields.read(setting, typed) != setting_fields.read(setting, text))
    except ValueError:
        return typed.strip() != text.strip()


def _beside(request: HttpRequest, form: NewJobForm, looked: FormPreview, groups: list[SettingGroup]) -> dict[str, Any]:
    """Differences, the preflight and the same by API."""
    origin = _origin(form.value("origin"))
    config = form.chosen.config if form.chosen else None
    return {
        "form": form,
        "preset": form.preset,
        "found": looked.found,
        "stopped": looked.error,
        "faults": form.faults() if form.is_bound else [],
        "wrong": " ".join(name for name in form.errors if name in form.fields) if form.is_bound else "",
        "departed": " ".join(row.setting.name for group in groups for row in group.rows if row.changed),
        "differences": _from_preset(form) if config else None if form.is_bound else [],
        "origin": origin,
        "from_origin": _from_origin(form, origin) if origin is not None and config else None,
        "copy_as": new_job_call(request, form.asked) if form.asked else None,
    }


@dataclass(frozen=True)
class FormChange:
    """A value that differs from the preset's: its field, and what both have, in words. `note`: where the preset's is
    from."""

    name: str
    label: str
    path: str
    before: str
    after: str
    note: str


def _from_preset(form: NewJobForm) -> list[FormChange]:
    """Values that differ, without those that only the preset's variant has."""
    assert form.chosen is not None
    shown = {setting.path: setting for setting in setting_fields.settings_of(form.method) if _applies(form, setting)}
    return [
        FormChange(
            name=shown[difference.path].name,
            label=shown[difference.path].label,
            path=difference.path,
            before=setting_fields.told(difference.preset),
            after=setting_fields.told(difference.chosen),
            note=f"{difference.mark.kind}: {difference.mark.note}" if difference.path in form.preset.marks else "",
        )
        for difference in presets.differences(form.preset, form.chosen.config)
        if difference.path in shown
    ]


def _from_origin(form: NewJobForm, origin: TrainingJob) -> list[tuple[str, str, str]]:
    """(what, that job's, this form's) wherever they differ."""
    before = of_job(origin)
    differences = [
        (BASICS_OF_JOB[name], before.get(name, ""), form.value(name))
        for name in BASICS_OF_JOB
        if before.get(name, "").strip() != form.value(name).strip()
    ]
    for setting in setting_fields.settings_of(form.method):
        was, now = before.get(setting.name, ""), form.value(setting.name)
        if _applies(form, setting) and _differs(setting, now, was):
            differences.append((setting.label, was, now))
    return differences


def _applies(form: NewJobForm, setting: FormSetting) -> bool:
    above = setting.path.rpartition(".")[0]
    return not setting.variant or form.value(f"{above.replace('.', '__')}__kind") == setting.variant


def _page(request: HttpRequest, form: NewJobForm, looked: FormPreview, *, refused: bool = False) -> HttpResponse:
    form.offer_choices()
    groups = _groups(form)
    context = _beside(request, form, looked, groups) | {
        "hidden": [form[name] for name in HIDDEN],
        "groups": groups,
        "models": form_choices.models(form.method),
        "heading": "What is evaluated on what" if form.method == "evaluation" else "What learns from what",
        "learns_from": form_choices.kind_of(form.method),
        "is_more_open": any(form.value(name) for name in ("after", "user_model", "judge_model", "metadata"))
        or (form.is_bound and any(name in form.errors for name in FOLDED)),
        "refused": refused,
    }
    return render(request, "runs/new.html", context, status=422 if refused else 200)
