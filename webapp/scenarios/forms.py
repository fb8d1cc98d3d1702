"""The filters of the task list, read from the URL: what cannot be read is ignored and said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms

from synthesis.assessment.kinds import KINDS, kind_of
from webapp.forms import filter_bar
from webapp.scenarios.audits.page import FAULTS
from webapp.scenarios.models import AuditState

TASK_KINDS = (
    "all_true_at_start",
    "high_do_nothing",
    "check_true_at_start",
    "check_raises_at_start",
    "check_invalid",
    "check_not_boolean",
    "check_reads_initial_state",
    "no_checks",
    "unknown_state_key",
    "start_fails",
)
SORTS = {
    "-id": "Newest first",
    "id": "Oldest first",
    "-do_nothing": "Doing nothing scores most",
    "do_nothing": "Doing nothing scores least",
    "-check_count": "Most checks",
    "check_count": "Fewest checks",
    "-finding_count": "Most findings",
    "-trajectory_count": "Most trajectories",
    "-audit_state": "By audit, stale and red first",
}


class TaskFilter(forms.Form):
    q = forms.CharField(required=False, max_length=200)
    environment = forms.CharField(required=False, max_length=200)
    category = forms.ChoiceField(required=False)
    finding = forms.ChoiceField(required=False)
    audit = forms.ChoiceField(
        required=False, choices=[("", "Any"), *((name, name) for name in AuditState.values), ("none", "not audited")]
    )
    fault = forms.ChoiceField(required=False, label="Audit found", choices=[("", "Anything"), *FAULTS.items()])
    low = forms.FloatField(required=False, min_value=0, max_value=1)
    high = forms.FloatField(required=False, min_value=0, max_value=1)
    fewest = forms.IntegerField(required=False, min_value=0, max_value=1_000_000)
    most = forms.IntegerField(required=False, min_value=0, max_value=1_000_000)
    source = forms.ChoiceField(required=False)
    sort = forms.ChoiceField(required=False, label="Order", choices=list(SORTS.items()))

    def __init__(self, *args: Any, categories: list[str], sources: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["category"].choices = [("", "Any"), *((name, name) for name in categories)]  # type: ignore[attr-defined]
        self.fields["source"].choices = [("", "Any"), *((name, name) for name in sources)]  # type: ignore[attr-defined]
        named = [(name, kind_of(name).title) for name in TASK_KINDS if name in KINDS]
        self.fields["finding"].choices = [("", "Any"), ("any", "With a finding"), ("none", "Without findings"), *named]  # type: ignore[attr-defined]

    def bar(self, wanted: Mapping[str, Any]) -> filter_bar.FilterForm:
        """The form above the list, filled with what was understood."""

        def choice(name: str) -> forms.Field:
            return filter_bar.select(str(self[name].label), self.fields[name].choices, first=None)  # type: ignore[attr-defined]

        fields = {
            "q": filter_bar.search("Text", keyed="Search"),
            "environment": filter_bar.text("Environment", placeholder="name or id"),
            **{name: choice(name) for name in ("category", "finding", "audit", "fault")},
            "idle": filter_bar.span("Doing nothing scores", "low", "high", ("0", "1"), max=1, step="any"),
            "checks": filter_bar.span("Checks", "fewest", "most"),
            **{name: choice(name) for name in ("source", "sort")},
        }
        pairs = {"idle": ("low", "high"), "checks": ("fewest", "most")}
        ranges = {name: [wanted.get(end) for end in ends] for name, ends in pairs.items()}
        return filter_bar.FilterForm(dict(wanted) | ranges, fields)

    def values(self) -> dict[str, Any]:
        """What was understood; a field with an error counts as empty."""
        self.is_valid()
        return {name: value for name, value in self.cleaned_data.items() if value not in (None, "")}
