"""A clinic's free hours and its appointments."""

from typing import Any


class Clinic:
    """Built from an initial-state dict; every attribute is part of the state."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.free = {doctor: list(hours) for doctor, hours in state["free"].items()}
        self.booked = [list(entry) for entry in state["booked"]]

    def free_hours(self, doctor: str) -> list[int]:
        """A doctor's free hours, the first one first."""
        if doctor not in self.free:
            raise ValueError("no such doctor")
        return list(self.free[doctor])

    def book(self, doctor: str, patient: str, hour: int) -> str:
        """Book a patient at an hour that may be free."""
        if doctor not in self.free:
            raise ValueError("no such doctor")
        # Like many a reception desk this one writes down what it is told.
        if hour in self.free[doctor]:
            self.free[doctor].remove(hour)
        self.booked.append([doctor, patient, hour])
        return "booked"
