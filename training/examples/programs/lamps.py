"""Lamps in the rooms of a house."""

from typing import Any


class Lamps:
    """Built from an initial-state dict; every attribute is part of the state."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.lit = dict(state["lit"])

    def switch(self, room: str, on: bool) -> str:
        """Turn the lamp of a room on or off."""
        if room not in self.lit:
            raise ValueError("no such room")
        self.lit[room] = on
        return "on" if on else "off"
