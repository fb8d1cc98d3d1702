"""Form of a deployment: the checkpoint of a job, and how it is served."""

from __future__ import annotations

from typing import Any

from django import forms

from webapp.runs.models import TrainingJob
from webapp.workers.serving.deployments import MOST_AT_ONCE, MOST_CONTEXT, ServeWish, list_served_choices

AT_ONCE = "What comes beyond them waits for its turn at this site."
CONTEXT = "Tokens of a conversation, reply included. 0: what the model can."
SHARE = "The share of a GPU's memory that vLLM takes; a CPU ignores it. Lower it if a trainer shares the GPU."


class ServeForm(forms.Form):
    """Form of the model of a job to serve. Its choices are the job's complete checkpoints."""

    model = forms.ChoiceField(label="Model")
    at_once = forms.IntegerField(
        label="Requests at once", min_value=1, max_value=MOST_AT_ONCE, initial=32, help_text=AT_ONCE
    )
    context = forms.IntegerField(
        label="Longest conversation", min_value=0, max_value=MOST_CONTEXT, initial=0, help_text=CONTEXT
    )
    memory_share = forms.FloatField(
        label="Share of GPU memory", min_value=0.05, max_value=0.98, initial=0.85, help_text=SHARE
    )

    def __init__(self, job: TrainingJob, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.choices = list_served_choices(job)
        field = self.fields["model"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(choice.model, choice.label) for choice in self.choices]

    def wish(self) -> ServeWish:
        cleaned = self.cleaned_data
        return ServeWish(cleaned["context"], cleaned["at_once"], cleaned["memory_share"])
