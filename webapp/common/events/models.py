"""Rows of published changes."""

from __future__ import annotations

from django.db import models


class Event(models.Model):
    """A change of the object of `topic` (`trajectory:12`, `job:7`). Kept for a while, for followers who were away."""

    topic = models.CharField(max_length=64)
    at = models.DateTimeField(auto_now_add=True)
