from __future__ import annotations

from django import forms

from synthesis.themes.dedupe import FLOOR
from synthesis.themes.typed import CATEGORY, DESCRIPTION, LEAST_DESCRIPTION, NAME


class ThemeForm(forms.Form):
    """A theme as a person types it."""

    name = forms.CharField(max_length=NAME)
    description = forms.CharField(
        min_length=LEAST_DESCRIPTION, max_length=DESCRIPTION, widget=forms.Textarea(attrs={"rows": 10})
    )
    category = forms.CharField(max_length=CATEGORY, required=False)


class GroupingForm(forms.Form):
    """How themes are to be grouped."""

    threshold = forms.FloatField(min_value=FLOOR, max_value=1)
    model = forms.CharField(max_length=230, required=False)
