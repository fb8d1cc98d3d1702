"""A depot that sends goods to cities."""

from typing import Any


class Depot:
    """Built from an initial-state dict; every attribute is part of the state."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.stock = dict(state["stock"])
        self.sent = [list(parcel) for parcel in state["sent"]]

    def count(self, item: str) -> int:
        """How many of an item are in stock."""
        if item not in self.stock:
            raise ValueError("no such item")
        return int(self.stock[item])

    def send(self, item: str, quantity: int, city: str) -> str:
        """Send some of an item to a city."""
        if item not in self.stock:
            raise ValueError("no such item")
        if not 0 < quantity <= self.stock[item]:
            raise ValueError("not enough in stock")
        self.stock[item] -= quantity
        self.sent.append([item, quantity, city])
        return "sent"
