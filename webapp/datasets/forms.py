"""Form of a new dataset: which rows, how they are written, how they are split."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, get_args
from urllib.parse import urlencode

from django import forms
from django.db.models import Q
from django.http import QueryDict

from synthesis.errors import InputError
from training.dataset import Split
from webapp.common.forms.rows import Options, PlainInput, build_options, offer_options
from webapp.datasets.choice.resolved import require_existing_sets
from webapp.datasets.models import Dataset, DatasetState
from webapp.datasets.preview import UNITS, PreviewedRows, find_good_split, preview_rows
from webapp.datasets.selection import (
    MOST_APART,
    MOST_ENVIRONMENTS,
    OF_TRAJECTORIES,
    ApprovalName,
    DatasetSelection,
    parse_selection,
)
from webapp.environments.models import Environment
from webapp.environments.queries import list_distinct_values
from webapp.scenarios.models import ReviewState, Task
from webapp.scenarios.verifiers import VERIFIER_TITLES
from webapp.scenarios.withheld.filters import CHOICES
from webapp.taxonomy.former import find_present_node
from webapp.taxonomy.models import Node
from webapp.taxonomy.queries import list_siblings, select_subtree
from webapp.trajectories.export.spec import parse_range
from webapp.trajectories.models import Trajectory

LISTED = 300
PICKS = 40
APART_LISTED = 20
KINDS = [("tasks", "tasks, to be attempted (RL)"), ("trajectories", "trajectories, to be learnt (SFT)")]
AUDITS = [
    ("", "any"),
    ("green", "green"),
    ("red", "red"),
    ("incomplete", "incomplete"),
    ("unproven", "unproven"),
    ("stale", "stale"),
    ("none", "not audited"),
]
VERIFIERS = [("", "any"), *VERIFIER_TITLES.items()]
WITHHELD = [("", "any"), *CHOICES]
OUTCOMES = [
    ("", "any"),
    *(
        (outcome, outcome.replace("_", " "))
        for outcome in ("solved", "failed", "agent_error", "program_error", "truncated")
    ),
]
SETTINGS = [("", "any"), ("task", "task"), ("conversation", "conversation")]
ATTEMPTED_AS: Options = [("task", "a task, stated at once"), ("conversation", "a conversation with a user")]
NAMES = (
    "source",
    "category",
    "setting",
    "audit",
    "verifier",
    "withheld",
    "policy",
    "attempts",
    "pass_low",
    "pass_high",
    "environment_count",
    "environment_seed",
    "apart_by",
)
"""Fields that are spelled as the selection's own."""
ANY = "any"
APPROVALS = [
    (ANY, "any, approved or not"),
    *((name, name.replace("_", " ")) for name in get_args(ApprovalName) if name),
]
PARTS = [
    ("", "all"),
    ("most", "the most alike half"),
    ("least", "the least alike half"),
    ("random", "a random half, to compare with"),
]
APART_BY = [("environment", "environment"), ("behaviour", "behaviour")]
LISTS = ("environments", "apart_from")
"""Fields that may be given several times."""
SPLIT = ("unit", "test_share", "seed")


class SplitForm(forms.Form):
    """Fields of a split: what is held out."""

    name = forms.CharField(label="Name", max_length=200, required=False, widget=PlainInput)
    licence = forms.CharField(
        label="Licence",
        max_length=100,
        required=False,
        widget=PlainInput(attrs={"placeholder": "not stated"}),
        help_text="The licence of the rows, such as apache-2.0. It is shown in the dataset's card.",
    )
    unit = forms.ChoiceField(label="Split by", choices=[(unit, unit) for unit in UNITS])
    test_share = forms.FloatField(
        label="Share held out",
        help_text="0 holds nothing out. Otherwise every row has to name the unit.",
        min_value=0,
        max_value=0.99,
    )
    seed = forms.IntegerField(label="Seed", min_value=0, max_value=2**31 - 1)

    def split(self) -> Split:
        """Return the split of a valid form."""
        return Split.model_validate({name: self.cleaned_data[name] for name in SPLIT})


