"""Brake on failed sign-ins: by name and place, and by name alone, wherever the tries come from.

A place is a network address or a browser in which that name has signed in before, as a signed cookie shows. Such a
browser has tries of its own, so that other people elsewhere cannot use them up. No name is looked up here: an unknown
one is treated alike.
"""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.signing import BadSignature, TimestampSigner
from django.db import connection, transaction
from django.db.models import Count, Max
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from synthesis.formats.values import clean_text
from webapp.accounts.models import LoginAttempt
from webapp.accounts.origin import get_client_address
from webapp.accounts.services import write_audit_entry

FREE_FAILURES = 5
"""For a name at one place within `COUNTED_FOR`; each further one locks it there for `LOCKED_FOR`."""
COUNTED_FOR = timedelta(minutes=15)
LOCKED_FOR = timedelta(minutes=1)
FREE_BY_NAME = 20
"""For a name at all unknown places within `KEPT_FOR`; from there on each further one doubles the wait."""
FIRST_WAIT = timedelta(seconds=10)
LONGEST_WAIT = timedelta(minutes=5)
KEPT_FOR = timedelta(days=1)
KNOWN_FOR = timedelta(days=365)
BROWSER = "browser "


@dataclass(frozen=True)
class Place:
    """The origin of tries with a name. `browser` is the number of a known one."""

    username: str
    address: str
    browser: str = ""

    @property
    def key(self) -> str:
        """The key by which tries are counted; a household or a server has 2^64 addresses of IPv6, which are one
        place."""
        if self.browser:
            return f"{BROWSER}{self.browser}"
        try:
            address = ipaddress.ip_address(self.address)
        except ValueError:
            return self.address[:45]
        return str(ipaddress.ip_network((address, 64), strict=False) if address.version == 6 else address)


class Locked(Exception):
    """The username is locked for so many seconds: its password is not checked."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"locked for {seconds} seconds")
        self.seconds = seconds


def build_session_place(request: HttpRequest, username: str) -> Place:
    """Return the session of a signed-in user as a place.

    An attacker who took the session over has no more guesses at the password than others, and none of them count
    against the user elsewhere.
    """
    key = hashlib.sha256(str(request.session.session_key).encode()).hexdigest()
    return Place(username.lower()[:150], get_client_address(request), f"session {key[:24]}")


def build_place(request: HttpRequest | None, username: str) -> Place:
    name = username.lower()[:150]
    if request is None:
        return Place(name, "")
    try:
        browser = _make_signer(name).unsign(request.COOKIES.get(settings.KNOWN_BROWSER_COOKIE, ""), max_age=KNOWN_FOR)
    except BadSignature:
        browser = ""
    return Place(name, get_client_address(request), browser)


def remember_browser(request: HttpRequest, response: HttpResponse, username: str) -> None:
    """Mark this browser as known for this name, after a sign-in."""
    place = build_place(request, username)
    response.set_cookie(
        settings.KNOWN_BROWSER_COOKIE,
        _make_signer(place.username).sign(place.browser or secrets.token_urlsafe(16)),
        max_age=KNOWN_FOR,
        path=reverse("accounts:login"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )


def _make_signer(name: str) -> TimestampSigner:
    return TimestampSigner(salt=f"webapp.accounts.known-browser {name}")


@transaction.atomic
def begin_login(place: Place) -> int:
    """Return how many seconds this name stays locked here. At 0 it may try, once: that counts as a failure until
    `forget_failures`, since many concurrent tries would else all begin before the first has failed."""
    number = int.from_bytes(hashlib.sha256(f"login {place.username}".encode()).digest()[:8], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [number])
    wait = max(_get_wait_here(place), _get_wait_by_name(place))
    if not wait:
        LoginAttempt.objects.filter(at__lt=timezone.now() - KEPT_FOR).delete()
        LoginAttempt.objects.create(username=place.username, address=place.key)
    return wait


@contextmanager
def brake_login(place: Place) -> Iterator[None]:
    """Wrap the check of a password, which raises ValidationError if it is wrong. Raises `Locked` before it."""
    wait = begin_login(place)
    if wait:
        raise Locked(wait)
    try:
        yield
    except ValidationError:
        note_failure(place)
        raise
    forget_failures(place)


def note_failure(place: Place) -> None:
    """Write to the audit log if a failed login locks the name."""
    here, by_name = _get_wait_here(place), _get_wait_by_name(place)
    if here or by_name:
        everywhere = by_name > here
        write_audit_entry(
            None, "login.lock", username=clean_text(place.username), where="everywhere" if everywhere else "here"
        )


def forget_failures(place: Place) -> None:
    LoginAttempt.objects.filter(username=place.username, address=place.key).delete()


def _get_wait_here(place: Place) -> int:
    since = timezone.now() - COUNTED_FOR
    tries = LoginAttempt.objects.filter(username=place.username, address=place.key, at__gt=since)
    times = list(tries.order_by("-at").values_list("at", flat=True)[:FREE_FAILURES])
    return 0 if len(times) < FREE_FAILURES else _seconds_left(times[0] + LOCKED_FOR)


def _get_wait_by_name(place: Place) -> int:
    if place.browser:
        return 0
    tries = LoginAttempt.objects.filter(username=place.username, at__gt=timezone.now() - KEPT_FOR)
    failures = tries.exclude(address__startswith=BROWSER).aggregate(count=Count("pk"), last=Max("at"))
    above = failures["count"] - FREE_BY_NAME
    if above < 0:
        return 0
    return _seconds_left(failures["last"] + min(FIRST_WAIT * 2 ** min(above, 20), LONGEST_WAIT))


def _seconds_left(until: datetime) -> int:
    left = until - timezone.now()
    return int(left.total_seconds()) + 1 if left > timedelta(0) else 0
