"""The form “Run agent”: the policy, the number of attempts, and the other settings folded."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings

from synthesis.contracts import MOST_LATENCY_S, Disturbance
from synthesis.errors import InputError
from synthesis.rollout.plan import require_user_tools
from webapp.common.forms.rows import build_options
from webapp.common.query_params import LARGEST_ID
from webapp.endpoints.queries import ModelChoice, find_default_model, list_model_choices
from webapp.scenarios.models import Task
from webapp.scenarios.references import find_reference
from webapp.trajectories.rollouts.queries import list_tools
from webapp.trajectories.rollouts.spec import (
    MOST_ANSWER_MENDS,
    MOST_CALLS,
    MOST_STEPS,
    SENT_REASONING,
    THINK,
    ForkOf,
    Spec,
)

MODEL = "model:"
STYLES = [("tools", "native tool calls"), ("react", "ReAct text"), ("call", "func(args) text")]
USERS = [
    ("optimised", "optimised: reveals little, gives in to nothing"),
    ("base", "base: has the intent and a stop word"),
]
DISTURBANCES = tuple(Disturbance.model_fields)
WITH_REFERENCE = ("reference", "noisy")
PLAYED = (("reference", "Reference"), ("noisy", "Noisy reference"), ("random", "Random valid calls"))


class PolicySelect(forms.Select):
    """A select that disables the policies in `off`, which cannot act in this task."""

    off: frozenset[str] = frozenset()

    def create_option(self, name: str, value: Any, *given: Any, **named: Any) -> dict[str, Any]:
        option: dict[str, Any] = super().create_option(name, value, *given, **named)
        if value in self.off:
            option["attrs"]["disabled"] = True
        return option


def _make_rate_field(label: str) -> forms.FloatField:
    return forms.FloatField(label=label, min_value=0, max_value=1, required=False)


class RunForm(forms.Form):
    """The form of a rollout. `who` is `model:` and a choice of `endpoints.queries`, or a policy that needs no model."""

    who = forms.CharField(
        label="Who acts",
        max_length=400,
        template_name="trajectories/rollouts/who_field.html",  # type: ignore[call-arg]  # newer than its stubs
        widget=PolicySelect({"data-key": "n", "data-does": "Choose who acts", "data-group": "Run an agent"}),
    )
    attempts = forms.IntegerField(min_value=1, help_text="10 make a Pass@10 (Agent-World)")
    prompt_style = forms.ChoiceField(choices=STYLES, required=False)
    temperature = forms.FloatField(min_value=0, max_value=2, required=False)
    sent_reasoning = forms.ChoiceField(label="Earlier reasoning", choices=SENT_REASONING, required=False)
    think = forms.ChoiceField(label="Thinking", choices=THINK, required=False)
    noise = forms.FloatField(label="Share of spoiled calls", min_value=0, max_value=1, required=False)
    calls = forms.IntegerField(label="Random calls", min_value=1, max_value=MOST_CALLS, required=False)
    conversational = forms.BooleanField(label="A simulated user talks with the agent", required=False)
    user_kind = forms.ChoiceField(label="User", choices=USERS, required=False)
    user_model = forms.ChoiceField(label="Model of the user", required=False)
    user_tools = forms.CharField(label="Tools of the user", max_length=20_000, required=False)
    judges_user = forms.BooleanField(label="A judge looks for the user's mistakes", required=False)
    latency = _make_rate_field("Latency")
    latency_s = forms.FloatField(label="Seconds of latency", min_value=0, max_value=MOST_LATENCY_S, required=False)
    failures = _make_rate_field("Failures")
    error_results = _make_rate_field("Error results")
    carried_out = _make_rate_field("Of these carried out")
    max_steps = forms.IntegerField(label="Turns at most", min_value=1, max_value=MOST_STEPS, required=False)
    answer_mends = forms.IntegerField(
        label="Answers to be repaired", min_value=0, max_value=MOST_ANSWER_MENDS, required=False
    )
    seed = forms.IntegerField(min_value=0, max_value=2**31 - 1, required=False)
    fork = forms.IntegerField(min_value=1, max_value=LARGEST_ID, required=False, widget=forms.HiddenInput)
    step = forms.IntegerField(min_value=1, max_value=2**31 - 1, required=False, widget=forms.HiddenInput)

    def __init__(
        self, *given: Any, models: list[ModelChoice], has_reference: bool, tools: list[str], **named: Any
    ) -> None:
        super().__init__(*given, **named)
        self.tools = tools
        attrs = {"placeholder": f"{tools[-1]}, …" if tools else "", "spellcheck": "false", "autocapitalize": "off"}
        self.fields["user_tools"].widget.attrs |= attrs
        self._offer_policies(models, has_reference)
        self.fields["attempts"].validators.append(forms.IntegerField(max_value=settings.ROLLOUT_ATTEMPTS).validators[0])
        self.fields["attempts"].widget.attrs["max"] = settings.ROLLOUT_ATTEMPTS
        listed = [("", "the default of the role"), *((model.value, model.label) for model in models)]
        self.fields["user_model"].choices = listed  # type: ignore[attr-defined]

    def _offer_policies(self, models: list[ModelChoice], has_reference: bool) -> None:
        widget: Any = self.fields["who"].widget
        widget.attrs.pop("maxlength", None)
        widget.off = frozenset() if has_reference else frozenset(WITH_REFERENCE)
        policy_choices = [
            (name, label if name not in widget.off else f"{label} (no reference)") for name, label in PLAYED
        ]
        listed = build_options(((MODEL + model.value, model.label) for model in models), 100)
        widget.choices = [*([("Models", listed)] if models else []), ("Without a model", policy_choices)]
        if not models or not has_reference:
            widget.attrs["aria-describedby"] = "who-hint"

    def spec(self) -> Spec:
        """Return the spec that a valid form asks for."""
        cleaned = self.cleaned_data
        who: str = cleaned["who"]
        by_model = who.startswith(MODEL)
        own = ("who", "fork", "step", *DISTURBANCES)
        chosen = {name: value for name, value in cleaned.items() if name not in own and value not in (None, "")}
        if cleaned["fork"] and cleaned["step"]:
            chosen["fork"] = ForkOf(trajectory=cleaned["fork"], step=cleaned["step"])
        chosen["disturbance"] = self._disturbance()
        return Spec(
            policy="model" if by_model else who,
            model=who.removeprefix(MODEL) if by_model else "",
            **chosen,
        )

    def _disturbance(self) -> Disturbance:
        """Return the disturbance. Raises ValidationError of pydantic."""
        cleaned = self.cleaned_data
        return Disturbance(**{name: cleaned[name] for name in DISTURBANCES if cleaned.get(name) is not None})

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        try:
            if not cleaned.get("fork"):
                require_user_tools(cleaned.get("user_tools") or (), self.tools, bool(cleaned.get("conversational")))
        except InputError as error:
            words = str(error).removeprefix("user_tools: ")
            self.add_error("user_tools", words[:1].upper() + words[1:])
        if (cleaned.get("failures") or 0) + (cleaned.get("error_results") or 0) > 1:
            self.add_error("error_results", "A call has a failure or an error result: both together are at most 1.")
        return cleaned

    def clean_user_tools(self) -> list[str]:
        """Return the names, each once."""
        names = [name.strip() for name in str(self.cleaned_data["user_tools"]).replace("\n", ",").split(",")]
        return list(dict.fromkeys(name for name in names if name))

    def clean_who(self) -> str:
        who: str = self.cleaned_data["who"]
        if not who.startswith(MODEL) and who not in dict(PLAYED):
            raise forms.ValidationError("Choose who acts.")
        return who

    @property
    def unfolded(self) -> bool:
        """True if the folded part has an error that a person must see."""
        return self.is_bound and bool(set(self.errors) - {"who", "attempts"})


def build_run_form(task: Task, data: Any = None, fork: dict[str, int] | None = None) -> tuple[RunForm, dict[str, Any]]:
    """Return the form and its page's context: the available models, and whether a reference exists. `fork` names the
    trajectory and the step that the attempts continue from."""
    models = list_model_choices()
    has_reference = task.current is not None and find_reference(task.current) is not None
    agent = find_default_model("agent")
    first = MODEL + models[0].value if models else "reference" if has_reference else "random"
    start = MODEL + f"{agent[0].pk}/{agent[1]}" if agent else first
    initial = {"who": start, "attempts": 4, "noise": 0.2, "calls": 10, "answer_mends": 3, **(fork or {})}
    initial |= Disturbance().model_dump()
    form = RunForm(data, models=models, has_reference=has_reference, tools=list_tools(task.current), initial=initial)
    forked = {name: form[name].value() for name in ("fork", "step")}
    return form, {"models": models, "has_reference": has_reference, "fork": forked if all(forked.values()) else None}
