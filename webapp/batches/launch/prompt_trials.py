"""Prompts that a batch tries: fields of its form, the text to begin with, and what was changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from synthesis.errors import InputError
from synthesis.prompts.trial import MOST_CHARS, checked_trials, standing_prompt, triable
from webapp.accounts.access import access
from webapp.batches.models import Batch
from webapp.batches.spec import BatchSettings
from webapp.environments.version_diff import DiffPart, part
from webapp.htmx import wants_fragment
from webapp.query_params import Params

NAME, TEXT = "prompt_name", "prompt_text"


def add_fields(form: forms.Form) -> None:
    """One prompt to be changed; those that a cloned batch tried already go along."""
    named = [("", "none: all as they stand"), *((name, name) for name in triable())]
    form.fields[NAME] = forms.ChoiceField(label="Prompt", choices=named, required=False)
    form.fields[TEXT] = forms.CharField(
        label="Its text in this batch",
        required=False,
        strip=False,
        max_length=2 * MOST_CHARS,
        widget=forms.Textarea(attrs={"rows": 16, "spellcheck": "false", "class": "mono"}),
        help_text="What stands in {{ }} is filled in by the stage and has to stay.",
    )


def chosen(form: forms.Form, before: Mapping[str, str]) -> dict[str, str]:
    """The texts of its own that the batch would have. What is wrong with one stands at its field."""
    name, text = form.cleaned_data.get(NAME), form.cleaned_data.get(TEXT)
    if not name:
        if text and text.strip() and TEXT not in form.errors:
            form.add_error(NAME, "Say which prompt this text is for, or take the text away.")
        return dict(before)
    try:
        return checked_trials(dict(before) | {name: text or ""})
    except InputError as error:
        form.add_error(TEXT, str(error))
        return dict(before)


@access("synthesise")
@require_safe
def prompt_text(request: HttpRequest) -> HttpResponse:
    """The text of a prompt to begin with: as it stands, or as the batch `of` had it. A part of the form, or a page."""
    params = Params(request.GET)
    name, of = params.text(NAME, 80), params.number("of")
    text = ""
    if name in triable():
        text = standing_prompt(name).text
        if of is not None:
            text = get_object_or_404(Batch, pk=of).settings.get("prompts", {}).get(name, text)
    context = {"name": name, "text": text, "names": triable(), "most": 2 * MOST_CHARS}
    fragment = "batches/launch/prompt_text.html"
    return render(request, fragment if wants_fragment(request) else "batches/prompt.html", context)


def changes(settings: BatchSettings) -> list[DiffPart]:
    """What a batch changed in each prompt that it tries."""
    return [part(name, _standing(name), text) for name, text in settings.prompts.items()]


def between(first: BatchSettings, second: BatchSettings) -> list[DiffPart]:
    """Where the prompts of two batches differ, from the first to the second."""
    names = sorted({*first.prompts, *second.prompts})
    texts: list[tuple[str, Any, Any]] = [
        (name, first.prompts.get(name, _standing(name)), second.prompts.get(name, _standing(name))) for name in names
    ]
    return [part(name, one, other) for name, one, other in texts if one != other]


def _standing(name: str) -> str:
    """Empty for a prompt that there is no more."""
    try:
        return standing_prompt(name).text
    except InputError:
        return ""
