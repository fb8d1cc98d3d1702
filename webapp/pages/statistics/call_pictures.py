"""Pictures of the newest attempts' calls and verdicts: tools in use and failing tools, and deciding checks."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Count, Q
from django.urls import reverse

from synthesis.contracts import INJECTED
from webapp.common.query_params import MOST_PICKS
from webapp.environments.models import Environment
from webapp.pages.statistics.attempt_pictures import Bar, make_bars
from webapp.pages.statistics.attempt_scope import AttemptScope
from webapp.runs.evaluations.statistics import compute_wilson_interval
from webapp.scenarios.models import Check, TaskRevision
from webapp.scenarios.verifiers import list_criteria_lines
from webapp.trajectories.failure_reason import load_newest_scores
from webapp.trajectories.models import CallBy, Step
from webapp.trajectories.totals import SCORED

NEWEST = 1_000
"""Attempts whose steps and verdicts are read."""
SHOWN = 30
FEWEST_ATTEMPTS = 3
"""A check that never failed in fewer attempts says nothing yet."""


FAILED = Q(ok=False) & ~Q(error_kind__in=INJECTED)
"""Calls that failed by themselves; an injected error is no tool's fault."""


def build_picked_url(pks: list[int]) -> str:
    """Return the address of a list of these attempts; empty if they are more than a list takes."""
    keys = sorted(set(pks))
    address = f"{reverse('trajectories:list')}?{urlencode([('ids', pk) for pk in keys])}"
    return address if 0 < len(keys) <= MOST_PICKS else ""


@dataclass(frozen=True)
class ToolUse:
    """Calls of a tool; `url` lists the attempts in which one of them failed."""

    tool: str
    environment_id: int
    environment: str
    calls: int
    errors: int
    attempts: int
    failed_attempts: int
    url: str

    @property
    def failing(self) -> float:
        return self.errors / self.calls

    @property
    def failing_width(self) -> float:
        """Percent of the drawing's width."""
        return round(100 * self.failing, 2)

    @property
    def failing_lower_bound(self) -> float:
        """Lower bound of the share of failing calls."""
        return compute_wilson_interval(self.errors, self.calls)[0]


@dataclass(frozen=True)
class ToolUses:
    """Tools in the newest `attempts`. `most_used` and `most_failing` are at most `SHOWN` each."""

    attempts: int
    tools: int
    calls: int
    errors: int
    most_used: list[ToolUse]
    most_failing: list[ToolUse]
    faultless: int


def count_tool_use(scope: AttemptScope) -> ToolUses | None:
    """Return the agents' use of tools in the newest attempts; None if they made no call."""
    newest = list(scope.attempts().order_by("-id").values_list("pk", flat=True)[:NEWEST])
    rows = (
        Step.objects.filter(trajectory__in=newest, ok__isnull=False, by=CallBy.AGENT)
        .exclude(tool="")
        .order_by()
        .values_list("trajectory__environment", "tool")
        .annotate(
            calls=Count("pk"),
            errors=Count("pk", filter=FAILED),
            attempts=Count("trajectory", distinct=True),
            failed=ArrayAgg("trajectory", filter=FAILED, distinct=True, default=None),
        )
    )
    tool_rows = list(rows)
    if not tool_rows:
        return None
    names = dict(Environment.objects.filter(pk__in={row[0] for row in tool_rows}).values_list("pk", "name"))
    tools = [
        ToolUse(tool, pk, names[pk], calls, errors, attempts, len(failed or ()), build_picked_url(failed or []))
        for pk, tool, calls, errors, attempts, failed in tool_rows
    ]
    failing = [tool for tool in tools if tool.errors]
    return ToolUses(
        attempts=len(newest),
        tools=len(tools),
        calls=sum(tool.calls for tool in tools),
        errors=sum(tool.errors for tool in tools),
        most_used=sorted(tools, key=lambda tool: (-tool.calls, tool.tool, tool.environment_id))[:SHOWN],
        most_failing=sorted(failing, key=lambda tool: (-tool.failing_lower_bound, tool.tool, tool.environment_id))[
            :SHOWN
        ],
        faultless=len(tools) - len(failing),
    )


