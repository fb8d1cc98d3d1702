"""Idempotent POSTs: of two requests with one `Idempotency-Key`, the second gets the answer of the first.

The operation and the stored answer are one transaction under a lock of the key, so that a crash leaves neither. An
operation behind `idempotent` therefore calls no LLM and no sandbox: it starts a job.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja.decorators import decorate_view

from webapp.accounts.models import IdempotentReply, User
from webapp.common.rest import problems
from webapp.common.rest.auth import get_caller
from webapp.common.rest.problems import Problem

KEPT_FOR = timedelta(hours=24)
FORGOTTEN_AT_ONCE = 100
LONGEST = 200

Run = Callable[..., HttpResponse]


def make_repeatable(run: Run) -> Run:
    """Wrap an operation's bound `run`. The access rule is checked first: a caller who lost access gets no stored
    answer."""
    rules = run.__self__.auth_callbacks  # type: ignore[attr-defined]

    @wraps(run)
    def answer_request(request: HttpRequest, **path: Any) -> HttpResponse:
        key = request.headers.get("Idempotency-Key", "")
        if not key:
            return run(request, **path)
        try:
            user = get_caller(request).user
            for rule in rules:
                rule(request)
        except Problem:
            return run(request, **path)  # answers with the problem
        try:
            return _answer_once(request, user, key, lambda: run(request, **path))
        except Problem as problem:
            return problems.build_response(request, problem)

    return answer_request


idempotent = decorate_view(make_repeatable)
"""Under `@router.post(...)`: honours the header `Idempotency-Key` of a person for 24 hours."""


@transaction.atomic
def _answer_once(request: HttpRequest, user: User, key: str, run: Callable[[], HttpResponse]) -> HttpResponse:
    if len(key) > LONGEST or not key.isascii() or not key.isprintable():
        raise Problem(400, f"An Idempotency-Key has 1 to {LONGEST} printable ASCII characters.", code="bad_key")
    if not _try_lock(user, key):
        message = "A request with this Idempotency-Key is being answered now. Try again in a moment."
        raise Problem(409, message, code="in_flight", headers={"Retry-After": "1"})
    mark = compute_fingerprint(request)
    stored_reply = IdempotentReply.objects.filter(user=user, key=key, created_at__gt=timezone.now() - KEPT_FOR).first()
    if stored_reply is not None:
        if stored_reply.fingerprint != mark:
            message = "This Idempotency-Key was sent before with another request. Take a new key for a new request."
            raise Problem(422, message, code="key_reused")
        headers = {"Idempotency-Replayed": "true"}
        return HttpResponse(
            bytes(stored_reply.body),
            status=stored_reply.status,
            content_type=stored_reply.content_type,
            headers=headers,
        )
    answer = run()
    # An error is not stored: a request with the same key may be tried again.
    if answer.status_code >= 400:
        transaction.set_rollback(True)
        return answer
    _delete_old_replies(user, key)
    kind = answer.headers.get("Content-Type", "")
    row = IdempotentReply(user=user, key=key, fingerprint=mark, status=answer.status_code, content_type=kind[:100])
    row.body = answer.content
    row.save()
    return answer


@transaction.atomic
def run_form_once(user: Any, key: str, make: Callable[[], str]) -> tuple[str, bool]:
    """Carry out a form once and return (the result of `make`, whether it ran now). A second POST waits for the first.

    `key` identifies the form as it was rendered and all that was filled in.
    """
    _wait_for_lock(user, key)
    stored_reply = IdempotentReply.objects.filter(user=user, key=key, created_at__gt=timezone.now() - KEPT_FOR).first()
    if stored_reply is not None:
        return bytes(stored_reply.body).decode(), False
    result = make()
    _delete_old_replies(user, key)
    IdempotentReply.objects.create(
        user=user, key=key, fingerprint="", status=302, content_type="text/plain", body=result.encode()
    )
    return result, True


def _compute_lock_number(user: Any, key: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{user.pk} {key}".encode()).digest()[:8], signed=True)


def _try_lock(user: User, key: str) -> bool:
    """Lock the key until the transaction ends; return False if another request has the lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_compute_lock_number(user, key)])
        return bool(cursor.fetchone()[0])


def _wait_for_lock(user: Any, key: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_compute_lock_number(user, key)])


def _delete_old_replies(user: Any, key: str) -> None:
    old = IdempotentReply.objects.filter(created_at__lte=timezone.now() - KEPT_FOR)
    old.filter(user=user, key=key).delete()
    spare = old.select_for_update(skip_locked=True).order_by("created_at").values("pk")[:FORGOTTEN_AT_ONCE]
    IdempotentReply.objects.filter(pk__in=list(spare.values_list("pk", flat=True))).delete()


def compute_fingerprint(request: HttpRequest) -> str:
    """Return the SHA-256 of method, address and body; of a multipart body its fields and the content of its files."""
    digest = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
    if request.content_type != "multipart/form-data":
        try:
            digest.update(request.body)
        except RequestDataTooBig as error:
            raise Problem(413, problems.SAID[413]) from error
        return digest.hexdigest()
    for name in sorted(request.POST):
        digest.update(f"{name}={request.POST.getlist(name)}\n".encode("utf-8", "backslashreplace"))
    for name in sorted(request.FILES):
        for file in request.FILES.getlist(name):
            digest.update(f"{name}:{file.name}:{file.size}\n".encode("utf-8", "backslashreplace"))
            for chunk in file.chunks():
                digest.update(chunk)
            file.seek(0)
    return digest.hexdigest()
