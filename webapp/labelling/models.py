"""Rows of labelling: sessions, their guidelines, rounds and items, reservations, labels and settlements."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from webapp.common.fields import OrderedJSONField
from webapp.common.leases import Hold
from webapp.review.models import MOST_OVERLAP
from webapp.taxonomy.models import TreeChange

MOST_ROUNDS = 4


class SessionKind(models.TextChoices):
    """Work of the people in a session: place things on the tree, or put labels of the tree together."""

    PLACE = "place", "place"
    MERGE = "merge", "merge"


class PlacedKind(models.TextChoices):
    """Kind of the placed things; "" in a session that merges labels."""

    NONE = "", "second-level labels"
    ENVIRONMENT = "environment", "environments"
    THEME = "theme", "themes"


class SessionState(models.TextChoices):
    OPEN = "open", "labelling"
    CLOSED = "closed", "adjudication"
    APPLIED = "applied", "applied to the tree"


class LabelSession(models.Model):
    """Questions to people about the tree, frozen when the session opens. Each item is asked of `overlap` people a
    round.

    `tree` has the nodes as they were (`frozen.FrozenTree`). Without `members` all who may annotate take part. The
    counts are kept by services: items that are no known answers, and those of them that are settled.
    """

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=8, choices=SessionKind.choices)
    places = models.CharField(max_length=12, choices=PlacedKind.choices, blank=True, default=PlacedKind.NONE)
    state = models.CharField(max_length=8, choices=SessionState.choices, default=SessionState.OPEN)
    query = models.CharField(max_length=2_000, blank=True)
    """Which things were chosen, as their list's address spells it."""
    overlap = models.PositiveSmallIntegerField(default=3)
    lease_minutes = models.PositiveSmallIntegerField(default=15)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, blank=True, related_name="label_sessions")
    tree = OrderedJSONField(default=list)
    item_count = models.PositiveIntegerField(default=0)
    settled_count = models.PositiveIntegerField(default=0)
    change = models.ForeignKey(
        TreeChange, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    """The last one that carried its result out; the state says whether the result is in effect."""
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(overlap__gte=1, overlap__lte=MOST_OVERLAP), name="labelsession_overlap"),
            models.CheckConstraint(
                condition=Q(kind="merge", places="") | (Q(kind="place") & ~Q(places="")), name="labelsession_places"
            ),
        ]
        indexes = [models.Index(fields=["state", "-id"], name="labelsession_by_state")]

    def __str__(self) -> str:
        return self.name


class Guideline(models.Model):
    """One version of the guideline that people follow. Written once; a change is the next version."""

    session = models.ForeignKey(LabelSession, on_delete=models.CASCADE, related_name="guidelines", db_index=False)
    number = models.PositiveSmallIntegerField()
    text = models.TextField(blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "number"], name="guideline_number")]


class LabelRound(models.Model):
    """One time that items are asked: the first asks all, a later one those that people discussed.

    `missing` answers were never given in a round that was closed before each item had enough.
    """

    session = models.ForeignKey(LabelSession, on_delete=models.CASCADE, related_name="rounds", db_index=False)
    number = models.PositiveSmallIntegerField()
    is_open = models.BooleanField(default=True)
    missing = models.PositiveIntegerField(default=0)
    closed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    closed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "number"], name="labelround_number"),
            models.UniqueConstraint(fields=["session"], condition=Q(is_open=True), name="labelround_one_open"),
        ]


class LabelItem(models.Model):
    """One thing that is asked about, as it was when the session opened: `content` is what people see.

    `gold` is the id of the node that is known to be right; such an item is asked of all people and changes nothing. A
    session that merges has one item: the list of labels.
    """

    session = models.ForeignKey(LabelSession, on_delete=models.CASCADE, related_name="items", db_index=False)
    position = models.PositiveIntegerField()
    key = models.BigIntegerField()
    """The id of the environment or theme; 0 for a list of labels."""
    name = models.CharField(max_length=300)
    content = OrderedJSONField(default=dict)
    gold = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["session", "position"], name="labelitem_position"),
            models.UniqueConstraint(fields=["session", "key"], name="labelitem_once"),
        ]

    def __str__(self) -> str:
        return self.name


class Ask(models.Model):
    """An item in a round: `free` of its `overlap` places are left. The database refuses fewer than none."""

    session = models.ForeignKey(LabelSession, on_delete=models.CASCADE, related_name="+", db_index=False)
    round = models.ForeignKey(LabelRound, on_delete=models.CASCADE, related_name="asks", db_index=False)
    item = models.ForeignKey(LabelItem, on_delete=models.CASCADE, related_name="asks")
    position = models.PositiveIntegerField()
    overlap = models.PositiveSmallIntegerField()
    free = models.SmallIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(free__gte=0, free__lte=F("overlap")), name="ask_free"),
            models.UniqueConstraint(fields=["round", "item"], name="ask_once"),
        ]
        indexes = [
            models.Index(fields=["round", "position"], name="ask_next", condition=Q(free__gt=0)),
            models.Index(fields=["round", "free"], name="ask_progress"),
        ]


