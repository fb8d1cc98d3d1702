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
from webapp.accounts.access import access
from webapp.paging import keyset
from webapp.webhooks import services
from webapp.webhooks.models import Delivery, Webhook


class WebhookForm(forms.Form):
    """A new address."""

    name = forms.CharField(max_length=60)
    url = forms.CharField(
        label="Address",
        max_length=500,
        help_text="Public addresses need https; hosts inside a private network are listed at start in "
        "ENVARIUM_ENDPOINT_HOSTS. Redirects are not followed.",
    )


@access("admin")
@never_cache
def listing(request: HttpRequest) -> HttpResponse:
    """All addresses and the form for a new one, whose secret is in the answer to the POST and nowhere else."""
    form = WebhookForm(request.POST or None)
    context: dict[str, Any] = {"form": form}
    status = 422 if form.is_bound else 200
    if request.method == "POST" and form.is_valid():
        try:
            made = services.create_webhook(request.user, form.cleaned_data["name"], form.cleaned_data["url"])
        except InputError as error:
            form.add_error(None, str(error))
        else:
            context |= {"made": made[0], "secret": made[1], "form": WebhookForm()}
            status = 201
    last = Delivery.objects.order_by("webhook_id", "-pk").distinct("webhook_id")
    newest = {row.webhook_id: row for row in last}
    context["webhooks"] = [(row, newest.get(row.pk)) for row in Webhook.objects.select_related("created_by")]
    return render(request, "webhooks/list.html", context, status=status)


@access("admin")
@never_cache
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One address and what was sent to it, newest first. A POST gives it a new secret, shown in the answer alone."""
    row = get_object_or_404(Webhook, pk=pk)
    context: dict[str, Any] = {"webhook": row, "page": keyset(request, row.deliveries.order_by())}
    if request.method == "POST":
        context |= {"made": row, "secret": services.new_secret_of(request.user, row)}
    return render(request, "webhooks/detail.html", context)


@access("admin")
@require_POST
def test(request: HttpRequest, pk: int) -> HttpResponse:
    services.send_test(request.user, get_object_or_404(Webhook, pk=pk))
    messages.success(request, "A test waits to be sent: within a few seconds it stands below with its answer.")
    return redirect("webhooks:detail", pk)


@access("admin")
@require_POST
def switch(request: HttpRequest, pk: int) -> HttpResponse:
    """`on` begins to send there again; without it nothing is sent any more."""
    services.switch(request.user, get_object_or_404(Webhook, pk=pk), "on" in request.POST)
    return redirect("webhooks:detail", pk)


@access("admin")
@require_POST
def delete(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Webhook, pk=pk)
    services.delete_webhook(request.user, row)
    messages.success(request, f"The webhook {row.name} is deleted, with what is known of its messages.")
    return redirect("webhooks:list")
