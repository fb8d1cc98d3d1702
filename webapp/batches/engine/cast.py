"""Cast of a batch: the model of each role, with its endpoint and prices, or the scripted provider."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from synthesis import llm
from synthesis.errors import InputError
from synthesis.llm.cost import Price, list_unpriced
from synthesis.llm.embedding import EmbeddingModel
from synthesis.scripted import ScriptedModel
from webapp.batches.spec import EMBEDDER, LOCAL, ROLES, SCRIPTED, BatchSettings
from webapp.endpoints.connections import note_left_out
from webapp.endpoints.queries import find_choice, find_default_model, get_sampling_defaults
from webapp.endpoints.queries import load_prices as known_prices
from webapp.endpoints.services import open_endpoint

Models = Mapping[str, Any]


@dataclass(frozen=True)
class Cast:
    """All that lanes need from the database to open their models. `endpoints` maps roles to endpoint and model name."""

    endpoints: dict[str, tuple[llm.Endpoint, str]] = field(default_factory=dict)
    """Also the embedder's, where vectors are an endpoint's."""
    prices: dict[str, Price] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """The model of each role, as named in calls and provenance."""
        return {role: self._name(role) for role in (*ROLES, *({EMBEDDER} & self.endpoints.keys()))}

    def _name(self, role: str) -> str:
        chosen = self.endpoints.get(role)
        return f"{chosen[0].name}/{chosen[1]}" if chosen else SCRIPTED


def fill_in_defaults(settings: BatchSettings) -> BatchSettings:
    """Return the settings with a model for every role: the chosen one, else the role's default, else the scripted
    provider.

    Sampling parameters are filled in too, so that a later change of the defaults does not affect a running batch.
    """
    models = {role: settings.models.get(role) or _get_default_model(role) for role in ROLES}
    usual = get_sampling_defaults()
    sampling = {
        role: settings.sampling.get(role) or usual[role] for role in ROLES if role in usual and models[role] != SCRIPTED
    }
    embeddings = settings.embeddings or _get_default_model(EMBEDDER, LOCAL)
    changes = {"models": models, "sampling": settings.sampling | sampling, "embeddings": embeddings}
    return settings.model_copy(update=changes)


def _get_default_model(role: str, other: str = SCRIPTED) -> str:
    chosen = find_default_model(role)
    return f"{chosen[0].pk}/{chosen[1]}" if chosen else other


def map_chosen_models(settings: BatchSettings) -> dict[str, str]:
    """Return `endpoint id/model` by role for all roles that an endpoint serves, including the embedder."""
    models = {role: value for role, value in settings.models.items() if value != SCRIPTED}
    return models | ({EMBEDDER: settings.embeddings} if settings.embeddings not in ("", LOCAL) else {})


def needs_no_endpoint(settings: BatchSettings) -> bool:
    """Return whether no endpoint is used, also by the defaults of roles."""
    return not map_chosen_models(fill_in_defaults(settings))


def has_scripted_role(settings: BatchSettings) -> bool:
    return any(settings.models.get(role, SCRIPTED) == SCRIPTED for role in ROLES)


def require_models(settings: BatchSettings) -> None:
    """Raise InputError for an unknown role or model."""
    for role in settings.sampling:
        if role not in ROLES:
            raise InputError(f"There is no role {role[:30]!r}. The roles are {', '.join(ROLES)}.")
    for role in settings.models:
        if role not in ROLES:
            raise InputError(f"There is no role {role[:30]!r}. The roles are {', '.join(ROLES)}.")
    for role, value in map_chosen_models(settings).items():
        if find_choice(value) is None:
            raise InputError(f"The model of the {role} ({value[:80]!r}) is not listed at its endpoint. Choose another.")


def list_unpriced_models(settings: BatchSettings) -> list[str]:
    """Return the models of these settings without a known price, as named in calls."""
    choices = map(find_choice, sorted(set(map_chosen_models(settings).values())))
    names = [f"{chosen[0].name}/{chosen[1]}" for chosen in choices if chosen is not None]
    return list_unpriced(known_prices() | settings.prices, names)


def build_cast(settings: BatchSettings) -> Cast:
    """Return the cast of these settings. Raises InputError if an endpoint is gone or must not be used, LLMError if its
    host name is not known."""
    endpoints, lanes = {}, count_lanes(settings)
    for role, value in map_chosen_models(settings).items():
        chosen = find_choice(value)
        if chosen is None:
            raise InputError(
                f"The model of the {role} ({value[:80]!r}) is not listed at its endpoint any more. Clone the batch "
                "and choose another."
            )
        endpoints[role] = limit_to_lane_share(open_endpoint(chosen[0]), lanes), chosen[1]
    return Cast(endpoints, known_prices() | settings.prices | {SCRIPTED: Price()})


def count_lanes(settings: BatchSettings) -> int:
    """Return the requested number of lanes, at most the least concurrency of any endpoint: a lane's share is at least
    one request."""
    choices = [find_choice(value) for value in set(map_chosen_models(settings).values())]
    return min([settings.lanes, *(chosen[0].max_concurrency for chosen in choices if chosen is not None)])


def limit_to_lane_share(endpoint: llm.Endpoint, lanes: int) -> llm.Endpoint:
    """Return the endpoint with this lane's share of its concurrency."""
    return endpoint.model_copy(update={"max_concurrency": max(1, endpoint.max_concurrency // lanes)})


def has_other_models(now: Cast, before: Cast) -> bool:
    """Return whether the cast changed. Parameters that a server was found to refuse meanwhile do not count: the running
    client already knows them."""
    return _strip_left_out(now) != _strip_left_out(before)


def _strip_left_out(cast: Cast) -> dict[str, tuple[llm.Endpoint, str]]:
    return {
        role: (endpoint.model_copy(update={"left_out": {}}), model)
        for role, (endpoint, model) in cast.endpoints.items()
    }


async def open_cast_models(cast: Cast, stack: contextlib.AsyncExitStack) -> Models:
    """Open a model for each role; connections stay open until the stack closes, one per endpoint."""
    from synthesis.llm.client import open_models  # a second to import, which no page should wait for

    opened_models = await stack.enter_async_context(open_models(cast.endpoints, note_left_out))
    models: dict[str, Any] = {role: opened_models.get(role) or ScriptedModel() for role in ROLES}
    if (embedder := opened_models.get(EMBEDDER)) is not None:
        models[EMBEDDER] = EmbeddingModel(embedder.connection, embedder.model)
    return models