class DatasetForm(SplitForm):
    """Form of a new dataset; `choice` is the selection of a valid form, `seen` its first rows if they are known."""

    token = forms.CharField(max_length=64, widget=forms.HiddenInput, required=False)
    kind = forms.ChoiceField(choices=KINDS)
    source = forms.CharField(label="Source", max_length=32, required=False, widget=forms.Select)
    category = forms.IntegerField(
        label="Category, with all below", min_value=1, max_value=2**63 - 1, required=False, widget=forms.Select
    )
    environments = forms.TypedMultipleChoiceField(coerce=int, required=False)
    setting = forms.ChoiceField(label="Setting", choices=SETTINGS, required=False)
    audit = forms.ChoiceField(label="Audit of the task", choices=AUDITS, required=False)
    approval = forms.ChoiceField(label="Approval", choices=APPROVALS, required=False)
    verifier = forms.ChoiceField(label="Verifier", choices=VERIFIERS, required=False)
    withheld = forms.ChoiceField(label="Tasks where", choices=WITHHELD, required=False)
    likeness_part = forms.ChoiceField(label="Of the environments", choices=PARTS, required=False)
    likeness_to = forms.CharField(label="alike to", max_length=80, required=False, widget=forms.Select)
    environment_count = forms.IntegerField(label="At most", min_value=1, max_value=1_000_000, required=False)
    environment_seed = forms.IntegerField(label="drawn by seed", min_value=0, max_value=2**31 - 1, required=False)
    apart_from = forms.MultipleChoiceField(required=False)
    apart_by = forms.ChoiceField(label="It shares no", choices=APART_BY, required=False)
    policy = forms.CharField(label="by policies that begin with", max_length=200, required=False)
    attempts = forms.IntegerField(label="of at least", min_value=0, max_value=1_000_000, required=False)
    pass_low = forms.FloatField(label="Solved share, from", min_value=0, max_value=1, required=False)
    pass_high = forms.FloatField(label="to", min_value=0, max_value=1, required=False)
    outcome = forms.ChoiceField(label="Outcome", choices=OUTCOMES, required=False)
    low = forms.FloatField(label="Reward, from", required=False)
    high = forms.FloatField(label="to", required=False)
    least_reward = forms.FloatField(label="Least reward", min_value=0, max_value=1, required=False)
    actions = forms.CharField(
        label="Actions",
        max_length=20,
        required=False,
        widget=PlainInput(attrs={"placeholder": "any, 3-29, released"}),
    )
    shape = forms.ChoiceField(
        label="A row is", choices=[("whole", "a whole trajectory"), ("turns", "one turn")], required=False
    )
    thinking = forms.ChoiceField(
        label="Reasoning", choices=[("kept", "kept"), ("stripped", "stripped")], required=False
    )

    def __init__(self, data: Mapping[str, Any] | None = None, **named: Any) -> None:
        super().__init__(data, use_required_attribute=False, **named)
        self.fields["name"].widget.attrs["placeholder"] = "optional"
        self.fields["test_share"].label, self.fields["test_share"].help_text = "Share", ""
        if self.kind_now == "tasks":
            self.fields["setting"].label = "To be attempted as"
            offer_options(self, "setting", ATTEMPTED_AS)
        field: Any = self.fields["environments"]
        field.choices = [(pk, pk) for pk in self.picked_environments]
        field = self.fields["apart_from"]
        field.choices = [(ident, ident) for ident in self.kept_apart]
        self.choice = DatasetSelection()
        self.seen: PreviewedRows | None = None

    @property
    def picked_environments(self) -> list[int]:
        """The environments that are ticked."""
        given = self["environments"].value() or []
        return [int(pk) for pk in map(str, given) if pk.isascii() and pk.isdigit() and len(pk) < 19][:MOST_ENVIRONMENTS]

    @property
    def kept_apart(self) -> list[str]:
        """The datasets that are ticked, to share nothing with."""
        given = self["apart_from"].value() or []
        return list(dict.fromkeys(str(ident)[:60] for ident in given if ident))[:MOST_APART]

    @property
    def kind_now(self) -> str:
        return "trajectories" if self["kind"].value() == "trajectories" else "tasks"

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if self.errors:
            return cleaned
        selection_values = {name: value for name in NAMES if (value := cleaned.get(name)) not in (None, "")}
        selection_values |= {"kind": cleaned["kind"], "environments": tuple(cleaned.get("environments") or ())}
        selection_values["approval"] = "" if cleaned["approval"] == ANY else cleaned["approval"]
        selection_values["apart_from"] = tuple(cleaned.get("apart_from") or ())
        try:
            if cleaned["likeness_part"]:
                selection_values["likeness"] = _parse_likeness(cleaned)
            if cleaned["kind"] == "trajectories":
                selection_values |= self._clean_trajectory_fields(cleaned)
            choice = parse_selection(selection_values)
            require_existing_sets(choice)
            self.choice = choice
        except InputError as error:
            self._refuse(str(error))
        return cleaned

    def _clean_trajectory_fields(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        told = ("outcome", "low", "high", "least_reward")
        wanted = {name: value for name in told if (value := cleaned.get(name)) not in (None, "")}
        wanted["actions"] = parse_range(cleaned.get("actions") or "")
        return wanted | {"mask_history": cleaned["shape"] == "turns", "reasoning": cleaned["thinking"] != "stripped"}

    def _refuse(self, why: str) -> None:
        """Put an error of the selection beside its field."""
        name, separator, rest = why.removeprefix("selection.").partition(": ")
        name = "likeness_to" if name.startswith("likeness") else name
        fits = bool(separator) and name in self.fields
        self.add_error(name if fits else "actions" if "actions" in why else None, rest if fits else why)


def build_dataset_form(data: QueryDict | None, query: QueryDict) -> DatasetForm:
    """Return the sent form, or a new one filled from the query.

    If the query names no seed, one is chosen that leaves both sides something.
    """
    if data is not None:
        return DatasetForm(data)
    initial_values = _read_query_values(query)
    form = DatasetForm(initial_values | {"token": secrets.token_urlsafe(18)})
    if form.is_valid() and "seed" not in query:
        previewed = preview_rows(form.choice, form.split())
        initial_values["seed"] = str(find_good_split(previewed, form.split()).seed)
        form = DatasetForm(initial_values | {"token": secrets.token_urlsafe(18)})
        form.seen = previewed
    return form


def _read_query_values(query: QueryDict) -> dict[str, Any]:
    values: dict[str, Any] = {
        "kind": "tasks",
        "unit": "environment",
        "test_share": "0.2",
        "seed": "0",
        "least_reward": "1",
    }
    values |= {"shape": "whole", "thinking": "kept", "environment_seed": "0", "apart_by": "environment"}
    for name in DatasetForm.base_fields:
        if name in query and name not in ("token", *LISTS):
            values[name] = str(query[name]).replace("\x00", "")[:200]
    if "approval" not in query:
        values["approval"] = "approved" if values["kind"] == "tasks" and has_approved_tasks() else ANY
    values["apart_from"] = query.getlist("apart_from")[:MOST_APART]
    return values | {"environments": query.getlist("environments")[:MOST_ENVIRONMENTS]}


def has_approved_tasks() -> bool:
    """Return whether any task is approved: then a new dataset of tasks takes approved ones by default."""
    return Task.objects.filter(review_state=ReviewState.APPROVED).exists()


def _parse_likeness(cleaned: dict[str, Any]) -> dict[str, Any]:
    """Return the set to compare with as the selection spells it. Raises InputError."""
    set_kind, _, set_id = (cleaned.get("likeness_to") or "").partition(":")
    likeness: dict[str, Any] = {"part": cleaned["likeness_part"], "seed": cleaned.get("environment_seed") or 0}
    if set_kind == "category" and set_id.isascii() and set_id.isdigit():
        return likeness | {"category": int(set_id)}
    if set_kind in ("dataset", "source") and set_id:
        return likeness | {set_kind: set_id}
    raise InputError("selection.likeness: choose the set to compare with")


def build_form_address(form: DatasetForm, **changes: Any) -> str:
    """Return the query of the page with this form as it is filled in, and these changes."""
    names = [name for name in form.fields if name not in ("token", *LISTS)]
    values = {name: form[name].value() for name in names} | changes
    if values["kind"] != "trajectories":
        values = {name: value for name, value in values.items() if name not in (*OF_TRAJECTORIES, "shape", "thinking")}
    parameters: list[tuple[str, Any]] = [(name, value) for name, value in values.items() if value not in (None, "")]
    parameters += [("environments", pk) for pk in form.picked_environments]
    return urlencode(parameters + [("apart_from", ident) for ident in form.kept_apart])


def list_environment_picks(form: DatasetForm, text: str) -> tuple[list[Environment], bool]:
    """Return environments to tick, those that are ticked first, and whether there are more than are shown."""
    columns = ("name", "category", "task_count", "trajectory_count")
    rows = Environment.objects.only(*columns).order_by("name", "id")
    ticked = list(rows.filter(pk__in=form.picked_environments))
    others = rows.exclude(pk__in=form.picked_environments)
    source, category = form["source"].value(), form["category"].value()
    if text:
        others = others.filter(Q(name__icontains=text) | Q(key__iexact=text))
    if source and form.kind_now == "tasks":
        others = others.filter(source=str(source)[:32])
    if category and (node := _find_node(category)) is not None:
        others = others.filter(node__in=select_subtree(node))
    unticked = list(others[: PICKS + 1])
    return ticked + unticked[:PICKS], len(unticked) > PICKS


def offer_choices(form: DatasetForm) -> None:
    """Fill the selects of a form that is about to be shown."""
    table = Environment if form.kind_now == "tasks" else Trajectory
    nodes = list(list_siblings(None)[:LISTED])
    node = _find_node(form["category"].value())
    if node is not None and node.pk not in {row.pk for row in nodes}:
        nodes.append(node)
    sources = list_distinct_values(table._meta.db_table, "source")
    offer_options(form, "source", build_options(((name, name) for name in sources), 40, first="any"))
    offer_options(form, "category", build_options(((row.pk, row.name) for row in nodes), 50, first="any"))
    frozen = Dataset.objects.filter(state=DatasetState.READY, archived=False).order_by("-id")
    sets: list[tuple[str, Options]] = [
        ("Datasets", build_options(((f"dataset:{row.public_id}", row.name) for row in frozen.only(*LINE)[:PICKS]), 50)),
        ("Categories", build_options(((f"category:{row.pk}", row.name) for row in nodes), 50)),
        (
            "Sources",
            build_options(
                ((f"source:{name}", name) for name in list_distinct_values(Environment._meta.db_table, "source")), 40
            ),
        ),
    ]
    chosen_set = str(form["likeness_to"].value() or "")
    if chosen_set.startswith("dataset:") and chosen_set not in {value for value, _ in sets[0][1]}:
        sets.insert(0, ("Chosen", [(chosen_set, chosen_set.partition(":")[2])]))
    groups: list[tuple[Any, Any]] = [("", "choose a set"), *(group for group in sets if group[1])]
    offer_options(form, "likeness_to", groups)


LINE = ("public_id", "name", "kind", "train_rows", "test_rows", "environments")


def list_apart_choices(form: DatasetForm) -> list[Dataset]:
    """Return frozen datasets to be kept apart from, those that are ticked first."""
    rows = Dataset.objects.filter(state=DatasetState.READY).only(*LINE).order_by("-id")
    ticked = list(rows.filter(public_id__in=form.kept_apart))
    return ticked + list(rows.filter(archived=False).exclude(public_id__in=form.kept_apart)[:APART_LISTED])


def _find_node(value: Any) -> Node | None:
    text = str(value or "")
    return find_present_node(int(text)) if text.isascii() and text.isdigit() and len(text) < 19 else None
