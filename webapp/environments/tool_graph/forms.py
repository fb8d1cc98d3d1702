"""The form of an edge that a person adds to a version's graph of tools."""

from __future__ import annotations

from typing import Any

from django import forms

from synthesis.contracts import GraphEdge
from webapp.common.templatetags.show import shown
from webapp.environments.models import Version
from webapp.environments.tool_graph.services import REASON_CHARS, read_parameters

APART = "\x1f"
KINDS = (
    ("strong", "strong: the parameter has to come from there"),
    ("weak", "weak: it can come from there, and be known in other ways as well"),
)


class EdgeForm(forms.Form):
    """Source, target with its parameter, kind and reason; `edge` is available once the form is valid."""

    source = forms.ChoiceField(label="What this tool returns")
    into = forms.ChoiceField(label="may go into this parameter")
    kind = forms.ChoiceField(label="Kind", choices=KINDS, initial="strong", widget=forms.RadioSelect)
    reason = forms.CharField(label="Why", max_length=REASON_CHARS, required=False)

    def __init__(self, *args: Any, version: Version, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        parameters = read_parameters(version)
        self.fields["source"].choices = [(name, shown(name, 80)) for name in parameters]  # type: ignore[attr-defined]
        self.fields["into"].choices = [  # type: ignore[attr-defined]
            (shown(tool, 80), [(f"{tool}{APART}{name}", f"{shown(tool, 60)} · {shown(name, 60)}") for name in names])
            for tool, names in parameters.items()
            if names
        ]

    @property
    def edge(self) -> GraphEdge:
        target, _, parameter = self.cleaned_data["into"].partition(APART)
        cleaned = self.cleaned_data
        return GraphEdge(
            source=cleaned["source"], target=target, parameter=parameter, kind=cleaned["kind"], reason=cleaned["reason"]
        )
