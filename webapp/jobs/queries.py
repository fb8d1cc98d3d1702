"""Queries and read models of the job pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from synthesis.assessment.kinds import TASK_KINDS, FindingKind, get_finding_kind
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.jobs.models import OPEN_STATES, Job, JobLog

LOG_UP_TO = 500
ROWS_UP_TO = 500
READ = ("records", "lines", "total", "read", "bytes", "asked")
"""Numbers of a result that say what was looked at or asked, not what came of it."""
COLUMN_WORDS = {"beside": "stored beside human work", "kept": "stored beside it before"}
NOT_LISTED = ("payload", "result", "error")


@dataclass(frozen=True)
class Result:
    """Result of a job as a page shows it: single values, lists of records as tables, the rest as JSON.

    A table is (title, columns, rows, number of records), the last 0 if its lines are sums, not records. `failed` counts
    the records that could not be used, `made` what came of the others: a job may end well and have left some out.
    `kept` counts the items that a batch has kept at its end.
    """

    facts: list[tuple[str, Any]]
    tables: list[tuple[str, list[str], list[list[Any]], int]]
    rest: dict[str, Any]
    failed: int = 0
    made: int = 0
    kept: int | None = None
    findings: tuple[FindingCount, ...] = ()


@dataclass(frozen=True)
class FindingCount:
    """Number of findings of a kind in an import. `of_tasks`: they concern tasks, not environments."""

    name: str
    kind: FindingKind
    number: int

    @property
    def of_tasks(self) -> bool:
        return self.name in TASK_KINDS


def format_key(key: str) -> str:
    return key.replace("_", " ")


def build_result_view(result: Any) -> Result:
    if not isinstance(result, dict):
        return Result([], [], {"result": result} if result is not None else {})
    facts: list[tuple[str, Any]] = []
    tables: list[tuple[str, list[str], list[list[Any]], int]] = []
    rest: dict[str, Any] = {}
    parts = {key: value for key, value in result.items() if isinstance(value, dict) and "failed" in value}
    if parts:
        tables.append(summarize_parts(parts))
    listed = {f"{key}: failed": part["failed"] for key, part in parts.items()}
    others = {key: value for key, value in result.items() if key not in parts}
    findings = _read_findings(others.pop("findings", None))
    for key, value in (others | listed).items():
        if isinstance(value, str | int | float | bool):
            facts.append((format_key(key), value))
        elif isinstance(value, dict) and value and all(isinstance(cell, str | int | float) for cell in value.values()):
            ordered = sorted(value.items(), key=lambda pair: str(pair[1]).rjust(20))
            rows = [[format_key(name), cell] for name, cell in ordered]
            tables.append((format_key(key), ["kind", "number"], rows[::-1], 0))
        elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            columns = list(dict.fromkeys(name for row in value[:ROWS_UP_TO] for name in row))[:8]
            rows = [[row.get(column, "") for column in columns] for row in value[:ROWS_UP_TO]]
            tables.append((format_key(key), [format_key(column) for column in columns], rows, len(value)))
        elif isinstance(value, list) and value and all(isinstance(row, str) for row in value):
            tables.append((format_key(key), [format_key(key)], [[row] for row in value[:ROWS_UP_TO]], len(value)))
        elif value not in (None, [], {}):
            rest[key] = value
    failures = [result.get("failed"), *listed.values()]
    failed = sum(len(failed) for failed in failures if isinstance(failed, list))
    made = sum(_count_made(part) for part in (others, *parts.values()))
    return Result(facts, tables, rest, failed, made, result.get("items_kept"), findings)


def _read_findings(counts: Any) -> tuple[FindingCount, ...]:
    """Return the counts of an import by kind, the largest first."""
    if not isinstance(counts, dict):
        return ()
    finding_counts = [
        FindingCount(name, get_finding_kind(name), number) for name, number in counts.items() if isinstance(number, int)
    ]
    return tuple(sorted(finding_counts, key=lambda one: (-one.number, one.kind.title)))


def has_made_nothing(kind: str, result: Result) -> bool:
    """Return whether a job that ended well made nothing: its records failed and none was used, a batch kept nothing, or
    an import led to no rows, old or new."""
    no_record = (bool(result.failed) or kind.startswith("import_")) and not result.made
    return no_record or result.kept == 0


def _count_made(part: dict[str, Any]) -> int:
    """Sum the counts of a part of a result, except those of what was read."""
    return sum(
        value
        for name, value in part.items()
        if isinstance(value, int) and name not in READ and not isinstance(value, bool)
    )


def summarize_parts(parts: dict[str, dict[str, Any]]) -> tuple[str, list[str], list[list[Any]], int]:
    """Build the table of what was done with each sort of record, one line a sort."""
    columns = list(dict.fromkeys(name for part in parts.values() for name in part))
    rows = [
        [
            format_key(key),
            *(len(part[name]) if isinstance(part.get(name), list) else part.get(name, "") for name in columns),
        ]
        for key, part in parts.items()
    ]
    return "records", ["", *(COLUMN_WORDS.get(name, format_key(name)) for name in columns)], rows, 0


def filter_jobs(state: str, subject: str = "") -> QuerySet[Job]:
    rows = Job.objects.select_related("created_by").defer(*NOT_LISTED)
    rows = rows.filter(subject=subject) if subject else rows
    return rows.filter(state=state) if state else rows


def list_last_log_lines(job: Job) -> list[JobLog]:
    """Return the newest lines of the log, in the order they were written."""
    return list(job.lines.order_by("-id")[:LOG_UP_TO])[::-1]


def list_subject_jobs(kind: str, subject: str) -> QuerySet[Job]:
    """Return the jobs of a kind that work, or worked, on a subject: newest first."""
    return Job.objects.filter(kind=kind, subject=subject).order_by("-id")


def find_open_job(kind: str, subject: str) -> Job | None:
    """Return the newest open job of a kind and a subject, or None."""
    return _OPEN.first(kind=kind, subject=subject)


_OPEN = KeptQuery[Job](
    lambda: Job.objects.filter(kind=Given("kind"), subject=Given("subject"), state__in=OPEN_STATES).order_by("-id")[:1]
)


def get_elapsed_seconds(job: Job) -> float | None:
    """Return the seconds of the current attempt; None before the first start."""
    if job.started_at is None:
        return None
    return max(0.0, ((job.finished_at or timezone.now()) - job.started_at).total_seconds())
