"""Forms that widen a frame or leave it out."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.safestring import mark_safe

from synthesis.contracts import Allowance
from synthesis.errors import InputError
from synthesis.verifiers.frame import read_place

MOST_PLACES = 50
PLACES = mark_safe(
    "One place a line: <code>/orders/O-3/note</code> is a field of a record, <code>/orders/*/note</code> that field of "
    "every record, <code>/orders/+/note</code> of every new one. What it may become: "
    "<code>/orders/O-3/status = &quot;paid&quot; or &quot;void&quot;</code>, <code>/orders/O-3/cents from 1000 to "
    "2000</code>; without that, anything. <code>/payments/+ most 3</code> are up to three new records in all, like "
    "those that the reference adds but for their free fields; <code>/payments/-</code> any number of removed ones."
)


class DropForm(forms.Form):
    """Reason why a task is to have no frame."""

    why = forms.CharField(
        label="Why whatever else changes is right",
        max_length=500,
        help_text="Kept in the audit log, and shown in place of the frame.",
    )


class WidenForm(forms.Form):
    """Places that a right way may change as well, and why; `allowances` once it is valid."""

    places = forms.CharField(
        label="May change as well", max_length=20_000, widget=forms.Textarea(attrs={"rows": 4}), help_text=PLACES
    )
    reason = forms.CharField(
        label="Why this is right too",
        max_length=500,
        help_text="Kept with the frame, for reviewers of the task.",
    )

    def __init__(self, *args: Any, by: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.by = by
        self.allowances: list[Allowance] = []

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        lines = [line for line in cleaned.get("places", "").splitlines() if line.strip()]
        if len(lines) > MOST_PLACES:
            self.add_error("places", f"At most {MOST_PLACES} places at once.")
            return cleaned
        for line in lines:
            more = {"source": "person", "reason": cleaned.get("reason", ""), "by": self.by}
            try:
                self.allowances.append(read_place(line, **more))
            except InputError as error:
                if cleaned.get("reason"):
                    self.add_error("places", str(error))
        return cleaned
