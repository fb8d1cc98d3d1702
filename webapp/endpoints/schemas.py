"""Endpoints as the API shows them, without keys."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from ninja import Schema
from pydantic import ConfigDict, Field

from synthesis.llm.cost import Price
from synthesis.llm.endpoint import StructuredForm
from webapp.common.rest.types import BodyIn, ShortText, Text
from webapp.endpoints.services import MAX_MODELS, MAX_PRICE, EndpointChanges

EXAMPLE: dict[str, Any] = {
    "name": "local",
    "base_url": "https://models.example.org/v1",
    "key": "",
    "model_names": ["a-model"],
    "prices": {"a-model": {"prompt": 0.5, "completion": 1.5, "cached": None}},
}
PricedModel = Annotated[ShortText, Field(min_length=1)]
Money = Annotated[float, Field(ge=0, le=MAX_PRICE, allow_inf_nan=False)]


class EndpointLine(Schema):
    """An endpoint as all users may see it: enough to choose a model by name."""

    id: int
    name: str
    model_names: list[str]
    has_key: bool


class PriceOut(Schema):
    """Price of a million tokens, in the unit of spend caps. `cached` null: cached tokens cost the same as others."""

    prompt: float
    completion: float
    cached: float | None = None


class LeftOutOut(Schema):
    """The reason why requests leave out a parameter, and the name that replaces it."""

    instead: str = ""
    said: str = ""


class EndpointOut(EndpointLine):
    """An endpoint with its settings. `prices` are by model; a missing one is unknown, not free. `structured` is the
    form that replies are held to. `left_out` has by model the parameters that its server refused."""

    base_url: str
    max_concurrency: int
    timeout_s: int
    structured: StructuredForm
    prices: dict[str, PriceOut]
    left_out: dict[str, dict[str, LeftOutOut]]
    from_environment: bool
    created_at: datetime
    updated_at: datetime


class PriceIn(BodyIn):
    """Price of a million tokens, in the unit of spend caps; 0 if it is free."""

    prompt: Money
    completion: Money
    cached: Money | None = None


class EndpointIn(BodyIn):
    """Settings of an endpoint. `key`: if left out, the stored one stays; an empty text removes it. `prices`: if left
    out, the stored ones stay."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    name: Annotated[str, Field(min_length=1, max_length=60)]
    base_url: Annotated[Text, Field(min_length=1, max_length=500)]
    key: Annotated[Text, Field(max_length=2_000)] | None = None
    model_names: Annotated[list[ShortText], Field(max_length=MAX_MODELS)] = []
    max_concurrency: Annotated[int, Field(ge=1, le=1_000)] = 8
    timeout_s: Annotated[int, Field(ge=1, le=3_600)] = 120
    structured: StructuredForm = "none"
    prices: Annotated[dict[PricedModel, PriceIn], Field(max_length=MAX_MODELS)] | None = None

    def wish(self) -> EndpointChanges:
        prices = self.prices
        return EndpointChanges(
            name=self.name,
            base_url=self.base_url,
            key=self.key,
            models=tuple(self.model_names),
            max_concurrency=self.max_concurrency,
            timeout_s=self.timeout_s,
            structured=self.structured,
            prices={name: Price(**price.model_dump()) for name, price in prices.items()}
            if prices is not None
            else None,
        )


class TrialIn(BodyIn):
    """The model of the endpoint to try."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"model": "a-model"}]})

    model: Annotated[ShortText, Field(min_length=1)]


class TrialOut(Schema):
    """Outcome of a trial. `calls_tools` is null if no reply came. `structured` is the form of `response_format` that
    the server honours, null if that could not be found out; the trial changes nothing."""

    ok: bool
    message: str
    seconds: float
    calls_tools: bool | None
    structured: StructuredForm | None
