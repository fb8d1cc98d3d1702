from __future__ import annotations

from typing import Any

from django import forms
from django.utils.html import format_html
from django.utils.safestring import mark_safe

from synthesis.llm.calls import Sampling
from synthesis.llm.cost import Price
from webapp.endpoints import sampling_fields
from webapp.endpoints.models import ASKED, Endpoint, StructuredOutput
from webapp.endpoints.queries import get_sampling_defaults
from webapp.endpoints.services import MAX_PRICE, EndpointChanges, split_names

ADDRESS = mark_safe(
    "Up to and with <code>/v1</code>. Public addresses need https; hosts inside a private network are listed at start "
    "in <code>ENVARIUM_ENDPOINT_HOSTS</code>."
)
NAMES = "One a line, as the server names them."
AT_ONCE = (
    "Of each batch, all its lanes together, and of each run of agents: two at the same time may ask twice as many."
)
STRUCTURED = mark_safe(
    "What of <code>response_format</code> the server honours: OpenAI, vLLM and SGLang hold to a schema. Stages that "
    "want JSON ask for it so, and in words as well."
)


class EndpointForm(forms.Form):
    """An endpoint as a person types it, new or the existing `row`. The key is never filled in again."""

    name = forms.CharField(max_length=60)
    base_url = forms.CharField(label="Address", max_length=500, help_text=ADDRESS)
    key = forms.CharField(
        max_length=2_000,
        required=False,
        widget=forms.PasswordInput(render_value=False),
        help_text="Kept encrypted and never shown again. Leave it empty if the server needs none.",
    )
    no_key = forms.BooleanField(label="Keep no key", required=False)
    models = forms.CharField(
        max_length=50_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text=f"{NAMES} The server can be asked for them once it is registered.",
    )
    max_concurrency = forms.IntegerField(
        label="Requests at once", min_value=1, max_value=1_000, initial=8, help_text=AT_ONCE
    )
    timeout_s = forms.IntegerField(label="Seconds to wait for a reply", min_value=1, max_value=3_600, initial=120)
    structured = forms.ChoiceField(
        label="Holds replies to",
        choices=StructuredOutput.choices,
        required=False,
        initial=StructuredOutput.NONE,
        help_text=STRUCTURED,
    )

    def __init__(self, *args: Any, row: Endpoint | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if row is not None:
            names = ("name", "base_url", "max_concurrency", "timeout_s", "structured")
            current = {name: getattr(row, name) for name in names}
            self.initial = {**self.initial, **current, "models": "\n".join(row.model_names)}
            self._set_help_texts(row)

    def _set_help_texts(self, row: Endpoint) -> None:
        """Set the help texts that differ for a registered endpoint."""
        if row.has_key:
            self.fields["key"].help_text = "A key is kept, encrypted. Leave this empty to keep it."
        self.fields["models"].help_text = f"{NAMES} Or let the server list them, at the side."
        self.fields["structured"].help_text = format_html("{} A trial finds it out.", STRUCTURED)

    def wish(self) -> EndpointChanges:
        cleaned = self.cleaned_data
        key = "" if cleaned["no_key"] else (cleaned["key"].strip() or None)
        return EndpointChanges(
            name=cleaned["name"],
            base_url=cleaned["base_url"],
            key=key,
            models=split_names(cleaned["models"]),
            max_concurrency=cleaned["max_concurrency"],
            timeout_s=cleaned["timeout_s"],
            structured=cleaned["structured"] or "none",
        )


class SamplingForm(forms.Form):
    """Default sampling of each role."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        sampling_fields.add_fields(self, ASKED, get_sampling_defaults())

    def rows(self) -> list[sampling_fields.SamplingRow]:
        return sampling_fields.build_sampling_rows(self, ASKED)

    def chosen(self) -> dict[str, Sampling]:
        return sampling_fields.read_sampling(self.cleaned_data, ASKED)


class PriceForm(forms.Form):
    """The price of a million tokens of a model."""

    model = forms.CharField(max_length=200)
    prompt = forms.FloatField(label="Prompt", min_value=0, max_value=MAX_PRICE)
    cached = forms.FloatField(
        label="Cached prompt",
        min_value=0,
        max_value=MAX_PRICE,
        required=False,
        help_text="Leave it empty if cached tokens cost the same as others.",
    )
    completion = forms.FloatField(
        label="Reply",
        min_value=0,
        max_value=MAX_PRICE,
        help_text="With its reasoning. Enter 0 for a free model: a spend cap cannot be kept for a model "
        "without a price.",
    )

    def price(self) -> Price:
        cleaned = self.cleaned_data
        return Price(prompt=cleaned["prompt"], completion=cleaned["completion"], cached=cleaned["cached"])