@dataclass
class CheckUse:
    """Counts of a check: asked, failed, and failed alone; `failed_in` are the attempts that failed it."""

    revision: int
    number: int
    asked: int = 0
    failed: int = 0
    alone: int = 0
    failed_in: list[int] = field(default_factory=list)
    task_id: int = 0
    task: str = ""
    label: str = ""

    @property
    def kind(self) -> str:
        if not self.failed:
            return "dead"
        return "always" if self.failed == self.asked else "differs"

    @property
    def shown_number(self) -> int:
        return self.number + 1

    @property
    def url(self) -> str:
        return build_picked_url(self.failed_in)


@dataclass(frozen=True)
class CheckUses:
    """Checks of the revisions that the newest `attempts` were judged by. Those that were asked fewer than
    `FEWEST_ATTEMPTS` times are `unknown`; the others differ between attempts, never failed (`dead`), or always did."""

    attempts: int
    checks: int
    unknown: int
    differs: int
    dead: int
    always: int
    alone: int
    deciding: list[CheckUse]
    idle: list[CheckUse]

    @property
    def known(self) -> int:
        return self.checks - self.unknown

    @property
    def bars(self) -> list[Bar]:
        """Bars of the checks by kind."""
        kinds = ("differs", "fail in some attempts"), ("dead", "never fail"), ("always", "fail in every attempt")
        counts = [(name, label, int(getattr(self, name)), "") for name, label in kinds]
        return make_bars([*counts, ("unknown", "judged too few attempts", self.unknown, "")])


def count_check_use(scope: AttemptScope) -> CheckUses | None:
    """Return which checks decide; None if no attempt was judged by checks."""
    newest = list(scope.attempts().filter(SCORED).order_by("-id").values_list("pk", flat=True)[:NEWEST])
    uses: dict[tuple[int, int], CheckUse] = {}
    judged_count = 0
    for pk, score in load_newest_scores(newest).items():
        failed = [number for number, verdict in enumerate(score.verdicts) if not verdict.get("passed")]
        judged_count += bool(score.verdicts)
        for number in range(len(score.verdicts)):
            use = uses.setdefault((score.revision_id, number), CheckUse(score.revision_id, number))
            use.asked += 1
            use.failed += number in failed
            use.alone += failed == [number]
            if number in failed:
                use.failed_in.append(pk)
    if not uses:
        return None
    known_uses = [use for use in uses.values() if use.asked >= FEWEST_ATTEMPTS]
    kinds = Counter(use.kind for use in known_uses)
    deciding = [use for use in uses.values() if use.failed]
    deciding = sorted(deciding, key=lambda use: (-use.alone, -use.failed, use.revision, use.number))[:SHOWN]
    idle = [use for use in known_uses if use.kind == "dead"]
    idle = sorted(idle, key=lambda use: (-use.asked, use.revision, use.number))[:SHOWN]
    _name_checks([*deciding, *idle])
    return CheckUses(
        attempts=judged_count,
        checks=len(uses),
        unknown=len(uses) - len(known_uses),
        differs=kinds["differs"],
        dead=kinds["dead"],
        always=kinds["always"],
        alone=sum(use.alone for use in uses.values()),
        deciding=deciding,
        idle=idle,
    )


def _name_checks(uses: list[CheckUse]) -> None:
    """Set the task and the label of the check on each."""
    revisions = {use.revision for use in uses}
    tasks = {pk: (task, title) for pk, task, title in _load_tasks(revisions)}
    labels: dict[int, list[str]] = defaultdict(list)
    checks = Check.objects.filter(revision__in=revisions).order_by("revision", "position")
    for revision, label in checks.values_list("revision", "label"):
        labels[revision].append(label)
    labels |= list_criteria_lines(revisions - labels.keys())
    for use in uses:
        use.task_id, use.task = tasks[use.revision]
        check_labels = labels[use.revision]
        use.label = check_labels[use.number] if use.number < len(check_labels) else ""


def _load_tasks(revisions: set[int]) -> list[tuple[int, int, str]]:
    return list(TaskRevision.objects.filter(pk__in=revisions).values_list("pk", "task", "task__title"))
