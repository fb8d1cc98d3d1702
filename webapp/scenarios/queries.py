"""Queries of the task pages. Large columns are left out of lists."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Literal

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Value
from django.http import Http404

from synthesis.contracts import Allowance, Patch
from synthesis.errors import StateError
from synthesis.runtime.encoding import apply_patch
from synthesis.verifiers.frame import format_place
from webapp.common.database.kept_sql import Given, KeptQuery
from webapp.common.paging import select_window
from webapp.common.query_params import LARGEST_ID, parse_whole_number
from webapp.environments.models import Environment
from webapp.environments.text_difference import DiffBudget
from webapp.environments.version_diff import DiffPart, build_diff_part
from webapp.scenarios import state_tree
from webapp.scenarios.answers.answer_form import (
    PARTS,
    cache_record_parts,
    find_generated_checks,
    format_form_parts,
    read_form_and_expected,
)
from webapp.scenarios.measures.task_filter import filter_measures
from webapp.scenarios.models import SUPERSEDED, AuditFault, Check, Scenario, Task, TaskFinding, TaskRevision
from webapp.scenarios.references import read_frame, read_withheld
from webapp.scenarios.verifiers.verifier_texts import format_verifier_texts, pair_texts
from webapp.scenarios.withheld.filters import build_withheld_filter

LIST_FIELDS = (
    "title", "key", "source", "check_count", "finding_count", "trajectory_count", "do_nothing", "created_at",
    "audit_state", "review_state", "superseded", "verifier_kind", "audit__unseen", "withheld", "parent_id",
    "environment__name", "environment__category", "variant", "current__consistency",
)  # fmt: skip
CHANGES_SHOWN = 200
MADE_HERE = ("synthesis", "scripted")
"""Sources of what a batch made: its page says how."""


def list_categories() -> list[str]:
    rows = Environment.objects.exclude(category="").order_by("category").values_list("category", flat=True)
    return list(rows.distinct()[:500])


def list_sources() -> list[str]:
    return list(Environment.objects.order_by("source").values_list("source", flat=True).distinct()[:50])


DifficultyName = Literal["", "untried", "never", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "always"]
DIFFICULTIES = [
    ("untried", "not tried"),
    ("never", "never solved"),
    ("0", "less than 10 %"),
    *((str(tenth), f"{tenth * 10} to {tenth * 10 + 9} %") for tenth in range(1, 9)),
    ("9", "90 % and more, not always"),
    ("always", "always solved"),
]
"""By the share of judged attempts that solved a task; a number is that of tenths."""


def build_difficulty_filter(wanted: str) -> Q:
    """Return a filter for tasks of a difficulty in `DIFFICULTIES`."""
    if wanted == "untried":
        return Q(scored_count=0)
    if wanted == "never":
        return Q(scored_count__gt=0, solved_count=0)
    if wanted == "always":
        return Q(scored_count__gt=0, solved_count=F("scored_count"))
    low, high = (Value(int(wanted) + more) * F("scored_count") / Value(10.0) for more in (0, 1))
    between = Q(solved_count__gt=0, solved_count__lt=F("scored_count"))
    return between & Q(solved_count__gte=low, solved_count__lt=high)


def filter_tasks(wanted: dict[str, Any]) -> QuerySet[Task]:
    """Return the tasks that fit a `TaskFilters`' values."""
    rows = Task.objects.select_related("environment", "audit", "current").only(*LIST_FIELDS)
    for name, lookup in {
        "category": "environment__category",
        "source": "source",
        "verifier": "verifier_kind",
        "low": "do_nothing__gte",
        "high": "do_nothing__lte",
        "fewest": "check_count__gte",
        "most": "check_count__lte",
    }.items():
        if name in wanted:
            rows = rows.filter(**{lookup: wanted[name]})
    if "review" in wanted:
        is_superseded = wanted["review"] == SUPERSEDED
        rows = (
            rows.filter(superseded=True)
            if is_superseded
            else rows.filter(review_state=wanted["review"], superseded=False)
        )
    if "ids" in wanted:
        rows = rows.filter(pk__in=wanted["ids"])
    if "environment" in wanted:
        rows = rows.filter(_build_environment_filter(wanted["environment"]))
    if "leave_out" in wanted:
        rows = rows.exclude(environment__source=wanted["leave_out"])
    if "q" in wanted:
        text = wanted["q"].replace("\0", "")
        rows = rows.filter(words__icontains=text)
    if "finding" in wanted:
        rows = _filter_by_finding(rows, wanted["finding"])
    if "audit" in wanted:
        rows = rows.filter(audit_state="" if wanted["audit"] == "none" else wanted["audit"])
    if "difficulty" in wanted:
        rows = rows.filter(build_difficulty_filter(wanted["difficulty"]))
    if "withheld" in wanted:
        rows = rows.filter(build_withheld_filter(wanted["withheld"]))
    if "variant" in wanted:
        rows = rows.filter(variant="" if wanted["variant"] == "none" else wanted["variant"])
    if "knob" in wanted or "ten" in wanted:
        rows = filter_measures(rows, wanted)
    if "fault" in wanted:
        rows = rows.filter(Exists(AuditFault.objects.filter(kind=wanted["fault"], audit=OuterRef("audit"))))
    return rows


