"""Actions on a batch from its page: start, pause, resume, cancel, try again, keep a near-duplicate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from synthesis.errors import InputError
from webapp.accounts.access import access
from webapp.batches import queries, services
from webapp.batches.models import Batch, BatchItem, ItemState
from webapp.batches.pages import batch_list
from webapp.lists.bulk_acts import bulk_page
from webapp.query_params import Params


@access("synthesise")
@require_POST
def start(request: HttpRequest, pk: int) -> HttpResponse:
    return _done(request, pk, lambda: services.start_batch(request.user, pk), "The batch was started.")


@access("synthesise")
@require_POST
def pause(request: HttpRequest, pk: int) -> HttpResponse:
    message = "The batch is paused. Calls in flight end and are stored; nothing new begins."
    return _done(request, pk, lambda: services.pause_batch(request.user, pk), message)


@access("synthesise")
@require_POST
def resume(request: HttpRequest, pk: int) -> HttpResponse:
    """With another cap where the form gives one."""

    def act() -> Any:
        return services.resume_batch(request.user, pk, _money(request.POST.get("cap", "")))

    return _done(request, pk, act, "The batch goes on.")


@access("synthesise")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def bulk(request: HttpRequest, act: str) -> HttpResponse:
    """What an act on the selected batches would be, and the act."""
    return bulk_page(request, batch_list.BULK, act)


@access("synthesise")
@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    message = "The batch was cancelled. What was kept stays."
    return _done(request, pk, lambda: services.cancel_batch(request.user, pk), message)


@access("synthesise")
@require_POST
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Of what failed (and was rejected, with `rejected`): an `item`, a `stage`, what ended `like` an item, or all."""
    item, alike = (_item(pk, Params(request.POST).id(name)) for name in ("item", "like"))
    states = (ItemState.FAILED, ItemState.REJECTED) if request.POST.get("rejected") else (ItemState.FAILED,)
    asked: dict[str, Any] = {
        "item": item.pk if item else None,
        "stage": request.POST.get("stage", "").replace("\x00", "")[:40],
        "signature": alike.signature if alike else "",
        "states": states,
    }

    def act() -> str:
        gone = (request.POST.get("item") and not item) or (request.POST.get("like") and not asked["signature"])
        if gone:
            raise InputError("What was to be tried again has not failed any more. This is how the batch stands now.")
        count = services.retry_items(request.user, pk, **asked)
        return f"{count:,} item{'s' * (count != 1)} {'were' if count != 1 else 'was'} queued again."

    return _done(request, pk, act, "", item)


@access("synthesise")
@require_POST
def keep(request: HttpRequest, pk: int) -> HttpResponse:
    """Let a theme go on that was left out as a near-duplicate."""
    item = get_object_or_404(BatchItem.objects.only("id", "batch_id"), pk=pk)

    def act() -> Any:
        return services.keep_duplicate(request.user, item.batch_id, pk, queries.find_pipeline(item.batch_id))

    return _done(request, item.batch_id, act, "The theme goes on.", item)


def _done(
    request: HttpRequest, pk: int, act: Callable[[], Any], message: str, item: BatchItem | None = None
) -> HttpResponse:
    """Do it, say what came of it once, and show the page again."""
    get_object_or_404(Batch.objects.only("pk"), pk=pk)
    try:
        outcome = act()
        messages.success(request, message or str(outcome))
    except InputError as error:
        messages.error(request, str(error))
    return redirect("batches:item", item.pk) if item else redirect("batches:batch", pk)


def _item(batch: int, pk: int | None) -> BatchItem | None:
    return BatchItem.objects.filter(batch_id=batch, pk=pk).defer("spec").first() if pk is not None else None


def _money(text: str) -> float | None:
    """Raises InputError."""
    if not text.strip():
        return None
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(f"The cap is a number of at least 0, such as 2.5; {text[:30]!r} is none.")
    return value
