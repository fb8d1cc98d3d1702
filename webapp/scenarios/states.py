"""The states of scenarios and trajectories, by content."""

from __future__ import annotations

from synthesis.contracts import State
from webapp.bodies import load, store, unpack
from webapp.scenarios.models import StateBody

__all__ = ["load_state", "store_state", "unpack"]


def store_state(state: State) -> StateBody:
    """The row that holds an encoded state. Write it outside of any longer transaction where that is possible."""
    return store(StateBody, [state])[0]


def load_state(digest: str) -> State:
    """The encoded state with this content hash. Raises `StateBody.DoesNotExist`, or `InputError` if damaged."""
    return load(StateBody, digest)
