"""Views of a clone: all or some items of a batch again, with other settings."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from synthesis.stages import ItemSpec
from webapp.accounts.access import require_scope
from webapp.batches import queries, services
from webapp.batches.launch import choice
from webapp.batches.launch.choice import ChosenItems
from webapp.batches.launch.forms import SettingsForm
from webapp.batches.launch.launch_views import (
    build_form_context,
    check_form_readiness,
    describe_dry_run,
    describe_met_work,
    launch_batch,
    render_dry_run,
    render_readiness,
)
from webapp.batches.launch.preset_choice import fill_in_preset, is_redrawn
from webapp.batches.launch.readiness import name_item
from webapp.batches.models import Batch
from webapp.batches.setting_labels import list_setting_changes
from webapp.batches.spec import BatchSettings
from webapp.common.htmx import wants_fragment
from webapp.common.rest.api_examples import build_api_call

LISTED_ITEMS = 500
"""Items with a tick each. Others have one tick together: a form may send 1,000 values."""


class CloneForm(SettingsForm):
    """Form of a clone: the settings, and which items of the batch are taken."""

    items = forms.TypedMultipleChoiceField(
        label="Items",
        coerce=int,
        required=False,
        error_messages={"invalid_choice": "Item %(value)s does not belong to this batch. Reload the page."},
    )
    rest = forms.BooleanField(required=False)

    def __init__(self, data: Any = None, *, origin: Batch, **named: Any) -> None:
        rows = origin.items.filter(level="theme").order_by("position", "id")
        self.numbers = list(rows.values_list("pk", flat=True))
        self.listed = list(rows.values_list("pk", "spec", "state", named=True)[:LISTED_ITEMS])
        ticked = {"items": [row.pk for row in self.listed], "rest": True}
        named["initial"] = ticked | named.get("initial", {})
        super().__init__(data, **named)
        self.fields["items"].choices = [(row.pk, row.pk) for row in self.listed]  # type: ignore[attr-defined]

    @property
    def unlisted(self) -> int:
        return len(self.numbers) - len(self.listed)

    @property
    def chosen_items(self) -> list[int]:
        """Numbers of the items that are taken, in the order of the batch."""
        ticked = {str(pk) for pk in self["items"].value() or []}
        rest = self.numbers[LISTED_ITEMS:] if self["rest"].value() else []
        return [row.pk for row in self.listed if str(row.pk) in ticked] + rest

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if not self.chosen_items and "items" not in self.errors:
            self.add_error("items", "Choose at least one item.")
        return cleaned

    def rows(self) -> list[dict[str, Any]]:
        """Return the listed items as the page shows them."""
        ticked = set(self.chosen_items)
        return [
            {"pk": row.pk, "name": _name_listed_item(row.spec), "state": row.state, "is_ticked": row.pk in ticked}
            for row in self.listed
        ]


def _name_listed_item(spec: dict[str, Any]) -> str:
    return name_item(ItemSpec.model_validate(spec))


@require_scope("synthesise")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def show_clone_form(request: HttpRequest, pk: int) -> HttpResponse:
    """Show or send the form of a clone: the same items with other settings."""
    origin, form = _build_clone_form(request, pk)
    if form.is_bound and not is_redrawn(request) and form.is_valid():

        def create_clone(start: bool) -> Batch:
            chosen: dict[str, Any] = {"name": form.cleaned_data["name"], "items": form.chosen_items, "start": start}
            return services.clone_batch(request.user, pk, form.settings, form.settings.pipeline, **chosen)

        if (answer := launch_batch(request, form, ChosenItems(), create_clone)) is not None:
            return answer
    return _render_clone_page(request, origin, form)


@require_scope("synthesise")
@require_POST
@never_cache
def estimate_clone(request: HttpRequest, pk: int) -> HttpResponse:
    origin, form = _build_clone_form(request, pk)
    dry_run = describe_dry_run(request, form, choice.copy_batch_items(origin, form.chosen_items))
    return (
        render_dry_run(request, dry_run)
        if wants_fragment(request)
        else _render_clone_page(request, origin, form, dry_run)
    )


@require_scope("synthesise")
@require_POST
@never_cache
def check_clone_readiness(request: HttpRequest, pk: int) -> HttpResponse:
    """Show whether the clone could start from the current form, as a part of its page."""
    origin, form = _build_clone_form(request, pk)
    return render_readiness(request, form, choice.copy_batch_items(origin, form.chosen_items))


@require_scope("synthesise")
@require_POST
@never_cache
def compare_clone_settings(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the differences between the form and the cloned batch while the form is filled in."""
    origin, form = _build_clone_form(request, pk)
    return render(request, "batches/launch/differences.html", _compare_clone_form(origin, form) | {"origin": origin})


def _build_clone_form(request: HttpRequest, pk: int) -> tuple[Batch, CloneForm]:
    origin = get_object_or_404(queries.select_batches(), pk=pk)
    before = BatchSettings.model_validate(origin.settings)
    data = fill_in_preset(request.POST) if request.method == "POST" else None
    return origin, CloneForm(data, origin=origin, before=before, initial={"name": f"{origin.name} (again)"[:200]})


def _compare_clone_form(origin: Batch, form: CloneForm) -> dict[str, Any]:
    """Return the differences of a form from the batch that it clones, or that the form has faults."""
    if form.is_bound and not form.is_valid():
        return {"unclear": True}
    before = BatchSettings.model_validate(origin.settings)
    return {
        "differences": list_setting_changes(before, form.settings),
        "left_out": len(form.numbers) - len(form.chosen_items),
        "items": len(form.numbers),
    }


def _render_clone_page(
    request: HttpRequest, origin: Batch, form: CloneForm, dry_run: dict[str, Any] | None = None
) -> HttpResponse:
    body = {"settings": {"seed": form.settings.seed + 1}, "items": form.chosen_items[:2]}
    context = build_form_context(request, form) | _compare_clone_form(origin, form)
    chosen = choice.copy_batch_items(origin, form.chosen_items)
    context |= {
        "origin": origin,
        "items": len(form.numbers),
        "rows": form.rows(),
        "unlisted": form.unlisted,
        "readiness": check_form_readiness(form, chosen),
        **describe_met_work(chosen, form.settings),
        "copy_as": build_api_call(request, "POST", "api:clone_batch", args=(origin.pk,), body=body),
        "dry_run": dry_run,
    }
    return render(request, "batches/clone.html", context, status=422 if context["refused"] else 200)
