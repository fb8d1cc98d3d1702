from __future__ import annotations

from typing import Any

from django import forms

from webapp.endpoints.models import Endpoint
from webapp.endpoints.services import Wish, names_in


class EndpointForm(forms.Form):
    """An endpoint as a person types it. The key is never filled in again."""

    name = forms.CharField(max_length=60)
    base_url = forms.CharField(label="Address", max_length=500)
    key = forms.CharField(max_length=2_000, required=False, widget=forms.PasswordInput(render_value=False))
    no_key = forms.BooleanField(label="Keep no key", required=False)
    models = forms.CharField(max_length=50_000, required=False, widget=forms.Textarea(attrs={"rows": 5}))
    max_concurrency = forms.IntegerField(label="Requests at once", min_value=1, max_value=1_000, initial=8)
    timeout_s = forms.IntegerField(label="Seconds to wait for a reply", min_value=1, max_value=3_600, initial=120)

    @classmethod
    def of(cls, row: Endpoint | None) -> EndpointForm:
        """The form as it is first shown."""
        if row is None:
            return cls()
        fields = ("name", "base_url", "max_concurrency", "timeout_s")
        known: dict[str, Any] = {name: getattr(row, name) for name in fields}
        return cls(initial={**known, "models": "\n".join(row.model_names)})

    def wish(self) -> Wish:
        said = self.cleaned_data
        key = "" if said["no_key"] else (said["key"].strip() or None)
        return Wish(
            name=said["name"],
            base_url=said["base_url"],
            key=key,
            models=names_in(said["models"]),
            max_concurrency=said["max_concurrency"],
            timeout_s=said["timeout_s"],
        )
