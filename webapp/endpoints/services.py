"""Writes on endpoints, each in the audit log, and the opening of a registered endpoint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from pydantic import ValidationError

from synthesis import llm
from synthesis.errors import InputError, LLMError
from synthesis.formats.values import clean_text
from synthesis.llm.calls import DEFAULTS, Sampling
from synthesis.llm.cost import Price
from synthesis.llm.endpoint import StructuredForm
from synthesis.llm.refusals import LeftOut
from webapp.accounts.services import write_audit_entry
from webapp.endpoints.addresses import check_address, require_plain_address
from webapp.endpoints.key_encryption import decrypt_key, encrypt_key
from webapp.endpoints.models import ASKED, Endpoint, LLMRole, RoleModel, RoleSampling, StructuredOutput
from webapp.endpoints.queries import find_choice

ENVIRONMENT_NAME = "default"
SERVED_PATH = "/api/v1/serving/v1"
"""Where this site answers for the models that its workers serve."""
MAX_MODELS = 500
MAX_PRICE = 1_000_000
_NAME = re.compile(r"[\w][\w .:-]{0,59}")


@dataclass(frozen=True)
class EndpointChanges:
    """Changes that a person asked for. `key` None keeps the stored one, "" removes it; `prices` None keeps the stored
    ones."""

    name: str
    base_url: str
    key: str | None = None
    models: tuple[str, ...] = ()
    max_concurrency: int = 8
    timeout_s: int = 120
    structured: StructuredForm = "none"
    prices: dict[str, Price] | None = None


def split_names(text: str) -> tuple[str, ...]:
    """Return the names in a typed text: one on each line, or separated by commas."""
    names = [clean_text(part.strip()) for part in re.split(r"[\n,]", text)]
    return tuple(dict.fromkeys(name for name in names if name))


def _build_checked_endpoint(wish: EndpointChanges, key: str, *, vouched: bool) -> llm.Endpoint:
    if not _NAME.fullmatch(wish.name):
        raise InputError("A name has 1 to 60 letters, digits, spaces or . : - _ and starts with a letter or digit.")
    if len(wish.models) > MAX_MODELS or any(len(name) > 200 for name in wish.models):
        raise InputError(f"At most {MAX_MODELS} models, each with at most 200 characters in its name.")
    _require_prices(wish.prices or {})
    require_plain_address(wish.base_url.strip(" "))
    try:
        opened = _build_endpoint(wish.name, wish.base_url, key, wish.max_concurrency, wish.timeout_s, wish.structured)
    except ValidationError as error:
        raise InputError("; ".join(fault["msg"].removeprefix("Value error, ") for fault in error.errors())) from None
    try:
        check_address(opened.base_url, vouched=vouched)
    except LLMError as error:
        raise InputError(str(error)) from None
    return opened


def _require_prices(prices: dict[str, Price]) -> None:
    if len(prices) > MAX_MODELS or any(not 0 < len(model) <= 200 for model in prices):
        raise InputError(f"At most {MAX_MODELS} prices, each for a model of 1 to 200 characters.")
    if any(max(price.prompt, price.completion, price.cached or 0.0) > MAX_PRICE for price in prices.values()):
        raise InputError(f"A million tokens cost {MAX_PRICE:,} at most: is this the price of a million?")


def _build_endpoint(
    name: str, base_url: str, key: str, concurrency: int, timeout_s: int, structured: str = "none"
) -> llm.Endpoint:
    return llm.Endpoint.model_validate(
        {
            "name": name,
            "base_url": base_url,
            "api_key": key,
            "max_concurrency": concurrency,
            "timeout_s": timeout_s,
            "deadline_s": timeout_s * 5,
            "structured": structured,
        }
    )


def save_endpoint(actor: Any, wish: EndpointChanges, pk: int | None = None) -> Endpoint:
    """Register an endpoint, or change one. Raises InputError and, for a deleted `pk`, Endpoint.DoesNotExist.

    A new address needs its key typed again, so that no key is sent to a server it was not meant for; its prices are
    cleared unless they are given.
    """
    before = Endpoint.objects.get(pk=pk) if pk is not None else None
    if before is not None:
        _require_registered(before)
    moved = before is not None and wish.base_url.strip().rstrip("/") != before.base_url
    if before is not None and wish.key is None and before.has_key and moved:
        raise InputError("The address has changed: type the key again, or choose to keep none.")
    key = wish.key if wish.key is not None else (decrypt_key(before.sealed_key) if before else "")
    opened = _build_checked_endpoint(wish, key, vouched=before is not None and before.from_environment and not moved)
    row = before or Endpoint()
    row.name, row.base_url = wish.name, opened.base_url
    row.model_names, row.max_concurrency, row.timeout_s = list(wish.models), wish.max_concurrency, wish.timeout_s
    row.structured = wish.structured
    if wish.prices is not None:
        row.prices = {model: price.model_dump() for model, price in wish.prices.items()}
    elif moved:
        row.prices = {}  # another server's
    if moved:
        row.left_out = {}
    row.sealed_key = encrypt_key(opened.api_key.get_secret_value())
    row.from_environment = row.from_environment and not moved
    try:
        with transaction.atomic():
            row.save()
            write_audit_entry(
                actor,
                "endpoint.change" if before else "endpoint.create",
                row,
                base_url=row.base_url,
                models=row.model_names[:20],
                key="set" if row.sealed_key else "none",
                prices=dict(list(row.prices.items())[:20]),
            )
    except IntegrityError:
        raise InputError(f"There is an endpoint named {wish.name} already.") from None
    return row


def _require_registered(row: Endpoint) -> None:
    """Raise InputError for this site's own endpoint."""
    if row.served_here:
        raise InputError(
            f"{row.name} is this site itself: its models are started and stopped on the pages of training jobs."
        )