def whole_tasks() -> QuerySet[Task]:
    """Return tasks with everything that one of them shows: its current revision, checks and findings."""
    rows = Task.objects.select_related("environment", "scenario", "current")
    rows = rows.defer("current__record", "environment__summary")
    rows = rows.select_related("current__difficulty")
    return rows.prefetch_related("current__checks", "current__findings", "current__passes")


def find_task(pk: int) -> Task:
    """Return a task with what its page shows of it, without large columns. Raises Http404."""
    task = _TASK.first(pk=pk)
    if task is None:
        raise Http404("There is no such task.")
    if task.current is not None:
        cache_record_parts(task.current, tuple(getattr(task, f"part_{number}") for number in range(len(PARTS))))
    if task.current is not None and task.current.scenario_id == task.scenario_id:
        task.current.scenario = task.scenario  # the same row, without what was left out above
    return task


_TASK = KeptQuery[Task](
    lambda: (
        Task.objects.select_related("environment", "scenario__version", "scenario__initial", "current")
        .defer(
            "current__record",
            "scenario__initial__body",
            "scenario__version__source",
            "scenario__version__record",
            "scenario__version__state_schema",
            "scenario__version__rules",
            "scenario__version__introduction",
        )
        .annotate(**{f"part_{number}": F(f"current__{name}") for number, name in enumerate(PARTS)})
        .filter(pk=Given("pk"))
    )
)


def _build_environment_filter(text: str) -> Q:
    text = text.replace("\0", "")
    if text.startswith("id:"):
        return Q(environment_id=parse_whole_number(text[3:], 1, LARGEST_ID) or 0)
    by_name = Q(environment__in=Environment.objects.filter(Q(name__icontains=text) | Q(key__iexact=text)))
    number = parse_whole_number(text, 1, LARGEST_ID)
    return by_name if number is None else Q(environment_id=number)


def _filter_by_finding(rows: QuerySet[Task], kind: str) -> QuerySet[Task]:
    if kind in ("any", "none"):
        return rows.filter(finding_count__gt=0) if kind == "any" else rows.filter(finding_count=0)
    return rows.filter(Exists(TaskFinding.objects.filter(kind=kind, revision=OuterRef("current"))))


def ordered_tasks(wanted: dict[str, Any]) -> QuerySet[Task]:
    """Return the tasks that fit a `TaskFilters`' values, in the order that these name."""
    return select_window(filter_tasks(wanted), wanted.get("sort") or "-id", None, backward=False)


def count_marks(revision: TaskRevision) -> dict[str, int]:
    rows = revision.checks.order_by().values("mark").annotate(count=Count("id"))
    return {row["mark"]: row["count"] for row in rows}


def list_checks(revision: TaskRevision, mark: str, after: int, most: int, *, with_source: bool) -> list[Check]:
    """Return a page of checks by position; one more than `most` if there are more."""
    rows = _build_checks_query(bool(mark), most, with_source).rows(revision=revision.pk, after=after, mark=mark)
    for check in rows:
        check.revision = revision
    return rows


@lru_cache(maxsize=16)
def _build_checks_query(marked: bool, most: int, with_source: bool) -> KeptQuery[Check]:
    def build_query() -> QuerySet[Check]:
        rows = Check.objects.filter(revision=Given("revision"), position__gt=Given("after")).order_by("position")
        rows = rows.filter(mark=Given("mark")) if marked else rows
        return (rows if with_source else rows.defer("source"))[: most + 1]

    return KeptQuery(build_query)


def describe_do_nothing(task: Task, counts: dict[str, int], rule: str) -> tuple[int, int, str]:
    """Return (passed, total, meaning) of doing nothing."""
    guards, total = counts.get("guard", 0), sum(counts.values())
    goals = counts.get("goal", 0)
    if not total and task.verifier_kind == "rubric":
        return 0, 0, "A judge decides what doing nothing earns, and is asked by the audit."
    if not total:
        return 0, 0, "There are no checks, so nothing judges this task."
    if rule == "goals":
        words = "Only goals are paid, so an agent that does nothing gets nothing, which is right."
        return 0, goals, words if goals else "No check is false at the start, so there is nothing to reach."
    if rule in ("all", "golden"):
        if guards == total:
            return guards, total, "All of it holds at the start: an agent that does nothing gets the full reward."
        return guards, total, "All of it must hold, so an agent that does nothing gets nothing, which is right."
    if guards == 0:
        return 0, total, "No check is true at the start: an agent that does nothing gets nothing, which is right."
    if guards == total:
        return guards, total, "Every check is true at the start: an agent that does nothing gets the full reward."
    share = f"{guards} of {total} checks are true before the agent does anything"
    return guards, total, f"{share[0].upper()}{share[1:]}, so doing nothing is paid {guards / total:.3f}."


