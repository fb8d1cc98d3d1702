"""Reads on endpoints: the models that people may choose from."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from synthesis.llm.calls import DEFAULTS, Sampling
from synthesis.llm.cost import Price
from webapp.endpoints.models import Endpoint, LLMRole, RoleModel, RoleSampling


@dataclass(frozen=True)
class ModelChoice:
    """A model of an endpoint as a choice: `value` is `endpoint id/model`."""

    endpoint_id: int
    endpoint: str
    model: str

    @property
    def value(self) -> str:
        return f"{self.endpoint_id}/{self.model}"

    @property
    def label(self) -> str:
        return f"{self.endpoint}: {self.model}"


def list_endpoints() -> QuerySet[Endpoint]:
    """Return every endpoint, without its key."""
    return Endpoint.objects.order_by("name")


def list_model_choices() -> list[ModelChoice]:
    return [
        ModelChoice(endpoint.pk, endpoint.name, model)
        for endpoint in list_endpoints().only("name", "model_names")
        for model in endpoint.model_names
    ]


def find_choice(value: str) -> tuple[Endpoint, str] | None:
    """Return the endpoint and model that `value` names, None if there is no such model."""
    number, _, model = value.partition("/")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return None
    row = Endpoint.objects.filter(pk=int(number)).first()
    return (row, model) if row is not None and model in row.model_names else None


@dataclass(frozen=True)
class PriceLine:
    """A model with its price, None if it is unknown. `listed` is true if its endpoint still lists the model."""

    model: str
    price: Price | None
    listed: bool = True


def list_price_lines(row: Endpoint) -> list[PriceLine]:
    """Return every model that the endpoint lists or has a price for."""
    stored_prices = {model: Price.model_validate(price) for model, price in row.prices.items()}
    listed = [PriceLine(model, stored_prices.get(model)) for model in row.model_names]
    return listed + [
        PriceLine(model, price, False) for model, price in stored_prices.items() if model not in row.model_names
    ]


@dataclass(frozen=True)
class LeftOutLine:
    """A parameter that requests to a model leave out, and the reason."""

    model: str
    name: str
    instead: str
    said: str


def list_left_out_lines(row: Endpoint) -> list[LeftOutLine]:
    return [
        LeftOutLine(model, name, known.get("instead", ""), known.get("said", ""))
        for model, names in row.left_out.items()
        for name, known in names.items()
    ]


def load_prices() -> dict[str, Price]:
    """Return every known price by the name that calls are counted under (`endpoint/model`)."""
    return {
        f"{endpoint.name}/{model}": Price.model_validate(price)
        for endpoint in list_endpoints().only("name", "prices")
        for model, price in endpoint.prices.items()
    }


@dataclass(frozen=True)
class RoleLine:
    """A role with its default model. `gone` names a model that its endpoint no longer lists; it is used all the
    same."""

    role: str
    label: str
    value: str
    gone: str = ""


def list_role_lines() -> list[RoleLine]:
    """Return every role with its default model, empty if none is set."""
    lines = {default.role: _build_role_line(default) for default in RoleModel.objects.select_related("endpoint")}
    return [lines.get(value, RoleLine(value, label, "")) for value, label in LLMRole.choices]


def _build_role_line(default: RoleModel) -> RoleLine:
    choice = ModelChoice(default.endpoint_id, default.endpoint.name, default.model)
    missing_label = "" if default.model in default.endpoint.model_names else choice.label
    return RoleLine(default.role, LLMRole(default.role).label, choice.value, missing_label)


def get_sampling_defaults() -> dict[str, Sampling]:
    """Return the sampling of each role that has one; stored values override the built-in ones."""
    stored_values = {row.role: Sampling.model_validate(row.values) for row in RoleSampling.objects.all()}
    return dict(DEFAULTS) | stored_values


def find_default_model(role: str) -> tuple[Endpoint, str] | None:
    """Return the default model of a role with its endpoint; None if none is set."""
    default = RoleModel.objects.select_related("endpoint").filter(role=role).first()
    return (default.endpoint, default.model) if default else None
