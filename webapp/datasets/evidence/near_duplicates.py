"""Near-duplicates between a dataset's sides: held-out rows that ask almost what a row to learn from asks.

A row is compared by its instruction and calls: those of the task's reference, else those that the agent made. Equal
texts of one side are compared once. What is found is written beside the dataset's files, its number into the manifest.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from django.core.files.storage import default_storage

from synthesis.contracts import Frozen, Reference
from training.dataset import NearDuplicateReport, Row, SideName, TaskRow
from webapp.datasets.evidence.near_pairs import NearPair, find_near_pairs
from webapp.datasets.models import Dataset
from webapp.datasets.storage import NEAR_FILE, get_manifest

THRESHOLD = 0.9
LISTED = 1_000
COMPARED_CHARS = 2_000
SHOWN_CHARS = 300


class NearRow(Frozen):
    """A row of a pair, with what it asks; `rows` of its side ask exactly that."""

    id: str
    said: str
    rows: int = 1


class NearDuplicate(Frozen):
    """A held-out row and the row to learn from that is nearest to it."""

    held_out: NearRow
    learnt: NearRow
    similarity: float


@dataclass
class SideTexts:
    """The different texts of one side, in a file; for each the id of the first row that has it, and how many have
    it."""

    file: IO[bytes] = field(default_factory=TemporaryFile)
    places: dict[bytes, int] = field(default_factory=dict)
    begins: array[int] = field(default_factory=lambda: array("Q", [0]))
    ids: list[str] = field(default_factory=list)
    said: list[int] = field(default_factory=list)
    rows: array[int] = field(default_factory=lambda: array("L"))

    def add(self, ident: str, said: str, calls: str) -> None:
        said = said[:COMPARED_CHARS]
        content = f"{said}\n{calls}"[: 2 * COMPARED_CHARS].encode("utf-8", "replace")
        digest = hashlib.sha256(content).digest()[:16]
        if digest in self.places:
            self.rows[self.places[digest]] += 1
            return
        self.places[digest] = len(self.ids)
        self.ids.append(ident)
        self.said.append(len(said))
        self.rows.append(1)
        self.file.write(content)
        self.begins.append(self.begins[-1] + len(content))

    def texts(self, numbers: Sequence[int]) -> list[str]:
        return [self._text(number) for number in numbers]

    def row(self, number: int) -> NearRow:
        said = self._text(number)[: min(self.said[number], SHOWN_CHARS)]
        return NearRow(id=self.ids[number], said=said, rows=self.rows[number])

    def _text(self, number: int) -> str:
        self.file.seek(self.begins[number])
        return self.file.read(self.begins[number + 1] - self.begins[number]).decode()


@dataclass
class SidesCompared:
    """The texts of both sides, collected as rows pass and compared at the end."""

    sides: dict[SideName, SideTexts] = field(default_factory=lambda: {"train": SideTexts(), "test": SideTexts()})

    def add(self, row: Row, side: SideName, reference: Reference | None) -> None:
        calls = format_reference_calls(reference) if reference is not None else format_made_calls(row)
        self.sides[side].add(row.id, get_row_instruction(row), calls)

    def write(self, folder: Path, tell: Callable[[int, int], None]) -> NearDuplicateReport:
        """Compare, and write the list into the dataset's folder. The callback may raise to stop."""
        learnt, held_out = self.sides["train"], self.sides["test"]
        pairs = self._find_pairs(tell)
        rows = sum(held_out.rows[pair.asked] for pair in pairs)
        pairs.sort(key=lambda pair: (-pair.similarity, pair.asked))
        listed_duplicates = [
            NearDuplicate(held_out=held_out.row(pair.asked), learnt=learnt.row(pair.other), similarity=pair.similarity)
            for pair in pairs[:LISTED]
        ]
        (folder / NEAR_FILE).write_text(json.dumps([pair.model_dump() for pair in listed_duplicates]), encoding="utf-8")
        compared = len(learnt.ids) + len(held_out.ids)
        return NearDuplicateReport(threshold=THRESHOLD, compared=compared, rows=rows, listed=len(listed_duplicates))

    def _find_pairs(self, tell: Callable[[int, int], None]) -> list[NearPair]:
        learnt, held_out = self.sides["train"], self.sides["test"]
        equal = {place: learnt.places[digest] for digest, place in held_out.places.items() if digest in learnt.places}
        others = [place for place in range(len(held_out.ids)) if place not in equal]
        near = find_near_pairs(
            lambda numbers: held_out.texts([others[number] for number in numbers]),
            len(others),
            learnt.texts,
            len(learnt.ids),
            THRESHOLD,
            tell,
        )
        pairs = [NearPair(others[pair.asked], pair.other, pair.similarity) for pair in near]
        return pairs + [NearPair(place, other, 1.0) for place, other in equal.items()]


def get_row_instruction(row: Row) -> str:
    """Return the instruction of a task, or the first message of the user."""
    if isinstance(row, TaskRow):
        return row.rollout.instruction
    return next((message.content for message in (*row.messages, *row.prompt) if message.role == "user"), "")


def format_reference_calls(reference: Reference) -> str:
    return "\n".join(_format_call(call.tool, call.arguments) for call in reference.calls)


def format_made_calls(row: Row) -> str:
    """Return the calls that an agent made in a row; none for a task."""
    if isinstance(row, TaskRow):
        return ""
    spoken = (*row.messages, *row.prompt, *row.completion)
    return "\n".join(
        _format_call(call.function.name, call.function.arguments) for message in spoken for call in message.tool_calls
    )


def _format_call(tool: str, arguments: dict[str, Any]) -> str:
    return f"{tool} {json.dumps(arguments, ensure_ascii=False, sort_keys=True)}"


def load_listed_pairs(dataset: Dataset) -> list[NearDuplicate]:
    """Return the pairs that were found when a dataset was frozen, the most similar first. Raises Conflict: it is not
    ready."""
    get_manifest(dataset)
    return list(_read_stored_pairs(f"{dataset.stored}/{NEAR_FILE}"))


def _read_stored_pairs(name: str) -> Iterator[NearDuplicate]:
    if default_storage.exists(name):
        with default_storage.open(name, "rb") as file:
            yield from map(NearDuplicate.model_validate, json.load(file))