@transaction.atomic
def delete_endpoint(actor: Any, pk: int) -> None:
    row = Endpoint.objects.select_for_update().get(pk=pk)
    _require_registered(row)
    write_audit_entry(actor, "endpoint.delete", row, base_url=row.base_url)
    row.delete()


@transaction.atomic
def save_models(actor: Any, pk: int, names: list[str]) -> None:
    """Store the models that a server listed, in place of the previous ones."""
    row = Endpoint.objects.select_for_update().get(pk=pk)
    _require_registered(row)
    row.model_names = names[:MAX_MODELS]
    row.save(update_fields=["model_names", "updated_at"])
    write_audit_entry(actor, "endpoint.models", row, models=row.model_names[:20], count=len(row.model_names))


@transaction.atomic
def save_structured(actor: Any, pk: int, form: str) -> None:
    """Store the form that the server holds its models to. Raises InputError."""
    if form not in StructuredOutput.values:
        raise InputError(f"There is no form of structured output {form[:30]!r}: {', '.join(StructuredOutput.values)}.")
    row = Endpoint.objects.select_for_update().get(pk=pk)
    before, row.structured = row.structured, form
    row.save(update_fields=["structured", "updated_at"])
    write_audit_entry(actor, "endpoint.structured", row, structured=form, before=before)


@transaction.atomic
def save_price(actor: Any, pk: int, model: str, price: Price | None) -> None:
    """Store the price of a million tokens of a model; None: it is unknown from now on. Raises InputError."""
    row = Endpoint.objects.select_for_update().get(pk=pk)
    before = row.prices.pop(model, None)
    if price is not None:
        row.prices[model] = price.model_dump()
        _require_prices({name: Price.model_validate(stored) for name, stored in row.prices.items()})
    row.save(update_fields=["prices", "updated_at"])
    write_audit_entry(actor, "endpoint.price", row, model=model, price=row.prices.get(model), before=before)


@transaction.atomic
def set_roles(actor: Any, values: dict[str, str]) -> None:
    """Store default models by role: `values` are of the form `endpoint id/model`, "" for none. All or nothing.

    Raises InputError.
    """
    current_defaults = {default.role: default for default in RoleModel.objects.select_for_update()}
    for role, value in values.items():
        if role not in LLMRole.values:
            raise InputError(f"There is no role {role[:30]!r}.")
        before = current_defaults.get(role)
        if value == (f"{before.endpoint_id}/{before.model}" if before else ""):
            continue
        chosen = find_choice(value) if value else None
        if value and chosen is None:
            raise InputError(f"The model chosen for {role} is not listed at its endpoint. Choose another one.")
        if chosen is None:
            RoleModel.objects.filter(role=role).delete()
        else:
            RoleModel.objects.update_or_create(role=role, defaults={"endpoint": chosen[0], "model": chosen[1]})
        write_audit_entry(
            actor, "endpoint.role", chosen[0] if chosen else None, role=role, model=chosen[1] if chosen else ""
        )


