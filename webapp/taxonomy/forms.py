from __future__ import annotations

from typing import Any

from django import forms

from synthesis.themes.dedupe import FLOOR
from synthesis.themes.judged_groups import MOST_PAIRS
from synthesis.themes.typed import CATEGORY, DESCRIPTION, LEAST_DESCRIPTION, NAME
from webapp.common.forms.rows import PlainInput, PlainTextarea
from webapp.taxonomy.queries import is_first_level


class ThemeForm(forms.Form):
    """A theme as a person types it."""

    name = forms.CharField(
        max_length=NAME,
        widget=PlainInput,
        help_text="The kind of system, such as “Public library lending desk”; not a product.",
    )
    description = forms.CharField(
        min_length=LEAST_DESCRIPTION,
        max_length=DESCRIPTION,
        widget=PlainTextarea(attrs={"rows": 10}),
        help_text="Who uses it and for what, which records it keeps, what can be looked up, what can be changed, and "
        "which rules limit the changes. An author model plans the environment from these words alone.",
    )
    category = forms.CharField(
        label="Category (optional)",
        max_length=CATEGORY,
        required=False,
        widget=PlainInput(attrs={"list": "labels"}),
        help_text="The label of the first level that it hangs on; the field suggests those that exist.",
    )
    new_label = forms.BooleanField(
        label="Make a new label of the first level",
        required=False,
        help_text="Only if the category is a word that no label of the first level has.",
    )

    def clean(self) -> dict[str, Any]:
        """Refuse a category that would become a new label unless the user asks for one."""
        cleaned = super().clean() or {}
        category = cleaned.get("category", "")
        if category and not cleaned.get("new_label") and not is_first_level(category):
            self.add_error(
                "category",
                f"No label of the first level is called “{category[:60]}”. Choose one of those that exist, or tick "
                "“Make a new label of the first level”.",
            )
        return cleaned


class GroupingForm(forms.Form):
    """Settings for the grouping of themes."""

    threshold = forms.FloatField(min_value=FLOOR, max_value=1)
    model = forms.CharField(max_length=230, required=False)
    judge = forms.CharField(max_length=230, required=False)
    most = forms.IntegerField(min_value=1, max_value=MOST_PAIRS, required=False)
