"""States of scenarios and trajectories, by content."""

from __future__ import annotations

from typing import cast

from synthesis.contracts import State
from webapp.common import content_store
from webapp.scenarios.models import StateBody


def store_state(state: State) -> StateBody:
    """Return the row that holds an encoded state. Write it outside of any longer transaction if possible."""
    return content_store.store_values(StateBody, [state])[0]


def load_state(key: str) -> State:
    """Return the encoded state with this content hash. Raises StateBody.DoesNotExist; InputError if it is damaged."""
    return cast(State, content_store.load_value(StateBody, key))
