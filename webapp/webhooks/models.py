"""Rows of webhooks: addresses, and what was sent to them."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from webapp.common.fields import OrderedJSONField
from webapp.common.public_ids import public_id_field


class Webhook(models.Model):
    """Address that events are posted to. `sealed_secret` is encrypted; it was shown once. `off` says why nothing is
    sent there: a person switched it off, or the address answered 410 Gone."""

    name = models.CharField(max_length=60, unique=True)
    url = models.CharField(max_length=500)
    sealed_secret = models.TextField()
    off = models.CharField(max_length=200, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class DeliveryState(models.TextChoices):
    WAITING = "waiting"
    DELIVERED = "delivered"
    FAILED = "failed"


class Delivery(models.Model):
    """Message to one address. `public_id` is its `webhook-id`, the same in each try, by which a receiver detects
    duplicates; it is not tried before `due_at`. `status` is that of the last answer, 0 without one, `said` the
    error."""

    public_id = public_id_field("msg")
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    type = models.CharField(max_length=60)
    payload = OrderedJSONField()
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    status = models.PositiveSmallIntegerField(default=0)
    said = models.CharField(max_length=400, blank=True)
    due_at = models.DateTimeField()
    created_at = models.DateTimeField(auto_now_add=True)
    tried_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["webhook", "-id"], name="delivery_of_webhook"),
            models.Index(fields=["due_at"], condition=Q(state="waiting"), name="delivery_due"),
        ]