@dataclass(frozen=True)
class PatchLine:
    """One operation of a patch with the earlier value."""

    op: str
    path: str
    old: str
    new: str
    index: int = 0


def list_patch_changes(before: Any, patch: Patch) -> tuple[list[PatchLine], int]:
    """Return the first operations of a patch with old values, and the number of further ones."""
    shown_changes: list[PatchLine] = []
    state = before
    for number, operation in enumerate(patch[:CHANGES_SHOWN]):
        try:
            old = _cut_value(state_tree.locate_value(state, operation["path"])) if operation["op"] != "add" else ""
        except KeyError:
            old = ""
        new = _cut_value(operation["value"]) if "value" in operation else ""
        shown_changes.append(PatchLine(operation["op"], operation["path"], old, new, number))
        try:
            state = apply_patch(state, [operation])
        except StateError:
            break
    return shown_changes, len(patch) - len(shown_changes)


def _cut_value(value: Any, most: int = 2_000) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=1 if isinstance(value, dict | list) else None)
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def build_revision_diff(revision: TaskRevision, other: TaskRevision) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return (heading, (kind, text) of its lines) of what differs: instruction, answer form, verifier."""
    budget = DiffBudget()
    parts = [
        ("Instruction", revision.instruction, other.instruction),
        *format_form_parts(read_form_and_expected(revision), read_form_and_expected(other)),
        *pair_texts(format_verifier_texts(revision), format_verifier_texts(other)),
        ("Frame", _format_frame(revision), _format_frame(other)),
        ("Withheld", _format_withheld(revision), _format_withheld(other)),
    ]
    sides = zip_longest(_list_own_checks(revision), _list_own_checks(other))
    parts += [
        (f"Check {number}", _format_check(mine), _format_check(theirs))
        for number, (mine, theirs) in enumerate(sides, 1)
    ]
    if revision.scenario_id != other.scenario_id:
        parts.append(("Scenario", str(revision.scenario), str(other.scenario)))
    return [(name, _list_diff_lines(build_diff_part(name, old, new, budget))) for name, old, new in parts if old != new]


def _list_own_checks(revision: TaskRevision) -> list[Check]:
    """Return the checks that people wrote: not those made from the answer form, a script or a golden state."""
    if revision.verifier_kind == "script":
        return []
    origin_by_source = find_generated_checks(revision)
    rows = revision.checks.exclude(source="").order_by("position")
    return [row for row in rows if origin_by_source.get(row.source) != "form"]


def _format_frame(revision: TaskRevision) -> str:
    frame = read_frame(revision)
    return "No frame" if frame is None else "\n".join(sorted(map(_format_allowance, frame.allowances)))


def _format_allowance(allowance: Allowance) -> str:
    records = f": {json.dumps(allowance.records, ensure_ascii=False)}" if allowance.records else ""
    return f"{format_place(allowance)}{records}"


def _format_withheld(revision: TaskRevision) -> str:
    withheld = read_withheld(revision)
    return withheld.name if withheld is not None else "Nothing"


def _format_check(check: Check | None) -> str:
    return f"# {check.label}\n{check.source}" if check else ""


def _list_diff_lines(changed: DiffPart) -> list[tuple[str, str]]:
    return [(row.kind, row.text) for row in changed.rows] + ([("hunk", changed.note)] if changed.note else [])


def list_scenarios_with_tasks(environment: Environment, most: int = 100) -> list[tuple[Scenario, list[Task]]]:
    """Return scenarios with their tasks, newest scenarios first; two queries."""
    rows = list(
        environment.scenarios.select_related("version")
        .only("name", "task_count", "initial_id", "environment_id", "version__number", "version__environment_id")
        .order_by("-id")[: most + 1]
    )
    fields = (
        "title", "scenario_id", "check_count", "finding_count", "trajectory_count", "do_nothing", "audit_state",
        "audit__unseen", "verifier_kind",
    )  # fmt: skip
    by_scenario: dict[int, list[Task]] = {}
    tasks = Task.objects.filter(scenario__in=[row.pk for row in rows]).select_related("audit").only(*fields)
    for task in tasks.order_by("id")[:1000]:
        by_scenario.setdefault(task.scenario_id, []).append(task)
    return [(row, by_scenario.get(row.pk, [])) for row in rows]
