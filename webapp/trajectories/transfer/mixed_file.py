"""A file of runs with the environments and tasks that they depend on: those are stored first, if they do not exist
yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from synthesis.formats.envscaler import get_entry_kind
from synthesis.formats.files import Entry
from synthesis.formats.records import Failure
from synthesis.runtime import Sandbox
from webapp.scenarios.importer import Import, Progress, import_records


@dataclass
class MixedFile:
    """The records of a file by their kind."""

    environments: list[Entry] = field(default_factory=list)
    scenarios: list[Entry] = field(default_factory=list)
    runs: list[Entry] = field(default_factory=list)
    foreign: list[Entry] = field(default_factory=list)


def sort_records(entries: Sequence[Entry]) -> MixedFile:
    """Sort a file's records. A file of only environments and tasks is left to the reader of runs, whose error names the
    right import."""
    sorted_file = MixedFile()
    for entry in entries:
        is_foreign = isinstance(entry.value, dict) and str(entry.value.get("schema_version", "")).upper()[:4] == "ATIF"
        kind = 3 if is_foreign else get_entry_kind(entry, 2)
        (sorted_file.environments, sorted_file.scenarios, sorted_file.runs, sorted_file.foreign)[kind].append(entry)
    if not sorted_file.runs and not sorted_file.foreign:
        return MixedFile(runs=list(entries))
    return sorted_file


def import_prerequisites(
    sandbox: Sandbox, file: MixedFile, source: str, progress: Progress
) -> tuple[dict[str, dict[str, int]], list[Failure], dict[str, int]]:
    """Store the prerequisites of runs. Return (counts by kind, failures, primary keys of revisions by their hash in the
    file).

    Existing rows stay as they are, including their current version and revision. Raises `SandboxUnavailable`.
    """
    run = Import(sandbox, source, keeps_known=True)
    import_records(run, file.environments, file.scenarios, progress)
    report: dict[str, Any] = run.report()
    failures = {
        (item["place"], item["reason"]) for kind in ("environments", "tasks") for item in report[kind]["failed"]
    }
    counts = {
        kind: {name: report[kind][name] for name in ("created", "unchanged", "updated")}
        for kind in ("environments", "tasks")
        if any(report[kind][name] for name in ("created", "unchanged", "updated"))
    }
    return counts, [Failure(place=place, reason=reason) for place, reason in sorted(failures)], run.revisions
