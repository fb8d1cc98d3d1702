"""Parts of a batch's form: departures from its preset while it is filled in, and texts of prompts."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from synthesis.prompts.trial import MOST_CHARS, get_triable_prompt, list_triable_prompts
from webapp.accounts.access import require_scope
from webapp.batches.launch import prompt_trials
from webapp.batches.launch.forms import SettingsForm
from webapp.batches.launch.preset_choice import describe_departures
from webapp.batches.models import Batch
from webapp.batches.presets import TITLES, parse_preset
from webapp.batches.spec import BatchSettings
from webapp.common.htmx import wants_fragment
from webapp.common.query_params import Params


def compare_with_preset(form: SettingsForm) -> dict[str, Any]:
    """Return the departures of a form from its preset, or that the form has faults."""
    unclear = form.is_bound and not form.is_valid()
    lines = [] if unclear else describe_departures(form.settings)
    return {"departures": lines, "departures_unclear": unclear}


@require_scope("synthesise")
@require_POST
@never_cache
def show_departures(request: HttpRequest) -> HttpResponse:
    """Show the departures of a form from its preset while it is filled in."""
    form = SettingsForm(request.POST, before=BatchSettings())
    context = compare_with_preset(form) | {"preset_title": TITLES[parse_preset(form["preset"].value())]}
    return render(request, "batches/launch/departures.html", context)


@require_scope("synthesise")
@require_safe
def show_prompt_text(request: HttpRequest) -> HttpResponse:
    """Show the initial text of a prompt: the current one, or that of the batch `of`. A part of the form, or a page."""
    params = Params(request.GET)
    name, of = params.text(prompt_trials.NAME, 80), params.number("of")
    text = ""
    if name in list_triable_prompts():
        text = get_triable_prompt(name).text
        if of is not None:
            text = get_object_or_404(Batch, pk=of).settings.get("prompts", {}).get(name, text)
    context = {"name": name, "text": text, "names": list_triable_prompts(), "most": 2 * MOST_CHARS}
    fragment = "batches/launch/prompt_text.html"
    return render(request, fragment if wants_fragment(request) else "batches/prompt.html", context)
