from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F
from django.utils import timezone

from webapp.common.fields import OrderedJSONField


class Role(models.TextChoices):
    VIEWER = "viewer"
    ANNOTATOR = "annotator"
    ADJUDICATOR = "adjudicator"
    RESEARCHER = "researcher"
    OPERATOR = "operator"
    ADMIN = "admin"


class User(AbstractUser):
    """A member of the one team. The scopes of a role are in `access.SCOPES`."""

    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)
    first_replay_at = models.DateTimeField(null=True, blank=True)
    """When they first opened the replay of a trajectory."""

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="user_role_known"),
        ]


class LoginAttempt(models.Model):
    """A failed login. Enough of them lock that username for a while (`login_brake.py`).

    `address` is the origin of the try: an address, a network, or a known browser.
    """

    username = models.CharField(max_length=150)
    address = models.CharField(max_length=45)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(fields=["username", "address", "-at"], name="loginattempt_by_who"),
            models.Index(fields=["at"], name="loginattempt_at"),
        ]


class ApiToken(models.Model):
    """A key for programs: `envr_<prefix>_<secret>`. The secret is shown once and kept as its SHA-256.

    A token never gives more than its owner's role does at the moment of use.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, unique=True)
    hash = models.CharField(max_length=64)
    scopes = ArrayField(models.CharField(max_length=16))
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)
    """Written at most once a minute."""
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(F("id").desc(), name="apitoken_newest"),
            models.Index(fields=["user", "-id"], name="apitoken_of_user"),
        ]

    def __str__(self) -> str:
        return f"envr_{self.prefix}"

    @property
    def state(self) -> str:
        """`revoked`, `expired` or `active`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= timezone.now() else "active"


class AuditEntry(models.Model):
    """An entry of the audit log: an actor, an action and an object. PostgreSQL refuses UPDATE, DELETE and TRUNCATE on
    it.

    Labels are copies, so that an entry stays the same when its actor or object is gone; for that reason the actor is no
    foreign key in the database. `via` is `page`, `command` or a token's public part.
    """

    at = models.DateTimeField(auto_now_add=True)
    actor = models.ForeignKey(
        User, null=True, blank=True, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+"
    )
    actor_label = models.CharField(max_length=150, blank=True)
    via = models.CharField(max_length=32)
    action = models.CharField(max_length=64)
    object_type = models.CharField(max_length=32, blank=True)
    object_id = models.CharField(max_length=64, blank=True)
    object_label = models.CharField(max_length=200, blank=True)
    detail = OrderedJSONField(default=dict)
    address = models.CharField(max_length=45, blank=True)

    class Meta:
        indexes = [
            models.Index(F("id").desc(), name="audit_newest"),
            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
            models.Index(fields=["action", "-id"], name="audit_by_action"),
            models.Index(fields=["object_type", "object_id", "-id"], name="audit_by_object"),
            models.Index(fields=["at"], name="audit_at"),
        ]


class IdempotentReply(models.Model):
    """The reply to a POST with this `Idempotency-Key`, so that a repeated one gets the same. Kept for a day."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=64)
    """SHA-256 of method, address and body."""
    status = models.PositiveSmallIntegerField()
    content_type = models.CharField(max_length=100)
    body = models.BinaryField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="idempotentreply_unique")]
        indexes = [models.Index(fields=["created_at"], name="idempotentreply_at")]
