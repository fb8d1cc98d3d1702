"""Writes on accounts: what failed logins leave behind."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from webapp.accounts.models import LoginAttempt

FREE_FAILURES = 5
COUNTED_FOR = timedelta(minutes=15)
LOCKED_FOR = timedelta(minutes=1)
KEPT_FOR = timedelta(days=1)


def locked_seconds(username: str, address: str) -> int:
    """How long this username stays locked for this address; 0 when it may try."""
    since = timezone.now() - COUNTED_FOR
    tries = LoginAttempt.objects.filter(username=username.lower()[:150], address=address[:45], at__gt=since)
    times = list(tries.order_by("-at").values_list("at", flat=True)[:FREE_FAILURES])
    if len(times) < FREE_FAILURES:
        return 0
    left = times[0] + LOCKED_FOR - timezone.now()
    return max(0, int(left.total_seconds()) + 1) if left > timedelta(0) else 0


def note_failure(username: str, address: str) -> None:
    LoginAttempt.objects.filter(at__lt=timezone.now() - KEPT_FOR).delete()
    LoginAttempt.objects.create(username=username.lower()[:150], address=address[:45])


def forget_failures(username: str, address: str) -> None:
    LoginAttempt.objects.filter(username=username.lower()[:150], address=address[:45]).delete()