@transaction.atomic
def set_sampling(actor: Any, values: dict[str, Sampling]) -> None:
    """Store the default sampling by role. Raises InputError for an unknown role."""
    for role, sampling in values.items():
        if role not in ASKED:
            raise InputError(f"There is no role {role[:30]!r}.")
        chosen = sampling.model_dump(exclude_none=True)
        row = RoleSampling.objects.select_for_update().filter(role=role).first()
        usual = DEFAULTS.get(role, Sampling()).model_dump(exclude_none=True)
        if chosen == (row.values if row else usual):
            continue
        RoleSampling.objects.update_or_create(role=role, defaults={"values": chosen})
        write_audit_entry(
            actor, "endpoint.sampling", None, role=role, **{name: str(value) for name, value in chosen.items()}
        )


@transaction.atomic
def note_left_out(endpoint: str, left_out: LeftOut) -> None:
    """Store that a server refuses a parameter of a model, or cannot handle it. Do nothing if the endpoint was
    deleted."""
    row = Endpoint.objects.select_for_update().filter(name=endpoint).first()
    if row is None:
        return
    model_left_out = row.left_out.setdefault(left_out.model[:200], {})
    model_left_out[left_out.name[:60]] = {"instead": left_out.instead[:60], "said": clean_text(left_out.said)[:300]}
    row.save(update_fields=["left_out", "updated_at"])
    write_audit_entry(None, "endpoint.left_out", row, model=left_out.model[:200], parameter=left_out.name[:60])


@transaction.atomic
def forget_left_out(actor: Any, pk: int, model: str) -> None:
    """Send a model every parameter again: its server may accept them by now."""
    row = Endpoint.objects.select_for_update().get(pk=pk)
    if row.left_out.pop(model, None) is None:
        raise InputError(f"Nothing is left out of requests to {model[:80]}.")
    row.save(update_fields=["left_out", "updated_at"])
    write_audit_entry(actor, "endpoint.all_parameters", row, model=model[:200])


def open_endpoint(row: Endpoint) -> llm.Endpoint:
    """Return the endpoint with its key, to connect to. Raises InputError if it must not or cannot be used, LLMError if
    its name is unknown. Only its own address ever gets the key."""
    base_url = settings.SITE_URL.rstrip("/") + SERVED_PATH if row.served_here else row.base_url
    reach = check_address(base_url, vouched=row.from_environment or row.served_here)
    key = decrypt_key(row.sealed_key)
    endpoint = _build_endpoint(row.name, base_url, key, row.max_concurrency, row.timeout_s, row.structured)
    left_out = {
        model: {name: str(known.get("instead", "")) for name, known in names.items()}
        for model, names in row.left_out.items()
    }
    return endpoint.model_copy(update={"reach": reach, "left_out": left_out})


def register_from_environment() -> Endpoint | None:
    """Register or update the endpoint of OPENAI_BASE_URL and OPENAI_API_KEY, at every start."""
    url, key = settings.OPENAI_BASE_URL, settings.OPENAI_API_KEY
    if not url and not key:
        return None
    wish = EndpointChanges(ENVIRONMENT_NAME, url or "https://api.openai.com/v1", key)
    opened = _build_checked_endpoint(wish, key, vouched=True)
    row = Endpoint.objects.filter(name=ENVIRONMENT_NAME).first()
    if row is not None and not row.from_environment:
        return row  # a person took the name, or moved the address: theirs stays
    if row is not None and row.base_url == opened.base_url and _has_same_key(row, key):
        return row
    row = row or Endpoint(name=ENVIRONMENT_NAME)
    if row.base_url != opened.base_url:
        row.model_names, row.prices = [], {}  # another server's
    row.base_url, row.sealed_key, row.from_environment = opened.base_url, encrypt_key(key), True
    with transaction.atomic():
        row.save()
        write_audit_entry(None, "endpoint.environment", row, base_url=row.base_url, key="set" if key else "none")
    return row


def _has_same_key(row: Endpoint, key: str) -> bool:
    try:
        return decrypt_key(row.sealed_key) == key
    except InputError:
        return False
