"""The states of scenarios and trajectories, by content."""

from __future__ import annotations

from typing import cast

from synthesis.contracts import State
from webapp import content_store
from webapp.scenarios.models import StateBody


def store_state(state: State) -> StateBody:
    """The row that holds an encoded state. Write it outside of any longer transaction where that is possible."""
    return content_store.store(StateBody, [state])[0]


def load_state(key: str) -> State:
    """The encoded state with this content hash. Raises StateBody.DoesNotExist; InputError where it is damaged."""
    return cast(State, content_store.load(StateBody, key))
