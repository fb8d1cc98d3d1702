"""Rows of published changes."""

from __future__ import annotations

from django.db import models


class Event(models.Model):
    """Something behind `topic` (`trajectory:12`, `job:7`) has changed. Kept for a while, for who was away."""

    topic = models.CharField(max_length=64)
    at = models.DateTimeField(auto_now_add=True)
