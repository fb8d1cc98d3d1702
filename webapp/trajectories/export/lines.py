"""One export: lines a few trajectories at a time, so that memory does not grow, and the manifest of the whole."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from synthesis.errors import FormatError
from synthesis.formats.sft import Conversation, build_loading_config, build_sft_records, format_record_line
from webapp.trajectories.export.filters import CHUNK, FilterCounts
from webapp.trajectories.export.record_source import COLUMNS
from webapp.trajectories.export.spec import ExportSpec
from webapp.trajectories.models import Trajectory
from webapp.trajectories.trajectory_list import filter_trajectories

REASONS = 20
DATA = "train.jsonl"


class Export:
    """One export. Read `pieces` to its end, then call `manifest`. Newest first; a second export has the same bytes."""

    def __init__(self, spec: ExportSpec, check: Callable[[int], None] = lambda seen: None) -> None:
        self.spec = spec
        self.check = check
        self.sieve = FilterCounts(spec.sifting)
        self.tasks: dict[int, dict[str, Any]] = {}
        self.policies: Counter[str] = Counter()
        self.digest = hashlib.sha256()
        self.name = DATA
        self.seen = self.kept = self.records = self.bytes = 0
        self.disturbed = self.injected = 0

    def pieces(self) -> Iterator[bytes]:
        """Yield whole lines. `check` gets the number of trajectories seen, and may raise to stop."""
        last: int | None = None
        while rows := self._chunk(last):
            last = rows[-1].pk
            yield "".join(self._lines(rows)).encode()
            self.seen += len(rows)
            self.check(self.seen)

    def manifest(self) -> dict[str, Any]:
        """Return what was exported, what was left out and why, and the sources of the data."""
        loading_hint = build_loading_config(self.spec.shape, self.name)
        return {
            "kind": "envarium-sft",
            "file": self.name,
            "sha256": self.digest.hexdigest(),
            "bytes": self.bytes,
            "records": self.records,
            "trajectories": self.kept,
            "settings": self.spec.summary(),
            **({"llamafactory": loading_hint} if loading_hint else {}),
            "filters": [count.model_dump() for count in self.sieve.tally.counts()],
            **({"without_environment": self.sieve.foreign} if self.sieve.foreign else {}),
            **({"solver_runs": self.sieve.solvers} if self.sieve.solvers else {}),
            **({"disturbed": {"trajectories": self.disturbed, "calls": self.injected}} if self.disturbed else {}),
            "left_out_for_their_conversation": dict(self.sieve.reasons.most_common(REASONS)),
            "judged": "No judge is asked here; trajectories of batches passed one when they were made.",
            "policies": dict(sorted(self.policies.items())),
            "tasks": [self.tasks[key] for key in sorted(self.tasks)],
        }

    def _chunk(self, last: int | None) -> list[Trajectory]:
        rows = filter_trajectories(self.spec.selection.filters()).only(*COLUMNS).order_by("-id")
        return list((rows if last is None else rows.filter(pk__lt=last))[:CHUNK])

    def _lines(self, rows: list[Trajectory]) -> Iterator[str]:
        for row, lines in self.sieve.passed(rows, self._build_lines):
            self._count(row, lines)
            yield from lines

    def _build_lines(self, row: Trajectory, conversation: Conversation) -> list[str]:
        lines = [format_record_line(record) for record in build_sft_records(conversation, self.spec.shape)]
        if not lines:
            raise FormatError("conversation", "the agent said nothing in it")
        return lines

    def _count(self, row: Trajectory, lines: list[str]) -> None:
        self.kept += 1
        self.records += len(lines)
        self.policies[row.policy] += 1
        self.disturbed += bool(row.injected_count)
        self.injected += row.injected_count
        revision = row.revision_id or 0
        about = self.sieve.origins.of(revision).about
        about = self.tasks.setdefault(revision, {**about, "trajectories": []})
        about["trajectories"].append(row.pk)
        for line in lines:
            data = line.encode()
            self.bytes += len(data)
            self.digest.update(data)
