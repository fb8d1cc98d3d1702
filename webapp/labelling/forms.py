"""Forms of labelling: a new session, and the forms that the desks send."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import QueryDict

from webapp.accounts.people_field import PeopleField
from webapp.common.forms.rows import PlainInput, PlainTextarea, build_options
from webapp.common.query_params import LARGEST_ID, Params, parse_whole_number
from webapp.common.templatetags.show import cut, plain
from webapp.environments.queries import list_categories
from webapp.labelling.answers import COMMENT_CHARS, LabelChoice, Placing
from webapp.labelling.frozen import MOST_LABELS, load_thing_names
from webapp.labelling.grouping.acts import parse_grouping
from webapp.labelling.grouping.label_groups import group_labels
from webapp.labelling.models import Confidence, LabelItem, PlacedKind, SessionKind
from webapp.labelling.sessions import MOST_ASKED, SessionSettings
from webapp.review.models import MOST_OVERLAP
from webapp.review.queues import GUIDELINE_CHARS, LEASE_MINUTES, NAME_CHARS
from webapp.taxonomy.models import Node, Origin

FIRST_LEVELS_SHOWN = 300


class SessionForm(forms.Form):
    """Fields that both kinds of sessions have."""

    kind = ""
    name = forms.CharField(max_length=NAME_CHARS, widget=PlainInput, label="Name")
    overlap = forms.IntegerField(
        min_value=1, max_value=MOST_OVERLAP, initial=3, label="Answers for each item",
        help_text="So many different people are asked about each. Three or more can be outvoted one by one.",
    )  # fmt: skip
    members = PeopleField(label="People", help_text="If none is selected, all people who may annotate.")
    lease_minutes = forms.IntegerField(
        min_value=LEASE_MINUTES[0], max_value=LEASE_MINUTES[1], initial=15, label="Minutes that an item is held",
        help_text="Extended while the annotator works on it; then it goes to others, and the draft is kept.",
    )  # fmt: skip
    guideline = forms.CharField(
        max_length=GUIDELINE_CHARS, required=False, widget=PlainTextarea(attrs={"rows": 6}), label="Guideline",
        help_text="Rules for the annotators, shown next to every item. It can be changed: each label records the "
        "version it was made with.",
    )  # fmt: skip

    def __init__(self, data: QueryDict | None = None, *, query: QueryDict | None = None) -> None:
        """Set up the form; `query` is the page's address, which may name what is asked about."""
        super().__init__(data)
        self.asked_for = Params(query or QueryDict())
        people: Any = self.fields["members"]
        people.offer_reviewers()

    def settings(self) -> SessionSettings:
        """Return the settings that were filled in."""
        given = self.cleaned_data
        return SessionSettings(
            name=given["name"], kind=self.kind, overlap=given["overlap"], lease_minutes=given["lease_minutes"],
            members=tuple(given["members"]),
            guideline=given["guideline"], **self.asked(),
        )  # fmt: skip

    def asked(self) -> dict[str, Any]:
        return {}


