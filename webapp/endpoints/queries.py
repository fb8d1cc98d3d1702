"""Reads on endpoints: what people may choose from."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from synthesis.llm.cost import Price
from synthesis.llm.sampling import DEFAULTS, Sampling
from webapp.endpoints.models import Endpoint, LLMRole, RoleModel, RoleSampling


@dataclass(frozen=True)
class ModelChoice:
    """A model of an endpoint, as people choose it: `value` is `endpoint id/model`."""

    endpoint_id: int
    endpoint: str
    model: str

    @property
    def value(self) -> str:
        return f"{self.endpoint_id}/{self.model}"

    @property
    def label(self) -> str:
        return f"{self.endpoint}: {self.model}"


def endpoints() -> QuerySet[Endpoint]:
    """Every endpoint, without its key."""
    return Endpoint.objects.order_by("name")


def choices() -> list[ModelChoice]:
    return [
        ModelChoice(endpoint.pk, endpoint.name, model)
        for endpoint in endpoints().only("name", "model_names")
        for model in endpoint.model_names
    ]


def find_choice(value: str) -> tuple[Endpoint, str] | None:
    """The endpoint and model that `value` names, None where there is no such one."""
    number, _, model = value.partition("/")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return None
    row = Endpoint.objects.filter(pk=int(number)).first()
    return (row, model) if row is not None and model in row.model_names else None


@dataclass(frozen=True)
class PriceLine:
    """A model with its price, None where nobody has said it. `listed`: its endpoint still lists it."""

    model: str
    price: Price | None
    listed: bool = True


def prices_of(row: Endpoint) -> list[PriceLine]:
    """Every model that the endpoint lists or has a price for."""
    known = {model: Price.model_validate(price) for model, price in row.prices.items()}
    listed = [PriceLine(model, known.get(model)) for model in row.model_names]
    return listed + [PriceLine(model, price, False) for model, price in known.items() if model not in row.model_names]


@dataclass(frozen=True)
class LeftOutLine:
    """A parameter that requests to a model do without, and why."""

    model: str
    name: str
    instead: str
    said: str


def left_out_of(row: Endpoint) -> list[LeftOutLine]:
    return [
        LeftOutLine(model, name, known.get("instead", ""), known.get("said", ""))
        for model, names in row.left_out.items()
        for name, known in names.items()
    ]


def prices() -> dict[str, Price]:
    """Every known price by the name that calls are counted under (`endpoint/model`)."""
    return {
        f"{endpoint.name}/{model}": Price.model_validate(price)
        for endpoint in endpoints().only("name", "prices")
        for model, price in endpoint.prices.items()
    }


@dataclass(frozen=True)
class RoleLine:
    """A role with its default model. `gone` names one that its endpoint lists no more; it is used all the same."""

    role: str
    label: str
    value: str
    gone: str = ""


def roles() -> list[RoleLine]:
    """Every role with its default model, empty where none is set."""
    lines = {default.role: _line(default) for default in RoleModel.objects.select_related("endpoint")}
    return [lines.get(value, RoleLine(value, label, "")) for value, label in LLMRole.choices]


def _line(default: RoleModel) -> RoleLine:
    choice = ModelChoice(default.endpoint_id, default.endpoint.name, default.model)
    gone = "" if default.model in default.endpoint.model_names else choice.label
    return RoleLine(default.role, LLMRole(default.role).label, choice.value, gone)


def sampling_defaults() -> dict[str, Sampling]:
    """How each role is asked that somebody has said it of, and those that have a default of ours."""
    known = {row.role: Sampling.model_validate(row.values) for row in RoleSampling.objects.all()}
    return dict(DEFAULTS) | known


def default_of(role: str) -> tuple[Endpoint, str] | None:
    """The default model of a role."""
    default = RoleModel.objects.select_related("endpoint").filter(role=role).first()
    return (default.endpoint, default.model) if default else None
