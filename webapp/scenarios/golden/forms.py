"""Forms of golden states: how an end state is compared with one, and what may differ."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.safestring import mark_safe

from synthesis.contracts import Volatile
from webapp.scenarios.golden.page import EQUALITIES, ROLES

PLACE = mark_safe(
    "<code>/orders/O-3/token</code> is a field of a record, <code>/orders/*/token</code> that field of every record, "
    "<code>/orders/+/made_at</code> of every new one; <code>/orders/+</code> with the role id are the ids of new ones."
)


class GoldenForm(forms.Form):
    """Comparison of an end state with the golden one."""

    equality = forms.ChoiceField(
        label="An end state is equal",
        choices=[(name, f"{words}. {meaning}") for name, (words, meaning) in EQUALITIES.items()],
        initial="roles",
        widget=forms.RadioSelect,
    )


class VolatileForm(forms.Form):
    """A place that may differ between right runs, and the reason; `place` once it is valid, in the name of `by`."""

    path = forms.RegexField(
        r"^/.",
        label="Place",
        max_length=600,
        help_text=PLACE,
        error_messages={"invalid": "A place begins with a slash, as /orders/O-3/token."},
        widget=forms.TextInput(attrs={"spellcheck": "false", "autocapitalize": "off"}),
    )
    role = forms.ChoiceField(label="Allowed values", choices=list(ROLES.items()), widget=forms.RadioSelect)
    reason = forms.CharField(
        label="Why another value is right too",
        max_length=500,
        help_text="Kept with your name, for reviewers of the task.",
    )

    def __init__(self, *args: Any, by: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by = by

    @property
    def place(self) -> Volatile:
        return Volatile(**self.cleaned_data, by=self.by[:200])
