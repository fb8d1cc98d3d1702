from __future__ import annotations

from typing import Any

from django import forms

from synthesis.llm.cost import Price
from webapp.endpoints.models import Endpoint, Structured
from webapp.endpoints.services import MAX_PRICE, Wish, names_in


class EndpointForm(forms.Form):
    """An endpoint as a person types it. The key is never filled in again."""

    name = forms.CharField(max_length=60)
    base_url = forms.CharField(label="Address", max_length=500)
    key = forms.CharField(max_length=2_000, required=False, widget=forms.PasswordInput(render_value=False))
    no_key = forms.BooleanField(label="Keep no key", required=False)
    models = forms.CharField(max_length=50_000, required=False, widget=forms.Textarea(attrs={"rows": 5}))
    max_concurrency = forms.IntegerField(label="Requests at once", min_value=1, max_value=1_000, initial=8)
    timeout_s = forms.IntegerField(label="Seconds to wait for a reply", min_value=1, max_value=3_600, initial=120)
    structured = forms.ChoiceField(
        label="Holds replies to", choices=Structured.choices, required=False, initial=Structured.NONE
    )

    @classmethod
    def of(cls, row: Endpoint | None) -> EndpointForm:
        """The form as it is first shown."""
        if row is None:
            return cls()
        fields = ("name", "base_url", "max_concurrency", "timeout_s", "structured")
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
            structured=said["structured"] or "none",
        )


class PriceForm(forms.Form):
    """What a million tokens of a model cost."""

    model = forms.CharField(max_length=200)
    prompt = forms.FloatField(label="Prompt", min_value=0, max_value=MAX_PRICE)
    completion = forms.FloatField(label="Reply", min_value=0, max_value=MAX_PRICE)
    cached = forms.FloatField(label="Cached prompt", min_value=0, max_value=MAX_PRICE, required=False)

    def price(self) -> Price:
        said = self.cleaned_data
        return Price(prompt=said["prompt"], completion=said["completion"], cached=said["cached"])
