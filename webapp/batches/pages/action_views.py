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
from webapp.accounts.access import require_scope
from webapp.batches import queries, services
from webapp.batches.models import Batch, BatchItem, ItemState
from webapp.batches.pages import batch_list
from webapp.common.lists.bulk_acts import process_bulk_act
from webapp.common.query_params import Params


@require_scope("synthesise")
@require_POST
def start_batch(request: HttpRequest, pk: int) -> HttpResponse:
    return _act_and_redirect(request, pk, lambda: services.start_batch(request.user, pk), "The batch was started.")


@require_scope("synthesise")
@require_POST
def pause_batch(request: HttpRequest, pk: int) -> HttpResponse:
    message = "The batch is paused. Calls in flight end and are stored; nothing new begins."
    return _act_and_redirect(request, pk, lambda: services.pause_batch(request.user, pk), message)


@require_scope("synthesise")
@require_POST
def resume_batch(request: HttpRequest, pk: int) -> HttpResponse:
    """Resume the batch, with another cap if the form gives one."""

    def resume_with_cap() -> Any:
        return services.resume_batch(request.user, pk, _parse_cap(request.POST.get("cap", "")))

    return _act_and_redirect(request, pk, resume_with_cap, "The batch goes on.")


@require_scope("synthesise")
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def act_on_selection(request: HttpRequest, act: str) -> HttpResponse:
    """Show what an action on the selected batches would do, or execute it."""
    return process_bulk_act(request, batch_list.BULK, act)


@require_scope("synthesise")
@require_POST
def cancel_batch(request: HttpRequest, pk: int) -> HttpResponse:
    message = "The batch was cancelled. What was kept stays."
    return _act_and_redirect(request, pk, lambda: services.cancel_batch(request.user, pk), message)


@require_scope("synthesise")
@require_POST
def retry_items(request: HttpRequest, pk: int) -> HttpResponse:
    """Retry failed items (rejected ones too, with `rejected`): an `item`, a `stage`, those that ended `like` an item,
    or all."""
    item, alike = (_find_batch_item(pk, Params(request.POST).id(name)) for name in ("item", "like"))
    states = (ItemState.FAILED, ItemState.REJECTED) if request.POST.get("rejected") else (ItemState.FAILED,)
    selection: dict[str, Any] = {
        "item": item.pk if item else None,
        "stage": request.POST.get("stage", "").replace("\x00", "")[:40],
        "signature": alike.signature if alike else "",
        "states": states,
    }

    def retry_selected() -> str:
        is_outdated = (request.POST.get("item") and not item) or (
            request.POST.get("like") and not selection["signature"]
        )
        if is_outdated:
            raise InputError("The items to try again are no longer failed. This is the current state of the batch.")
        count = services.retry_items(request.user, pk, **selection)
        return f"{count:,} item{'s' * (count != 1)} {'were' if count != 1 else 'was'} queued again."

    return _act_and_redirect(request, pk, retry_selected, "", item)


@require_scope("synthesise")
@require_POST
def keep_duplicate(request: HttpRequest, pk: int) -> HttpResponse:
    """Let a theme continue that was left out as a near-duplicate."""
    item = get_object_or_404(BatchItem.objects.only("id", "batch_id"), pk=pk)

    def keep_selected() -> Any:
        return services.keep_duplicate(request.user, item.batch_id, pk, queries.get_pipeline(item.batch_id))

    return _act_and_redirect(request, item.batch_id, keep_selected, "The theme goes on.", item)


def _act_and_redirect(
    request: HttpRequest, pk: int, act: Callable[[], Any], message: str, item: BatchItem | None = None
) -> HttpResponse:
    """Call `act`, show its outcome in a message, and redirect to the page."""
    get_object_or_404(Batch.objects.only("pk"), pk=pk)
    try:
        outcome = act()
        messages.success(request, message or str(outcome))
    except InputError as error:
        messages.error(request, str(error))
    return redirect("batches:item", item.pk) if item else redirect("batches:batch", pk)


def _find_batch_item(batch: int, pk: int | None) -> BatchItem | None:
    return BatchItem.objects.filter(batch_id=batch, pk=pk).defer("spec").first() if pk is not None else None


def _parse_cap(text: str) -> float | None:
    """Return the cap as typed; None if empty. Raises InputError."""
    if not text.strip():
        return None
    try:
        value = float(text.strip().replace(",", "."))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(f"The cap is a number of at least 0, such as 2.5; {text[:30]!r} is none.")
    return value