class PlaceForm(SessionForm):
    """A session in which things are placed on the tree."""

    kind = SessionKind.PLACE
    places = forms.ChoiceField(
        choices=[(one.value, one.label) for one in (PlacedKind.ENVIRONMENT, PlacedKind.THEME)], label="What is placed"
    )
    words = forms.CharField(max_length=100, required=False, widget=PlainInput, label="Words of the name")
    category = forms.ChoiceField(required=False, label="Category of environments")
    origin = forms.ChoiceField(required=False, choices=[("", "any"), *Origin.choices], label="Origin of themes")
    most = forms.IntegerField(
        min_value=1, max_value=MOST_ASKED, initial=60, label="At most",
        help_text="The newest that the filters choose. An item takes a person about a minute.",
    )  # fmt: skip
    known = forms.TypedMultipleChoiceField(
        required=False, coerce=int, widget=forms.CheckboxSelectMultiple, label="Known answers",
        help_text="Preview the items, then select here what is in its right place. All annotators are asked "
        "about these and cannot see which they are; you see how often each person is right.",
    )  # fmt: skip
    field_order = (
        "name", "places", "words", "category", "origin", "most", "overlap", "lease_minutes", "known", "members",
        "guideline",
    )  # fmt: skip

    def __init__(self, data: QueryDict | None = None, *, query: QueryDict | None = None) -> None:
        super().__init__(data, query=query)
        category: Any = self.fields["category"]
        category.choices = build_options(((name, name) for name in list_categories()), 80, first="any")
        self.fields["known"].widget.attrs["data-find"] = ""
        if self.is_bound:
            sent_data: Any = self.data
            ticked = [key for one in sent_data.getlist("known") if (key := parse_whole_number(one, 1, LARGEST_ID))]
            kind = PlacedKind.THEME if self.data.get("places") == PlacedKind.THEME else PlacedKind.ENVIRONMENT
            self.offer_known(load_thing_names(kind, ticked))

    def offer_known(self, things: Mapping[int, str]) -> None:
        """Add these things, by number and name, to those that are listed already."""
        field: Any = self.fields["known"]
        listed = dict(field.choices) | {pk: cut(plain(name), 80) for pk, name in things.items()}
        field.choices = sorted(listed.items(), key=lambda one: one[1].lower())

    def asked(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        parameters = {"q": cleaned["words"].strip()}
        if cleaned["places"] == PlacedKind.ENVIRONMENT:
            parameters["category"] = cleaned["category"]
        else:
            parameters["origin"] = cleaned["origin"]
        query = urlencode({name: value for name, value in parameters.items() if value})
        return {"places": cleaned["places"], "most": cleaned["most"], "known": tuple(cleaned["known"]), "query": query}


class MergeForm(SessionForm):
    """A session in which labels are grouped: those of the second level, or exactly those that its address names."""

    kind = SessionKind.MERGE
    labels = forms.TypedMultipleChoiceField(
        required=False, coerce=int, widget=forms.CheckboxSelectMultiple, label="Labels",
        help_text="Untick what should not be asked about.",
    )  # fmt: skip
    nodes = forms.TypedMultipleChoiceField(
        required=False, coerce=int, widget=forms.CheckboxSelectMultiple, label="Second-level labels of",
    )  # fmt: skip
    field_order = ("name", "overlap", "lease_minutes", "labels", "nodes", "members", "guideline")

    def __init__(self, data: QueryDict | None = None, *, query: QueryDict | None = None) -> None:
        super().__init__(data, query=query)
        self.fields["lease_minutes"].initial = 120
        if named := self.asked_for.picks("labels", MOST_LABELS):
            self._offer_labels(named)
        else:
            self._offer_first_levels()

    def _offer_labels(self, named: Sequence[int]) -> None:
        """List these labels, ticked; there is nothing else to choose then."""
        rows = list(Node.objects.filter(pk__in=named).select_related("parent__parent").order_by("level", "path"))
        field: Any = self.fields["labels"]
        field.choices = build_options(((row.pk, row.path_words) for row in rows), 200)
        field.initial = [row.pk for row in rows]
        names = {row.name for row in rows}
        self.fields["name"].initial = f"Places of {names.pop()}"[:NAME_CHARS] if len(names) == 1 else ""
        del self.fields["nodes"]

    def _offer_first_levels(self) -> None:
        del self.fields["labels"]
        rows = Node.objects.filter(level=1, counts__children__gt=0).order_by("position", "path")
        first_levels = list(rows.values_list("pk", "name", "counts__children")[:FIRST_LEVELS_SHOWN])
        field: Any = self.fields["nodes"]
        field.choices = build_options(((pk, f"{name} ({number:,})") for pk, name, number in first_levels), 80)
        field.widget.attrs["data-find"] = ""
        total = sum(number for _, _, number in first_levels)
        field.help_text = f"None ticked: all {total:,} labels."
        if total > MOST_LABELS:
            field.help_text = f"Tick some: all of them have {total:,} labels, and a person can group {MOST_LABELS}."

    def asked(self) -> dict[str, Any]:
        return {name: tuple(self.cleaned_data[name]) for name in ("labels", "nodes") if name in self.fields}

    def clean_labels(self) -> list[int]:
        """Refuse an empty choice: without labels, all second-level labels would be asked about."""
        labels: list[int] = self.cleaned_data["labels"]
        if len(labels) < 2:
            raise forms.ValidationError("Tick two labels or more.")
        return labels


FORMS: dict[str, type[SessionForm]] = {SessionKind.PLACE: PlaceForm, SessionKind.MERGE: MergeForm}


def parse_draft(data: QueryDict, item: LabelItem) -> dict[str, Any]:
    """Return the fields that a desk sent, as a draft keeps them."""
    params = Params(data)
    body: dict[str, Any] = {
        "confidence": params.number("confidence", 1, 3) or Confidence.FAIR,
        "comment": params.text("comment", COMMENT_CHARS + 1),
    }
    if "labels" in item.content:
        return body | parse_grouping(data, item)
    return body | {
        "node": params.id("node"),
        "second": params.id("second"),
        "none": params.flag("none"),
        "slot": params.choice("slot", ("node", "second"), "node"),
    }


def parse_choice(data: QueryDict, item: LabelItem) -> LabelChoice:
    """Return the label that a desk submits."""
    params, body = Params(data), parse_draft(data, item)
    placing, groups = None, None
    if "labels" in item.content:
        groups = group_labels(item, body["groups"], body["renamed"])
    elif params.flag("none"):
        placing = Placing(None)
    elif body["node"] is not None:
        placing = Placing(body["node"], body["second"])
    return LabelChoice(
        placing=placing, groups=groups, confidence=body["confidence"], comment=body["comment"],
        guideline=params.number("guideline") or 0, seconds=params.decimal("seconds", 0, 86_400),
    )  # fmt: skip
