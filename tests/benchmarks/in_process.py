"""The demo's environments as TRL takes them: methods of an object in the trainer's own process, without a sandbox."""

from __future__ import annotations

import copy
import json
from typing import Any

from training.examples.tasks import build_program


class _Environment:
    name = ""

    def reset(self, task: str = "", **_: Any) -> None:
        told = json.loads(task)
        space: dict[str, Any] = {}
        exec(compile(told["program"]["source"], self.name, "exec"), space)
        self._checks = [_loaded(check["source"]) for check in told["verifier"]["checks"]]
        self._marks = told["verifier"]["marks"]
        self._program = space[told["program"]["class_name"]](copy.deepcopy(told["initial"]))
        self._initial = copy.deepcopy(vars(self._program))

    def get_reward(self) -> float:
        final = copy.deepcopy(vars(self._program))
        passed = [bool(check(self._initial, final, "")) for check in self._checks]
        goals = [done for done, mark in zip(passed, self._marks, strict=True) if mark == "goal"]
        kept = all(done for done, mark in zip(passed, self._marks, strict=True) if mark == "guard")
        return sum(goals) / len(goals) if kept else 0.0


def _loaded(source: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(source, "check", "exec"), space)
    return space["check"]


class Lamps(_Environment):
    name = "lamps"

    def switch(self, room: str, on: bool) -> str:
        """Turn the lamp of a room on or off.

        Args:
            room: The room.
            on: On or off.
        """
        return str(self._program.switch(room, on))


class Depot(_Environment):
    name = "depot"

    def buyer(self, item: str) -> str:
        """The city of the one who bought an item.

        Args:
            item: The item.
        """
        return str(self._program.buyer(item))

    def send(self, item: str, city: str) -> str:
        """Send an item to a city.

        Args:
            item: The item.
            city: The city.
        """
        return str(self._program.send(item, city))


class Library(_Environment):
    name = "library"

    def look_up(self, title: str) -> str:
        """Whether a book is late or in time.

        Args:
            title: The book.
        """
        return str(self._program.look_up(title))

    def fine(self, title: str) -> str:
        """Fine the reader of a book.

        Args:
            title: The book.
        """
        return str(self._program.fine(title))

    def extend(self, title: str) -> str:
        """Lend a book for longer.

        Args:
            title: The book.
        """
        return str(self._program.extend(title))


class Clinic(_Environment):
    name = "clinic"

    def next_free(self, doctor: str) -> str:
        """A doctor's first free day.

        Args:
            doctor: The doctor.
        """
        return str(self._program.next_free(doctor))

    def book(self, doctor: str, patient: str, day: str) -> str:
        """Book a patient on a day that may be free.

        Args:
            doctor: The doctor.
            patient: The patient.
            day: The day.
        """
        return str(self._program.book(doctor, patient, day))


FACTORIES = {made.name: made for made in (Clinic, Depot, Lamps, Library)}
assert all(build_program(name).class_name == made.__name__ for name, made in FACTORIES.items())
