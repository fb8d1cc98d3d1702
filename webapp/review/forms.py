"""Forms of queues and of sending an item."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import Q
from django.http import QueryDict

from webapp.accounts.models import Role, User
from webapp.accounts.people_field import PeopleField
from webapp.accounts.queries import OF_PROGRAM
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.forms.rows import PlainInput, PlainSelect, PlainTextarea
from webapp.common.query_params import MOST_TEXT, Params
from webapp.common.templatetags.show import cut, plain
from webapp.environments.case_groups import GROUPS
from webapp.review.assignments import filter_workers
from webapp.review.flags.rules import FLAGS, format_flags, read_flags
from webapp.review.models import MOST_OVERLAP, QueueOrder, ReviewKind, ReviewQueue
from webapp.review.places import split_typed_places
from webapp.review.queue_fill import ORDERS
from webapp.review.queue_filters import read_queue_filters, read_sent_filters
from webapp.review.queues import GUIDELINE_CHARS, LEASE_MINUTES, MOST_GOLD_SHARE, NAME_CHARS, REVIEWERS, QueueSettings
from webapp.review.transfers import NOTE_CHARS


class QueueForm(forms.Form):
    """All settings of a queue; `kind` cannot be changed later.

    `filters` are the fields of the list of its kind. `query` is the query string of that list, which fills them in.
    """

    name = forms.CharField(max_length=NAME_CHARS, widget=PlainInput, label="Name")
    linked = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, label="Also only",
        help_text="These came with a link and have no field. Untick what should not narrow the queue.",
    )  # fmt: skip
    flags = forms.MultipleChoiceField(
        choices=FLAGS, required=False, widget=forms.CheckboxSelectMultiple, label="Flagged because",
        help_text="One of these is enough. None: whatever the filters choose.",
    )  # fmt: skip
    order = forms.ChoiceField(label="Order")
    overlap = forms.IntegerField(
        min_value=1, max_value=MOST_OVERLAP, initial=1, label="People for each item",
        help_text="An item is decided once so many people have decided the same; an adjudicator settles the rest.",
    )  # fmt: skip
    lease_minutes = forms.IntegerField(
        min_value=LEASE_MINUTES[0], max_value=LEASE_MINUTES[1], initial=10, label="Minutes that an item is held",
        help_text="Extended while the reviewer works on it; then it goes to others, and the draft is kept.",
    )  # fmt: skip
    roles = forms.MultipleChoiceField(
        required=False, widget=forms.CheckboxSelectMultiple, label="Roles that work it",
        help_text="If none is selected, all people who may review.",
    )  # fmt: skip
    members = PeopleField(label="People who work it", help_text="In addition to the roles, or alone.")
    gold_share = forms.FloatField(
        min_value=0, max_value=MOST_GOLD_SHARE, initial=0, label="Share of known answers",
        help_text="From 0 to 0.5. Items whose answer is known show how well people decide.",
    )  # fmt: skip
    guideline = forms.CharField(
        max_length=GUIDELINE_CHARS, required=False, widget=PlainTextarea(attrs={"rows": 5}), label="Guideline",
        help_text="What reviewers should look at. It is shown next to every item.",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        data: Any = None,
        *,
        queue: ReviewQueue | None = None,
        query: QueryDict | None = None,
    ) -> None:
        list_query = QueryDict(queue.query) if queue is not None else query or QueryDict()
        self.filters = read_queue_filters(kind, read_sent_filters(data) if data is not None else list_query)
        initial: dict[str, Any] = {
            "flags": read_flags(list_query),
            "linked": [one.spelled for one in self.filters.linked],
        }
        if queue is not None:
            names = ("name", "order", "overlap", "lease_minutes", "roles", "gold_share", "guideline")
            initial |= {name: getattr(queue, name) for name in names}
            initial["members"] = list(queue.members.order_by("username").values_list("username", flat=True))
        super().__init__(data, initial=initial)
        self.fields["linked"].choices = [(one.spelled, cut(plain(one.words), 100)) for one in self.filters.linked]  # type: ignore[attr-defined]
        people: Any = self.fields["members"]
        people.offer_reviewers(also=initial.get("members", ()))
        self.kind = kind
        if kind != ReviewKind.TRAJECTORY:
            del self.fields["flags"]
        self.fields["order"].choices = [(one, QueueOrder(one).label) for one in ORDERS[kind]]  # type: ignore[attr-defined]
        words = {Role(role).value: Role(role).label.lower() for role in REVIEWERS}
        self.fields["roles"].choices = list(words.items())  # type: ignore[attr-defined]
        if not self.filters.linked:
            del self.fields["linked"]

    @property
    def choosing(self) -> list[forms.BoundField]:
        """The fields that choose the objects of the queue."""
        own = [self[name] for name in ("linked", "flags") if name in self.fields]
        return [*self.filters.form.visible_fields(), *own]

    @property
    def working(self) -> list[forms.BoundField]:
        """The fields that set how the queue is worked."""
        return [field for field in self.visible_fields() if field.name not in ("name", "linked", "flags")]

    def clean(self) -> dict[str, Any] | None:
        """Refuse filters that were not understood, because they would not narrow the queue."""
        for problem in self.filters.problems:
            self.add_error(None, problem)
        return super().clean()

    def settings(self) -> QueueSettings:
        """Return the filled-in settings."""
        cleaned = self.cleaned_data
        query = "&".join(filter(None, [self.filters.query, format_flags(cleaned.get("flags", ()))]))
        return QueueSettings(
            name=cleaned["name"], kind=self.kind, query=query, order=cleaned["order"], overlap=cleaned["overlap"],
            lease_minutes=cleaned["lease_minutes"], roles=tuple(cleaned["roles"]),
            members=tuple(cleaned["members"]),
            guideline=cleaned["guideline"], gold_share=cleaned["gold_share"],
        )  # fmt: skip


class SendForm(forms.Form):
    """Form to send an item to a person, with a note."""

    to = forms.ChoiceField(label="To", widget=PlainSelect)
    note = forms.CharField(max_length=NOTE_CHARS, required=False, widget=PlainInput, label="Note")

    def __init__(self, queue: ReviewQueue, sender: User, data: Any = None) -> None:
        super().__init__(data)
        takers = filter_workers(_COLLEAGUES.rows(sender=sender.pk), queue)
        self.fields["to"].choices = [(str(user.pk), user.username) for user in takers]  # type: ignore[attr-defined]


_COLLEAGUES = KeptQuery[User](
    lambda: (
        User.objects.filter(is_active=True, role__in=REVIEWERS)
        .exclude(Q(pk=Given("sender")) | OF_PROGRAM)
        .only("username", "role", "is_active")
        .order_by("username")[:500]
    )
)


def read_choice(data: QueryDict) -> dict[str, Any]:
    """Return the values that the decision panel sent, as `desk.build_decision_form` shows them again."""
    params = Params(data)
    values: dict[str, Any] = {
        "verdict": params.text("verdict", 20),
        "reasons": params.texts("reasons", 32)[:20],
        "comment": params.text("comment", MOST_TEXT),
        "places": split_typed_places(params.texts("places", MOST_TEXT)[:40]),
        "overrides": params.flag("overrides"),
    }
    groups = {code: params.text(f"group-{code}", 20) for code, _ in GROUPS if params.text(f"group-{code}", 20)}
    values["detail"] = {"groups": groups} if groups else {}
    return values
