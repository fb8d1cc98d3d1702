"""Tally of a dataset's rows while they are frozen: lengths, names, approvals, sources, and what each side asks."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from synthesis.contracts import Reference
from synthesis.formats.spoken_facts import is_fact_check
from training.dataset import Row, Split, TaskRow, assign_side
from webapp.datasets.evidence.near_duplicates import SidesCompared
from webapp.datasets.row_source import SourcedRows
from webapp.datasets.storage import NAMES_FILE


@dataclass
class RowTally:
    """Counts of rows as they pass. Lengths take four bytes a row; names and texts are stored only once each."""

    split: Split
    lengths: array[int] = field(default_factory=lambda: array("L"))
    environments: set[str] = field(default_factory=set)
    behaviours: set[str] = field(default_factory=set)
    without_environment: int = 0
    without_behaviour: int = 0
    approvals: Counter[str] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    verifiers: Counter[str] = field(default_factory=Counter)
    weak: int = 0
    compared: SidesCompared = field(default_factory=SidesCompared)

    def tally_sourced_rows(self, sourced: Iterable[SourcedRows]) -> Iterator[Row]:
        """Count and yield rows that were chosen here."""
        for given in sourced:
            for row in given.rows:
                self.approvals[given.approval] += 1
                self.sources[row.environment.partition(":")[0]] += 1
                yield self._count_row(row, given.reference)

    def tally_file_rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Count and yield rows of an uploaded file."""
        for row in rows:
            yield self._count_row(row, None)

    def _count_row(self, row: Row, reference: Reference | None) -> Row:
        self.lengths.append(count_row_characters(row))
        self.environments |= {row.environment} if row.environment else set()
        self.behaviours |= {row.behaviour} if row.behaviour else set()
        self.without_environment += not row.environment
        self.without_behaviour += not row.behaviour
        if isinstance(row, TaskRow):
            verifier = row.rollout.verifier
            self.verifiers[verifier.kind] += 1
            self.weak += any(is_fact_check(check.source) for check in verifier.checks)
        if self.split.test_share:
            self.compared.add(row, assign_side(row, self.split), reference)
        return row

    def summarize_lengths(self) -> dict[str, float]:
        if not self.lengths:
            return {}
        ordered = sorted(self.lengths)
        p95 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]
        return {"mean": round(sum(ordered) / len(ordered), 1), "p95": p95, "most": ordered[-1]}

    def write_names(self, folder: Path) -> None:
        """Write the names that other datasets can be kept apart from, beside the dataset's files."""
        names = {
            "environments": sorted(self.environments),
            "behaviours": sorted(self.behaviours),
            "without_environment": self.without_environment,
            "without_behaviour": self.without_behaviour,
        }
        (folder / NAMES_FILE).write_text(json.dumps(names), encoding="utf-8")


def count_row_characters(row: Row) -> int:
    """Count the characters that a model reads of a row: of a task all before its first turn, of a trajectory the
    whole."""
    if isinstance(row, TaskRow):
        tools = sum(len(tool.model_dump_json()) for tool in row.rollout.offered_tools)
        return len(row.rollout.instruction) + len(row.rollout.documentation) + tools
    spoken = (*row.messages, *row.prompt, *row.completion)
    return sum(len(message.model_dump_json(exclude_defaults=True)) for message in spoken) + sum(
        len(tool.model_dump_json()) for tool in row.tools
    )
