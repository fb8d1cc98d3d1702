from __future__ import annotations

from django.conf import settings
from django.db import models


class Visit(models.Model):
    """Last visit of a person to the home page: `at`, and `before`, the end of the visit before this one."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()
    before = models.DateTimeField(null=True, blank=True)
    steps_hidden = models.BooleanField(default=False)
    """Whether they have put the first steps away."""


class ThemeLayout(models.Model):
    """Places of texts on the theme map, stored because they take seconds to compute.

    `key` is the hash of the texts. A row may be deleted at any time: it is computed again.
    """

    key = models.CharField(max_length=64, primary_key=True)
    places = models.JSONField()
    """For each text: x, y, the index of the nearest one or null, similarity."""
    at = models.DateTimeField(auto_now_add=True)
