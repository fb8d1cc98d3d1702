"""Views of webhooks: addresses with their last messages; add, test, switch off, give a new secret, delete."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from synthesis.errors import InputError
from webapp.accounts.access import require_scope
from webapp.common.paging import paginate_by_keyset
from webapp.webhooks import services
from webapp.webhooks.models import Delivery, Webhook


class WebhookForm(forms.Form):
    """Form of a new address."""

    name = forms.CharField(max_length=60)
    url = forms.CharField(
        label="Address",
        max_length=500,
        help_text="Public addresses need https; hosts inside a private network are listed at start in "
        "ENVARIUM_ENDPOINT_HOSTS. Redirects are not followed.",
    )


@require_scope("admin")
@never_cache
def list_webhooks(request: HttpRequest) -> HttpResponse:
    """Show all addresses and the form for a new one, whose secret is in the answer to the POST and nowhere else."""
    form = WebhookForm(request.POST or None)
    context: dict[str, Any] = {"form": form}
    status = 422 if form.is_bound else 200
    if request.method == "POST" and form.is_valid():
        try:
            webhook_and_secret = services.create_webhook(
                request.user, form.cleaned_data["name"], form.cleaned_data["url"]
            )
        except InputError as error:
            form.add_error(None, str(error))
        else:
            context |= {"made": webhook_and_secret[0], "secret": webhook_and_secret[1], "form": WebhookForm()}
            status = 201
    last = Delivery.objects.order_by("webhook_id", "-pk").distinct("webhook_id")
    newest = {row.webhook_id: row for row in last}
    context["webhooks"] = [(row, newest.get(row.pk)) for row in Webhook.objects.select_related("created_by")]
    return render(request, "webhooks/list.html", context, status=status)


@require_scope("admin")
@never_cache
def show_webhook(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one address and its messages, newest first. A POST gives it a new secret, shown in the answer alone."""
    row = get_object_or_404(Webhook, pk=pk)
    context: dict[str, Any] = {"webhook": row, "page": paginate_by_keyset(request, row.deliveries.order_by())}
    if request.method == "POST":
        context |= {"made": row, "secret": services.renew_secret(request.user, row)}
    return render(request, "webhooks/detail.html", context)


@require_scope("admin")
@require_POST
def send_test_message(request: HttpRequest, pk: int) -> HttpResponse:
    services.queue_test_delivery(request.user, get_object_or_404(Webhook, pk=pk))
    messages.success(request, "A test is queued: within a few seconds it is shown below with its answer.")
    return redirect("webhooks:detail", pk)


@require_scope("admin")
@require_POST
def switch_webhook(request: HttpRequest, pk: int) -> HttpResponse:
    """Start sending to the address if the form has `on`, else stop."""
    services.switch_webhook(request.user, get_object_or_404(Webhook, pk=pk), "on" in request.POST)
    return redirect("webhooks:detail", pk)


@require_scope("admin")
@require_POST
def delete_webhook(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Webhook, pk=pk)
    services.delete_webhook(request.user, row)
    messages.success(request, f"The webhook {row.name} is deleted, with the records of its messages.")
    return redirect("webhooks:list")
