"""Views before a batch runs: a new one, its dry run, annotators' limits, and the parts shared with the form of a
clone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.contrib import messages
from django.forms import BoundField
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import EnvariumError, InputError
from synthesis.pipeline import PIPELINES
from webapp.accounts.access import CAPPED_ROLES, allow_file_bytes, require_scope
from webapp.batches import services
from webapp.batches.beside_human_work import count_met_human_work
from webapp.batches.engine.cast import fill_in_defaults, has_scripted_role
from webapp.batches.engine.theme_source import build_environment_specs, build_theme_specs
from webapp.batches.launch import choice, prompt_trials, task_files
from webapp.batches.launch.choice import ChosenItems
from webapp.batches.launch.estimate import build_estimate
from webapp.batches.launch.forms import FILTERED, LaunchForm, LimitsForm, SettingsForm, TypedRow
from webapp.batches.launch.preset_choice import (
    describe_presets,
    fill_in_preset,
    is_redrawn,
    mark_setting,
)
from webapp.batches.launch.readiness import Readiness, check_readiness
from webapp.batches.launch.setting_views import compare_with_preset
from webapp.batches.launch.shown_figures import list_shown_figures
from webapp.batches.models import Batch
from webapp.batches.presets import TITLES, apply_preset, parse_preset
from webapp.batches.replaced_work import forecast_replaced_work
from webapp.batches.setting_labels import COUNTS, EMBEDDINGS, GROUPS, RUNNING, SettingLabel
from webapp.batches.spec import LOCAL, MOST_THEMES, ROLES, SCRIPTED, BatchSettings
from webapp.common.forms.rows import build_options, offer_options
from webapp.common.htmx import wants_fragment
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import build_api_call
from webapp.common.rest.idempotency import compute_fingerprint, run_form_once
from webapp.common.templatetags.show import number
from webapp.endpoints import sampling_fields
from webapp.endpoints.queries import list_model_choices
from webapp.environments.models import Environment
from webapp.environments.queries import list_categories, list_distinct_values
from webapp.taxonomy.models import Node, ThemeSource
from webapp.taxonomy.queries import list_siblings

LISTED = 300
LEFT_OUT_SHOWN = 3
LEVEL_WORDS = {"theme": ("environment", "environments"), "trajectory": ("trajectory", "trajectories")}
GIVEN = ("text", "source", "category", "node", "most")


@allow_file_bytes(task_files.MOST_BYTES)
@require_scope("synthesise")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def show_launch_form(request: HttpRequest) -> HttpResponse:
    form = _build_launch_form(request)
    if form.is_bound and not is_redrawn(request) and form.is_valid():
        specs = list(form.chosen.specs.values())

        def create_batch(start: bool) -> Batch:
            return services.create_batch(
                request.user, form.cleaned_data["name"], specs, form.settings, form.settings.pipeline, start=start
            )

        if (answer := launch_batch(request, form, form.chosen, create_batch)) is not None:
            return answer
    return _render_launch_page(request, form)


@allow_file_bytes(task_files.MOST_BYTES)
@require_scope("synthesise")
@require_POST
@never_cache
def estimate_new_batch(request: HttpRequest) -> HttpResponse:
    """Show the dry run of a form: its panel with htmx, else the whole page with it."""
    form = _build_launch_form(request)
    dry_run = describe_dry_run(request, form, form.chosen)
    return render_dry_run(request, dry_run) if wants_fragment(request) else _render_launch_page(request, form, dry_run)


@allow_file_bytes(task_files.MOST_BYTES)
@require_scope("synthesise")
@require_POST
@never_cache
def check_new_readiness(request: HttpRequest) -> HttpResponse:
    """Show whether a batch could start from the current form, as a part of its page."""
    form = _build_launch_form(request)
    return render_readiness(request, form, form.chosen)


@require_scope("synthesise")
@require_safe
@never_cache
def show_matching_rows(request: HttpRequest) -> HttpResponse:
    """Show how many themes or environments a filter finds while it is typed."""
    what = Params(request.GET).choice("what", ("themes", "environments"), "themes")
    form = LaunchForm(request.user, before=BatchSettings(), initial=_read_given_filters(request))
    return render(
        request, "batches/launch/matching.html", {"what": what.removesuffix("s"), "found": _count_matching(form, what)}
    )


@require_scope("synthesise")
@require_safe
def render_typed_row(request: HttpRequest) -> HttpResponse:
    """Return the fields of another theme."""
    return render(request, "batches/launch/typed_theme.html", {"row": TypedRow()})


@require_scope("worker")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def edit_launch_limits(request: HttpRequest) -> HttpResponse:
    """Show or change the limits on batches of annotators; operators set them."""
    row = services.get_launch_limit()
    current_limits = {"annotator_cap": row.annotator_cap, "annotator_themes": row.annotator_themes}
    form = LimitsForm(request.POST if request.method == "POST" else None, initial=current_limits)
    if form.is_bound and form.is_valid():
        cleaned = form.cleaned_data
        services.set_launch_limit(request.user, cleaned["annotator_cap"], cleaned["annotator_themes"])
        messages.success(request, "These limits hold for what annotators and adjudicators launch from now on.")
        return redirect("batches:limits")
    context = {"form": form, "copy_as": build_api_call(request, "PUT", "api:set_batch_limits", body=current_limits)}
    return render(request, "batches/limits.html", context, status=422 if form.is_bound else 200)


def _build_launch_form(request: HttpRequest) -> LaunchForm:
    """Return the form, filled in from the request or with initial values.

    The query string may choose: `?use_themes=1&themes_text=…`, rows by number (`?themes_ids=5`, or ticked ones in a
    list: `?grow=themes&ids=5&ids=7`), the category of a theme to be typed (`?typed_category=`), a preset
    (`?preset=as-published`), a variant (`?variant=autoforge`), and `assess=1`: environments are assessed again and
    nothing is made below.
    """
    before = BatchSettings(cap=_find_launch_limit(request).annotator_cap if _find_launch_limit(request) else None)
    if request.method == "POST":
        return LaunchForm(request.user, fill_in_preset(request.POST), request.FILES, before=before)
    params = Params(request.GET)
    preset = parse_preset(params.choice("preset", TITLES))
    before = BatchSettings.model_validate(apply_preset(before.model_dump(mode="json"), preset))
    used = {name: True for name in ("use_themes", "use_environments") if params.text(name)}
    picked = _read_picked_rows(params)
    unticked: dict[str, Any] = {"bundled": []} if used or picked else {}
    assess = {"reassess": True, "scenarios": 0} if params.flag("assess") else {}
    typed = {"typed_category": params.text("typed_category"), "bundled": []} if "typed_category" in request.GET else {}
    variant = {"variant": name} if (name := params.choice("variant", PIPELINES)) else {}
    before = before.model_copy(update=variant)
    initial = _read_given_filters(request) | variant | used | picked | unticked | assess | typed
    return LaunchForm(request.user, before=before, initial=initial)


def _read_picked_rows(params: Params) -> dict[str, list[int]]:
    """Return the rows that a query string names one by one, by field."""
    grown = params.choice("grow", ("themes", "environments"))
    named = {name: list(params.picks(name)) for name in choice.PICKED}
    if grown:
        named[f"{grown}_ids"] += list(params.picks("ids"))
    return {name: keys for name, keys in named.items() if keys}


def _read_given_filters(request: HttpRequest) -> dict[str, str]:
    """Return the filters that a query string names."""
    names = [f"{what}_{name}" for what in ("themes", "environments") for name in GIVEN]
    params = Params(request.GET)
    return {name: value for name in names if (value := params.text(name))}


def _find_launch_limit(request: HttpRequest) -> Any:
    """Return the limits that hold for this person; None if none do."""
    return services.get_launch_limit() if getattr(request.user, "role", "") in CAPPED_ROLES else None


def launch_batch(
    request: HttpRequest, form: SettingsForm, chosen: ChosenItems, make: Callable[[bool], Batch]
) -> HttpResponse | None:
    """Create the batch and redirect to its page, once however often the same form is sent; None if it may not be
    launched."""
    start = request.POST.get("act") != "draft"
    try:
        batch_pk, now = run_form_once(request.user, f"form-{compute_fingerprint(request)}", lambda: str(make(start).pk))
    except InputError as error:
        form.add_error(None, str(error))
        return None
    if not now:
        messages.info(request, "This form was sent before; here is the batch that it made.")
    elif start:
        messages.success(request, "The batch runs in the background; this page follows it.")
    else:
        messages.success(request, "Kept as a draft: nothing is asked until it is started.")
    if now and chosen.left_out:
        messages.warning(request, f"Left out: {_join_first_notes(chosen.left_out)}")
    return redirect("batches:batch", int(batch_pk))


def _join_first_notes(notes: list[str]) -> str:
    more = len(notes) - LEFT_OUT_SHOWN
    return "; ".join(notes[:LEFT_OUT_SHOWN]) + (f"; and {more:,} more." if more > 0 else ".")


def describe_dry_run(request: HttpRequest, form: SettingsForm, chosen: ChosenItems) -> dict[str, Any]:
    """Return what the panel shows: an estimate, or the reasons why there is none."""
    if not form.is_valid():
        return {"faults": form.faults()}
    specs = list(chosen.specs.values())
    try:
        settings = services.check_settings(request.user, form.settings, len(specs))
        estimated = build_estimate(specs, settings, settings.pipeline)
    except EnvariumError as error:
        return {"faults": [("", "", str(error))]}
    return {
        "estimate": estimated,
        **describe_met_work(chosen, settings),
        "made": [(count, _name_level(level, count)) for level, count in estimated.items.items()],
        "from": ", ".join(f"{number(count)} of the {what}" for what, count in chosen.parts),
        "left_out": _join_first_notes(chosen.left_out) if chosen.left_out else "",
        "unpriced": estimated.unpriced,
        "readiness": check_readiness(specs, settings),
        "all_scripted": all(line.model == SCRIPTED for line in estimated.lines),
        "cap": settings.cap,
        "figures": list_shown_figures(estimated),
        "over_cap": settings.cap is not None and estimated.cost is not None and estimated.cost.high > settings.cap,
    }


def _name_level(level: str, count: int) -> str:
    singular, plural = LEVEL_WORDS.get(level, (level, f"{level}s"))
    return singular if count == 1 else plural


def render_dry_run(request: HttpRequest, dry_run: dict[str, Any]) -> HttpResponse:
    return render(request, "batches/launch/dry_run.html", {"dry_run": dry_run})


def check_form_readiness(form: SettingsForm, chosen: ChosenItems) -> Readiness | None:
    """Return whether the items that a form chooses can run; None if the form has faults or chooses nothing."""
    if form.is_bound and not form.is_valid():
        return None
    settings = fill_in_defaults(form.settings)
    if not chosen.specs and has_scripted_role(settings):
        return None
    return check_readiness(chosen.specs.values(), settings)


def render_readiness(request: HttpRequest, form: SettingsForm, chosen: ChosenItems) -> HttpResponse:
    """Return the parts of a page that show whether its batch can run."""
    readiness = check_form_readiness(form, chosen)
    context = {"readiness": readiness, "models": list_model_choices(), "anew": True}
    context |= describe_met_work(chosen, form.settings) if readiness is not None else {}
    return render(request, "batches/launch/readiness_parts.html", context)


def describe_met_work(chosen: ChosenItems, settings: BatchSettings) -> dict[str, Any]:
    """Return the existing work at the places of the products of these items: human work, and work that is replaced."""
    specs = chosen.specs.values()
    return {
        "human_work": count_met_human_work(specs),
        "replaced": forecast_replaced_work(specs, settings, chosen.cloned),
    }


def build_form_context(request: HttpRequest, form: SettingsForm) -> dict[str, Any]:
    """Return the context of both forms: preset, settings by group, roles, limits."""
    preset = parse_preset(form["preset"].value())

    def bind_fields(settings: tuple[SettingLabel, ...]) -> list[tuple[SettingLabel, Any]]:
        return [(mark_setting(setting, preset), form[setting.name]) for setting in settings]

    models = [(role, form[f"model_{role}"]) for role in ROLES]
    scripted_roles = [role for role, field in models if field.value() == SCRIPTED]
    return {
        **describe_presets(preset),
        **compare_with_preset(form),
        "form": form,
        "counts": bind_fields(COUNTS),
        "groups": [(title, bind_fields(group), form.has_faults(group)) for title, group in GROUPS],
        "running": [form[name] for name, _, _ in RUNNING],
        "sampling": sampling_fields.build_sampling_rows(form, ROLES),
        "prompt_opened": bool(form[prompt_trials.NAME].value()) or bool(form.before.prompts),
        "sampling_wrong": form.sampling_wrong,
        "running_wrong": form.is_bound and any(name in form.errors for name, _, _ in RUNNING),
        "roles": models,
        "embeddings": (EMBEDDINGS, form[EMBEDDINGS.name]),
        "models": list_model_choices(),
        "scripted": scripted_roles,
        "all_played": len(scripted_roles) == len(models) and form[EMBEDDINGS.name].value() in (None, "", LOCAL),
        "limit": _find_launch_limit(request),
        "refused": request.method == "POST" and not is_redrawn(request) and bool(form.errors),
    }


def _render_launch_page(request: HttpRequest, form: LaunchForm, dry_run: dict[str, Any] | None = None) -> HttpResponse:
    form.keep_file()
    _offer_filters(form)
    themes, environments = (_count_matching(form, what) for what in ("themes", "environments"))
    body = {"bundled": [draft.key for draft in form.drafts], "settings": {"stages": {"scenarios": 2, "tasks": 2}}}
    shared = build_form_context(request, form)
    picked = {name: form.picked(name) for name in choice.PICKED}
    about = choice.describe_themes([pk for pk, _ in picked["themes_ids"]])
    described = {
        name: [(pk, words, about.get(pk, "") if name == "themes_ids" else "") for pk, words in rows]
        for name, rows in picked.items()
    }
    chosen = _choose_items(form)
    context = shared | {
        "readiness": check_form_readiness(form, chosen),
        **describe_met_work(chosen, form.settings),
        "drafts": [(draft, draft.key in (form["bundled"].value() or [])) for draft in form.drafts],
        "picked": described,
        "themes_found": themes,
        "environments_found": environments,
        "opened": {
            "themes": _is_filter_used(form["use_themes"], form["themes_ids"]) or themes is None,
            "environments": _is_filter_used(form["use_environments"], form["environments_ids"]) or environments is None,
            "tasks": form.file_name or form["tasks_file"].errors,
            "typed": form.typed[0].said,
        },
        "copy_as": build_api_call(request, "POST", "api:create_batch", body=body),
        "dry_run": dry_run,
    }
    return render(request, "batches/new.html", context, status=422 if context["refused"] else 200)


def _choose_items(form: LaunchForm) -> ChosenItems:
    """Return the items that a form chooses, also before anything is sent."""
    if form.is_bound:
        form.is_valid()
        return form.chosen
    chosen = ChosenItems()
    chosen.add("bundled themes", choice.build_bundled_specs(form["bundled"].value() or []))
    with suppress(InputError):  # sending the form says what is wrong with a row
        chosen.add("chosen themes", build_theme_specs([pk for pk, _ in form.picked("themes_ids")]))
    with suppress(InputError):
        chosen.add("chosen environments", build_environment_specs([pk for pk, _ in form.picked("environments_ids")]))
    for what, add in (("themes", choice.add_themes), ("environments", choice.add_environments)):
        row_filter = _read_filter(form, what)
        if form[f"use_{what}"].value() and row_filter is not None:
            add(chosen, row_filter)
    return chosen


def _is_filter_used(*fields: BoundField) -> bool:
    return any(field.value() or field.errors for field in fields)


def _offer_filters(form: LaunchForm) -> None:
    """Fill the selects of both filters."""
    sources = ThemeSource.objects.order_by("name").values_list("name", flat=True)[:LISTED]
    labels = [(node.pk, node.name) for node in _list_label_choices(form["themes_node"].value())]
    listed: dict[str, list[tuple[Any, Any]]] = {
        "themes_source": [(name, name) for name in sources],
        "themes_node": labels,
        "environments_source": [(name, name) for name in list_distinct_values(Environment._meta.db_table, "source")],
        "environments_category": [(name, name) for name in list_categories()],
    }
    for name, rows in listed.items():
        offer_options(form, name, build_options(rows, 50, first="any"))


def _list_label_choices(wanted: Any) -> list[Node]:
    """Return labels of the first level to choose from, with the chosen one."""
    rows = list(list_siblings(None)[:LISTED])
    number = _parse_whole_number(wanted)
    if number and number not in {row.pk for row in rows}:
        rows += list(Node.objects.filter(pk=number))
    return rows


def _count_matching(form: LaunchForm, what: str) -> choice.Matching | None:
    """Return the matching rows of a filter; None if the filter is invalid."""
    row_filter = _read_filter(form, what)
    like = choice.filter_themes if what == "themes" else choice.filter_environments
    return choice.count_matching_rows(like(row_filter), row_filter.most) if row_filter is not None else None


def _read_filter(form: LaunchForm, what: str) -> choice.RowFilter | None:
    """Return the filter of a form, initial or sent; None if it has faults."""
    if form.is_bound and any(name.startswith(f"{what}_") and name not in choice.PICKED for name in form.errors):
        return None
    values = {name: form[f"{what}_{name}"].value() or "" for name in GIVEN if f"{what}_{name}" in form.fields}
    most, node = _parse_whole_number(values.pop("most")), _parse_whole_number(values.pop("node", None))
    return choice.RowFilter(**values, node=node or None, most=min(most or FILTERED, MOST_THEMES))


def _parse_whole_number(text: Any) -> int:
    """Return a whole number as typed or initial; 0 for anything else."""
    text = str(text or "").strip()
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
