"""Pages on endpoints: register, change, try, delete, and the model of each role."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from synthesis.errors import EnvariumError, InputError
from webapp.accounts.access import require_scope
from webapp.common.query_params import Params
from webapp.common.rest.api_examples import ApiExample, build_api_call
from webapp.endpoints import queries, services
from webapp.endpoints import trial as trying
from webapp.endpoints.forms import EndpointForm, PriceForm, SamplingForm
from webapp.endpoints.models import Endpoint, StructuredOutput
from webapp.endpoints.schemas import EXAMPLE, EndpointIn


@require_scope("admin")
@require_safe
@never_cache
def list_endpoints(request: HttpRequest) -> HttpResponse:
    return _render_list(request)


def _render_list(request: HttpRequest, form: SamplingForm | None = None) -> HttpResponse:
    """Show the list; with a `form` that was sent and is invalid."""
    lines = queries.list_role_lines()
    context = {
        "endpoints": queries.list_endpoints(),
        "choices": queries.list_model_choices(),
        "roles": lines,
        "roles_set": any(line.value for line in lines),
        "sampling": (form or SamplingForm()).rows(),
    }
    return render(request, "endpoints/list.html", context, status=200 if form is None else 422)


@require_scope("admin")
@require_http_methods(["GET", "HEAD", "POST"])
@sensitive_post_parameters("key")
@never_cache
def edit_endpoint(request: HttpRequest, pk: int | None = None) -> HttpResponse:
    """Register an endpoint, or change the one that `pk` names."""
    row = get_object_or_404(Endpoint, pk=pk) if pk is not None else None
    form = EndpointForm(request.POST if request.method == "POST" else None, row=row)
    if request.method == "POST" and form.is_valid():
        try:
            saved = services.save_endpoint(request.user, form.wish(), pk)
        except InputError as error:
            form.add_error(None, str(error))
        else:
            action = "saved" if row else "registered"
            messages.success(request, f"{saved.name} is {action}. Try a model to see whether it replies.")
            return redirect("endpoints:edit", saved.pk)
    status = 422 if request.method == "POST" else 200
    context: dict[str, Any] = {"form": form, "row": row, "copy_as": build_save_call(request, row)}
    if row is not None:
        structured_form = Params(request.GET).choice("found", StructuredOutput.values)
        context |= {"prices": queries.list_price_lines(row), "price_form": PriceForm()}
        context["left_out"] = queries.list_left_out_lines(row)
        context |= {
            "found": StructuredOutput(structured_form)
            if structured_form and structured_form != row.structured
            else None
        }
    return render(request, "endpoints/edit.html", context, status=status)


def build_save_call(request: HttpRequest, row: Endpoint | None) -> ApiExample:
    """Return the form as an API call: the settings of `row`, or an example. The key is left out, which keeps the stored
    one."""
    if row is None:
        return build_api_call(request, "POST", "api:create_endpoint", body=EXAMPLE)
    fields = [name for name in EndpointIn.model_fields if name != "key"]
    body = {name: getattr(row, name) for name in fields}
    return build_api_call(request, "PUT", "api:change_endpoint", args=(row.pk,), body=body)


@require_scope("admin")
@require_POST
def delete_endpoint(request: HttpRequest, pk: int) -> HttpResponse:
    row = get_object_or_404(Endpoint, pk=pk)
    services.delete_endpoint(request.user, pk)
    messages.success(request, f"{row.name} is deleted, with its key. Jobs that need it report that.")
    return redirect("endpoints:list")


@require_scope("admin")
@require_POST
def try_model(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a few tiny requests to one model; the page that follows offers to save what they found."""
    row = get_object_or_404(Endpoint, pk=pk)
    model = Params(request.POST).whole_text("model", 200, strip=True)
    if not model:
        messages.error(request, "Name a model to try. None is listed: look for models, or type their names.")
        return redirect("endpoints:edit", pk)
    outcome = trying.try_endpoint(row, model)
    level = messages.SUCCESS if outcome.calls_tools else messages.WARNING if outcome.ok else messages.ERROR
    messages.add_message(request, level, f"{outcome.message} ({outcome.seconds:.1f} s)")
    page = reverse("endpoints:edit", args=[pk])
    return redirect(f"{page}?found={outcome.structured}" if outcome.structured else page)


@require_scope("admin")
@require_POST
def save_structured_form(request: HttpRequest, pk: int) -> HttpResponse:
    """Store a form of structured output that a trial found."""
    row = get_object_or_404(Endpoint, pk=pk)
    try:
        services.save_structured(request.user, pk, request.POST.get("structured", ""))
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Saved. From now on, JSON is requested from {row.name} in this form.")
    return redirect("endpoints:edit", pk)


@require_scope("admin")
@require_POST
def refresh_models(request: HttpRequest, pk: int) -> HttpResponse:
    """Store the models that the server lists."""
    row = get_object_or_404(Endpoint, pk=pk)
    try:
        names = trying.look_for_models(row)
        services.save_models(request.user, pk, names)
    except EnvariumError as error:
        messages.error(request, str(error))
    else:
        limit_note = f" The first {services.MAX_MODELS} are kept." if len(names) > services.MAX_MODELS else ""
        messages.success(request, f"{row.name} lists {len(names):,} model{'' if len(names) == 1 else 's'}.{limit_note}")
    return redirect("endpoints:edit", pk)


@require_scope("admin")
@require_POST
def save_price(request: HttpRequest, pk: int) -> HttpResponse:
    """Store the price of a model, or (`forget`) remove it."""
    get_object_or_404(Endpoint, pk=pk)
    params, form = Params(request.POST), PriceForm(request.POST)
    model = params.text("forget")
    if not model:
        params.whole_text("model", 200)
    try:
        if model:
            services.save_price(request.user, pk, model, None)
        elif form.is_valid():
            model = form.cleaned_data["model"]
            services.save_price(request.user, pk, model, form.price())
        else:
            wrong = [
                f"{form.fields[name].label or name}: {errors.as_text()[2:]}" for name, errors in form.errors.items()
            ]
            raise InputError(f"The price is not saved. {' '.join(wrong)}")
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"The price of {model} is {'saved' if form.is_valid() else 'unknown now'}.")
    return redirect("endpoints:edit", pk)


@require_scope("admin")
@require_POST
def save_roles(request: HttpRequest) -> HttpResponse:
    """Save the default model of every role at once."""
    try:
        services.set_roles(
            request.user, {line.role: request.POST.get(line.role, "") for line in queries.list_role_lines()}
        )
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, "The roles are saved.")
    return redirect("endpoints:list")


@require_scope("admin")
@require_POST
def save_sampling(request: HttpRequest) -> HttpResponse:
    """Save the default sampling of every role."""
    form = SamplingForm(request.POST)
    if not form.is_valid():
        return _render_list(request, form)
    services.set_sampling(request.user, form.chosen())
    messages.success(request, "How the roles are asked is saved. Batches that run keep what they began with.")
    return redirect("endpoints:list")


@require_scope("admin")
@require_POST
def restore_parameters(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a model again the parameters that its server refused."""
    get_object_or_404(Endpoint, pk=pk)
    model = request.POST.get("model", "")[:200]
    try:
        services.forget_left_out(request.user, pk, model)
    except InputError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Requests to {model} hold every parameter again.")
    return redirect("endpoints:edit", pk)
