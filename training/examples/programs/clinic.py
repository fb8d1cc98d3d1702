"""A clinic's free days and its appointments."""

import json
from typing import Any


class Clinic:
    """Built from an initial-state dict; every attribute is part of the state."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.free = {doctor: list(days) for doctor, days in state["free"].items()}
        self.booked = [list(entry) for entry in state["booked"]]

    def next_free(self, doctor: str) -> str:
        """A doctor's first free day."""
        if not self.free.get(doctor):
            raise ValueError("no such doctor, or no free day")
        return json.dumps({"day": self.free[doctor][0]})

    def book(self, doctor: str, patient: str, day: str) -> str:
        """Book a patient on a day that may be free."""
        if doctor not in self.free:
            raise ValueError("no such doctor")
        # Like many a reception desk this one writes down what it is told.
        if day in self.free[doctor]:
            self.free[doctor].remove(day)
        self.booked.append([doctor, patient, day])
        return "booked"
