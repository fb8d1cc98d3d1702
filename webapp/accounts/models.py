from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models


class Role(models.TextChoices):
    VIEWER = "viewer"
    ANNOTATOR = "annotator"
    ADJUDICATOR = "adjudicator"
    RESEARCHER = "researcher"
    OPERATOR = "operator"
    ADMIN = "admin"


class User(AbstractUser):
    """A member of the one team. What a role may do is in `access.SCOPES`."""

    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(role__in=Role.values), name="user_role_known"),
        ]


class LoginAttempt(models.Model):
    """A failed login. Enough of them from one address lock that username for a moment, for that address."""

    username = models.CharField(max_length=150)
    address = models.CharField(max_length=45)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [
            models.Index(fields=["username", "address", "-at"], name="loginattempt_by_who"),
            models.Index(fields=["at"], name="loginattempt_at"),
        ]
