"""A file of runs with what they rest on: environments and tasks are stored first, as far as they are not here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from synthesis.formats.envscaler import kind_of
from synthesis.formats.files import Entry
from synthesis.formats.records import Failure
from synthesis.runtime import Sandbox
from webapp.scenarios.importer import Import, Progress, import_records


@dataclass
class MixedFile:
    """The records of a file by what they are."""

    environments: list[Entry] = field(default_factory=list)
    scenarios: list[Entry] = field(default_factory=list)
    runs: list[Entry] = field(default_factory=list)
    foreign: list[Entry] = field(default_factory=list)


def sort_records(entries: Sequence[Entry]) -> MixedFile:
    """Sort a file's records. One of environments and tasks alone is left to the reader of runs, which says where such
    a file goes."""
    found = MixedFile()
    for entry in entries:
        is_foreign = isinstance(entry.value, dict) and str(entry.value.get("schema_version", "")).upper()[:4] == "ATIF"
        kind = 3 if is_foreign else kind_of(entry, 2)
        (found.environments, found.scenarios, found.runs, found.foreign)[kind].append(entry)
    if not found.runs and not found.foreign:
        return MixedFile(runs=list(entries))
    return found


def bring_along(
    sandbox: Sandbox, file: MixedFile, source: str, progress: Progress
) -> tuple[dict[str, dict[str, int]], list[Failure], dict[str, int]]:
    """Store what runs rest on. (counts by kind, failures, primary keys of revisions by the hash that the file says).

    What is here already stays as it is, its current version and revision too. Raises `SandboxUnavailable`.
    """
    run = Import(sandbox, source, keeps_known=True)
    import_records(run, file.environments, file.scenarios, progress)
    told: dict[str, Any] = run.report()
    failures = {(item["place"], item["reason"]) for kind in ("environments", "tasks") for item in told[kind]["failed"]}
    counts = {
        kind: {name: told[kind][name] for name in ("created", "unchanged", "updated")}
        for kind in ("environments", "tasks")
        if any(told[kind][name] for name in ("created", "unchanged", "updated"))
    }
    return counts, [Failure(place=place, reason=reason) for place, reason in sorted(failures)], run.revisions
