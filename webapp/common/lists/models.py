"""Rows of saved views and of the columns that people chose."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from webapp.common.fields import OrderedJSONField


class SavedView(models.Model):
    """Filters and order of a list under a name, visible to its owner or to all users (`shared`).

    `list_name` is a `RowList.name`; `query` is the address's query without cursors.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    list_name = models.CharField(max_length=32)
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=2_000, blank=True)
    shared = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "list_name", "name"], name="savedview_name"),
            models.UniqueConstraint(
                fields=["list_name", "name"], condition=Q(shared=True), name="savedview_shared_name"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ColumnChoice(models.Model):
    """The columns of a list that a person sees, including columns that are hidden by default."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    list_name = models.CharField(max_length=32)
    shown = OrderedJSONField(default=list)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "list_name"], name="columnchoice_unique")]
