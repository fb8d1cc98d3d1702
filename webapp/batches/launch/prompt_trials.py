"""Prompts that a batch tries: fields of its form, the initial text, and the changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from synthesis.errors import InputError
from synthesis.prompts.trial import MOST_CHARS, check_trials, get_triable_prompt, list_triable_prompts
from webapp.batches.spec import BatchSettings
from webapp.environments.version_diff import DiffPart, build_diff_part

NAME, TEXT = "prompt_name", "prompt_text"


def add_trial_fields(form: forms.Form) -> None:
    """Add the fields of one prompt to be changed; prompts that a cloned batch already tried are kept."""
    named = [("", "none: all prompts unchanged"), *((name, name) for name in list_triable_prompts())]
    form.fields[NAME] = forms.ChoiceField(label="Prompt", choices=named, required=False)
    form.fields[TEXT] = forms.CharField(
        label="Its text in this batch",
        required=False,
        strip=False,
        max_length=2 * MOST_CHARS,
        widget=forms.Textarea(attrs={"rows": 16, "spellcheck": "false", "class": "mono"}),
        help_text="The stage fills in the placeholders in {{ }}; they have to stay in the text.",
    )


def read_trial_texts(form: forms.Form, before: Mapping[str, str]) -> dict[str, str]:
    """Return the prompt texts of the batch. Errors in a text are added to its field."""
    name, text = form.cleaned_data.get(NAME), form.cleaned_data.get(TEXT)
    if not name:
        if text and text.strip() and TEXT not in form.errors:
            form.add_error(NAME, "Say which prompt this text is for, or take the text away.")
        return dict(before)
    try:
        return check_trials(dict(before) | {name: text or ""})
    except InputError as error:
        form.add_error(TEXT, str(error))
        return dict(before)


def list_prompt_changes(settings: BatchSettings) -> list[DiffPart]:
    """Return the changes of a batch in each prompt that it tries."""
    return [build_diff_part(name, _find_current_text(name), text) for name, text in settings.prompts.items()]


def compare_prompts(first: BatchSettings, second: BatchSettings) -> list[DiffPart]:
    """Return the differences between the prompts of two batches, from the first to the second."""
    names = sorted({*first.prompts, *second.prompts})
    texts: list[tuple[str, Any, Any]] = [
        (name, first.prompts.get(name, _find_current_text(name)), second.prompts.get(name, _find_current_text(name)))
        for name in names
    ]
    return [build_diff_part(name, one, other) for name, one, other in texts if one != other]


def _find_current_text(name: str) -> str:
    """Return the current text of a prompt; empty for a prompt that no longer exists."""
    try:
        return get_triable_prompt(name).text
    except InputError:
        return ""
