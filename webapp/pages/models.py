from __future__ import annotations

from django.conf import settings
from django.db import models


class Visit(models.Model):
    """When a person last looked at the home page: `at`, and `before`, the end of the visit before this one."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()
    before = models.DateTimeField(null=True, blank=True)
    steps_hidden = models.BooleanField(default=False)
    """Whether they have put the first steps away."""
