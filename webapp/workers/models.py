"""Rows of training workers."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F

from webapp.fields import OrderedJSONField
from webapp.public_ids import public_id_field


class Worker(models.Model):
    """A process that carries training jobs out. Beside the web app or far away: all it has is address and token.

    `devices` are `{name, memory_mib}`, `software` versions by name, `model_names` what it can load (`*`: it may fetch
    any), `usage` what its last heartbeat said: `{memory_mib, gpus: [{name, used_mib, total_mib, utilisation}]}`. One
    `beside` was started by this installation's own queue.
    """

    public_id = public_id_field("wk")
    name = models.CharField(max_length=200)
    host = models.CharField(max_length=200, blank=True)
    pid = models.PositiveIntegerField(default=0)
    version = models.CharField(max_length=40, blank=True)
    devices = OrderedJSONField(default=list)
    software = OrderedJSONField(default=dict)
    engines = OrderedJSONField(default=list)
    model_names = OrderedJSONField(default=list)
    usage = OrderedJSONField(default=dict)
    beside = models.BooleanField(default=False)
    seen_at = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(F("seen_at").desc(), F("id").desc(), name="worker_last_seen")]

    def __str__(self) -> str:
        return self.name
