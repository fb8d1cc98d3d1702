"""A depot that sends goods to the cities of their buyers."""

import json
from typing import Any


class Depot:
    """Built from an initial-state dict; every attribute is part of the state."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.buyers = dict(state["buyers"])
        self.sent = [list(parcel) for parcel in state["sent"]]

    def buyer(self, item: str) -> str:
        """The city of the one who bought an item."""
        if item not in self.buyers:
            raise ValueError("no such item")
        return json.dumps({"city": self.buyers[item]})

    def send(self, item: str, city: str) -> str:
        """Send an item to a city."""
        if item not in self.buyers:
            raise ValueError("no such item")
        self.sent.append([item, city])
        return "sent"