class Reservation(Hold):
    """A person's hold of an item in a round, until their label.

    One person has one place of an item, one place one person: the database refuses anything else.
    """

    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="reservations", db_index=False)
    round = models.ForeignKey(LabelRound, on_delete=models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["ask", "place"], condition=Q(state__in=["held", "decided"]), name="reservation_place"
            ),
            models.UniqueConstraint(
                fields=["ask", "user"], condition=Q(state__in=["held", "decided"]), name="reservation_person"
            ),
            models.CheckConstraint(condition=Q(place__gte=1), name="reservation_first_place"),
        ]
        indexes = [
            models.Index(fields=["ask", "user"], name="reservation_of_ask"),
            models.Index(fields=["round", "expires_at"], name="reservation_held", condition=Q(state="held")),
            models.Index(fields=["user", "round", "-id"], name="reservation_of_user"),
        ]

    @property
    def lease_minutes(self) -> int:
        return self.ask.session.lease_minutes


class Confidence(models.IntegerChoices):
    GUESS = 1, "guess"
    FAIR = 2, "fair"
    SURE = 3, "sure"


class Label(models.Model):
    """The answer of a person, or a model (`judge`, then without `user`), on an item in a round. Valid until
    `undone_at`.

    Of a thing that is placed: `node` (an id of the frozen tree; None: no node fits) and perhaps a `second` one. Of a
    list of labels: `groups`, each with a name and the ids of its labels, every label in exactly one.
    """

    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="labels")
    item = models.ForeignKey(LabelItem, on_delete=models.CASCADE, related_name="labels", db_index=False)
    round = models.ForeignKey(LabelRound, on_delete=models.CASCADE, related_name="labels", db_index=False)
    reservation = models.ForeignKey(
        Reservation, null=True, blank=True, on_delete=models.CASCADE, related_name="labels", db_index=False
    )
    guideline = models.ForeignKey(Guideline, on_delete=models.PROTECT, related_name="+", db_index=False)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    judge = models.CharField(max_length=200, blank=True)
    node = models.BigIntegerField(null=True, blank=True)
    second = models.BigIntegerField(null=True, blank=True)
    groups = OrderedJSONField(null=True, blank=True)
    confidence = models.PositiveSmallIntegerField(choices=Confidence.choices, default=Confidence.FAIR)
    comment = models.TextField(blank=True)
    seconds = models.FloatField(null=True, blank=True)
    gold_right = models.BooleanField(null=True, blank=True)
    undone_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False, reservation__isnull=False, judge="")
                | (Q(user__isnull=True, reservation__isnull=True) & ~Q(judge="")),
                name="label_by_one",
            ),
            models.UniqueConstraint(
                fields=["reservation"], condition=Q(undone_at__isnull=True), name="label_of_reservation"
            ),
            models.UniqueConstraint(
                fields=["ask", "judge"], condition=Q(undone_at__isnull=True) & ~Q(judge=""), name="label_of_judge"
            ),
            models.CheckConstraint(condition=Q(confidence__gte=1, confidence__lte=3), name="label_confidence"),
        ]
        indexes = [
            models.Index(fields=["round", "item"], name="label_of_round", condition=Q(undone_at__isnull=True)),
            models.Index(fields=["user", "-id"], name="label_of_user"),
        ]

    @property
    def who(self) -> str:
        """The name of the author; that of a model includes its endpoint."""
        return self.user.username if self.user is not None else self.judge


class LabelDraft(models.Model):
    """The fields a person has filled in for an item of a round and not submitted; it outlives their reservation."""

    ask = models.ForeignKey(Ask, on_delete=models.CASCADE, related_name="+", db_index=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False)
    body = OrderedJSONField(default=dict)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["ask", "user"], name="labeldraft_once")]


class Discussion(models.Model):
    """A thread about one dispute: an item, or of a list of labels the two (`topic`, their ids) that people disagree
    on."""

    item = models.ForeignKey(LabelItem, on_delete=models.CASCADE, related_name="discussions", db_index=False)
    topic = models.CharField(max_length=60, blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    post_count = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["item", "topic"], name="discussion_once")]


class Post(models.Model):
    """A post of a user in a discussion. Never changed."""

    discussion = models.ForeignKey(Discussion, on_delete=models.CASCADE, related_name="posts")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False)
    text = models.TextField()
    created_at = models.DateTimeField(auto_now_add=True)


class Settlement(models.Model):
    """The decision of an adjudicator on an item's labels; with `agreed`, all labels were the same."""

    item = models.OneToOneField(LabelItem, on_delete=models.CASCADE, related_name="settlement")
    node = models.BigIntegerField(null=True, blank=True)
    groups = OrderedJSONField(null=True, blank=True)
    label = models.ForeignKey(Label, null=True, blank=True, on_delete=models.SET_NULL, related_name="+", db_index=False)
    """Whose answer was taken."""
    agreed = models.BooleanField(default=False)
    words = models.TextField(blank=True)
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    at = models.DateTimeField(auto_now=True)


class Agreement(models.Model):
    """The measures of a session's closed rounds (one `results.schemas.RoundAgreementOut` each), and the hash of what
    the job read: with another hash they are stale."""

    session = models.OneToOneField(LabelSession, primary_key=True, on_delete=models.CASCADE, related_name="agreement")
    digest = models.CharField(max_length=64)
    rounds = OrderedJSONField(default=list)
    job = models.BigIntegerField(null=True)
    measured_at = models.DateTimeField(auto_now=True)
