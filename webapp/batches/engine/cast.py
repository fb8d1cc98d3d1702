"""Cast of a batch: the model of each role, with its endpoint and prices, or the scripted provider."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from synthesis import llm
from synthesis.errors import InputError
from synthesis.llm.cost import Price, unpriced
from synthesis.llm.embedding import EmbeddingModel
from synthesis.scripted import ScriptedModel
from webapp.batches.spec import EMBEDDER, LOCAL, ROLES, SCRIPTED, BatchSettings
from webapp.endpoints.connections import note_left_out
from webapp.endpoints.queries import default_of, find_choice, sampling_defaults
from webapp.endpoints.queries import prices as known_prices
from webapp.endpoints.services import opened

Models = Mapping[str, Any]


@dataclass(frozen=True)
class Cast:
    """All that lanes need of the database to open their models. `endpoints` is by role: endpoint and model name."""

    endpoints: dict[str, tuple[llm.Endpoint, str]] = field(default_factory=dict)
    """Also the embedder's, where vectors are an endpoint's."""
    prices: dict[str, Price] = field(default_factory=dict)

    @property
    def names(self) -> dict[str, str]:
        """The model of each role as calls and provenance name it."""
        return {role: self._name(role) for role in (*ROLES, *({EMBEDDER} & self.endpoints.keys()))}

    def _name(self, role: str) -> str:
        chosen = self.endpoints.get(role)
        return f"{chosen[0].name}/{chosen[1]}" if chosen else SCRIPTED


def with_defaults(settings: BatchSettings) -> BatchSettings:
    """Every role with a model: what was named, else the role's default, else the scripted provider. And every role
    with how it is asked, so that a later change of the defaults does not change what is under way."""
    models = {role: settings.models.get(role) or _default(role) for role in ROLES}
    usual = sampling_defaults()
    sampling = {
        role: settings.sampling.get(role) or usual[role] for role in ROLES if role in usual and models[role] != SCRIPTED
    }
    embeddings = settings.embeddings or _default(EMBEDDER, LOCAL)
    changes = {"models": models, "sampling": settings.sampling | sampling, "embeddings": embeddings}
    return settings.model_copy(update=changes)


def _default(role: str, other: str = SCRIPTED) -> str:
    chosen = default_of(role)
    return f"{chosen[0].pk}/{chosen[1]}" if chosen else other


def chosen_models(settings: BatchSettings) -> dict[str, str]:
    """By role the `endpoint id/model` of all that endpoints are asked for, vectors too."""
    models = {role: value for role, value in settings.models.items() if value != SCRIPTED}
    return models | ({EMBEDDER: settings.embeddings} if settings.embeddings not in ("", LOCAL) else {})


def asks_nobody(settings: BatchSettings) -> bool:
    """Whether no endpoint is asked for anything, defaults of roles included."""
    return not chosen_models(with_defaults(settings))


def is_scripted(settings: BatchSettings) -> bool:
    return any(settings.models.get(role, SCRIPTED) == SCRIPTED for role in ROLES)


def require_models(settings: BatchSettings) -> None:
    """Raises InputError for a role or a model that is not known."""
    for role in settings.sampling:
        if role not in ROLES:
            raise InputError(f"There is no role {role[:30]!r}. The roles are {', '.join(ROLES)}.")
    for role in settings.models:
        if role not in ROLES:
            raise InputError(f"There is no role {role[:30]!r}. The roles are {', '.join(ROLES)}.")
    for role, value in chosen_models(settings).items():
        if find_choice(value) is None:
            raise InputError(f"The model of the {role} ({value[:80]!r}) is not listed at its endpoint. Choose another.")


def unpriced_models(settings: BatchSettings) -> list[str]:
    """Models of these settings whose price nobody has said, as calls name them."""
    choices = map(find_choice, sorted(set(chosen_models(settings).values())))
    names = [f"{chosen[0].name}/{chosen[1]}" for chosen in choices if chosen is not None]
    return unpriced(known_prices() | settings.prices, names)


def cast(settings: BatchSettings) -> Cast:
    """Raises InputError where an endpoint is gone or must not be used, LLMError where its name is not known."""
    endpoints, lanes = {}, lanes_of(settings)
    for role, value in chosen_models(settings).items():
        chosen = find_choice(value)
        if chosen is None:
            raise InputError(
                f"The model of the {role} ({value[:80]!r}) is not listed at its endpoint any more. Clone the batch "
                "and choose another."
            )
        endpoints[role] = shared(opened(chosen[0]), lanes), chosen[1]
    return Cast(endpoints, known_prices() | settings.prices | {SCRIPTED: Price()})


def lanes_of(settings: BatchSettings) -> int:
    """The lanes that are asked for, and no more than any of the endpoints takes requests: a lane's share is at least
    one."""
    choices = [find_choice(value) for value in set(chosen_models(settings).values())]
    return min([settings.lanes, *(chosen[0].max_concurrency for chosen in choices if chosen is not None)])


def shared(endpoint: llm.Endpoint, lanes: int) -> llm.Endpoint:
    """The endpoint with this lane's share of what may be asked of it at once."""
    return endpoint.model_copy(update={"max_concurrency": max(1, endpoint.max_concurrency // lanes)})


def plays_otherwise(now: Cast, before: Cast) -> bool:
    """Whether somebody else plays. What a server was found to refuse meanwhile does not count: who plays knows it."""
    return _apart(now) != _apart(before)


def _apart(cast: Cast) -> dict[str, tuple[llm.Endpoint, str]]:
    return {
        role: (endpoint.model_copy(update={"left_out": {}}), model)
        for role, (endpoint, model) in cast.endpoints.items()
    }


async def models_of(cast: Cast, stack: contextlib.AsyncExitStack) -> Models:
    """A model for each role, connections open until the stack closes; one connection an endpoint."""
    from synthesis.llm.client import open_models  # a second to import, which no page should wait for

    known = await stack.enter_async_context(open_models(cast.endpoints, note_left_out))
    models: dict[str, Any] = {role: known.get(role) or ScriptedModel() for role in ROLES}
    if (embedder := known.get(EMBEDDER)) is not None:
        models[EMBEDDER] = EmbeddingModel(embedder.connection, embedder.model)
    return models
