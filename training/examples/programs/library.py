"""A library's loans: books are extended, or their readers fined."""

from typing import Any


class Library:
    """Built from an initial-state dict; every attribute is part of the state."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.loans = {title: dict(loan) for title, loan in state["loans"].items()}

    def look_up(self, title: str) -> str:
        """Whether a book is late or in time."""
        return "late" if self._loan(title)["late"] else "in time"

    def fine(self, title: str) -> str:
        """Fine the reader of a book."""
        self._loan(title)["fined"] = True
        return "fined"

    def extend(self, title: str) -> str:
        """Lend a book for longer."""
        self._loan(title)["extended"] = True
        return "extended"

    def _loan(self, title: str) -> dict[str, Any]:
        if title not in self.loans:
            raise ValueError("no such book")
        loan: dict[str, Any] = self.loans[title]
        return loan
