"""Pictures of attempts: pass rates by policy and environment, reasons of failures, difficulty of tasks, sizes.

Everything is counted in the database; the index `trajectory_facts` holds all columns that are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Aggregate, Case, CharField, Count, F, IntegerField, Q, Sum, Value, When
from django.db.models.fields.json import JSONField
from django.db.models.functions import Cast

from webapp.common.frequencies import rank_by_count
from webapp.environments.models import Environment
from webapp.pages.statistics.attempt_scope import AttemptScope
from webapp.pages.statistics.user_faults import UserFaultTable, count_user_faults
from webapp.scenarios.queries import DIFFICULTIES
from webapp.scenarios.verifiers import VERIFIER_TITLES
from webapp.trajectories.failure_kinds import FAILURES
from webapp.trajectories.failure_reason import ENDS
from webapp.trajectories.totals import SCORED


@dataclass(frozen=True)
class VerifierCount:
    """Tasks that one kind of verifier judges, with their list and their judged attempts."""

    kind: str
    label: str
    tasks: int
    attempts: int
    solved: int
    url: str

    @property
    def rate(self) -> float | None:
        return self.solved / self.attempts if self.attempts else None

    @property
    def width(self) -> str:
        """The width of its bar in per cent, as SVG reads it."""
        return f"{100 * (self.rate or 0):.1f}"


def count_verifiers(scope: AttemptScope) -> list[VerifierCount]:
    """Return the kinds in their order; none if there is no task."""
    sums = scope.tasks().values_list("verifier_kind").annotate(Count("pk"), Sum("scored_count"), Sum("solved_count"))
    counts_by_kind = {kind: counts for kind, *counts in sums}
    if not counts_by_kind:
        return []
    rows = []
    for kind, label in VERIFIER_TITLES.items():
        tasks, attempts, solved = counts_by_kind.get(kind, (0, 0, 0))
        rows.append(VerifierCount(kind, label, tasks, attempts, solved, scope.build_tasks_url(verifier=kind)))
    return rows


MOST_POLICIES = 8
MOST_ENVIRONMENTS = 20
SHADES = 10


@dataclass(frozen=True)
class Bar:
    """A count with the list of its rows; `share` is the length relative to the longest bar, from 0 to 100."""

    name: str
    label: str
    count: int
    share: float
    url: str = ""


def make_bars(counts: Iterable[tuple[str, str, int, str]]) -> list[Bar]:
    """Make bars of (name, label, count, address)."""
    entries = list(counts)
    most = max((count for _, _, count, _ in entries), default=0) or 1
    return [Bar(name, label, count, 100 * count / most, url if count else "") for name, label, count, url in entries]


@dataclass(frozen=True)
class RateCell:
    """Judged attempts of a policy in an environment."""

    tried: int
    solved: int
    url: str

    @property
    def rate(self) -> float | None:
        return self.solved / self.tried if self.tried else None

    @property
    def shade(self) -> int:
        """Shade of the cell, from 0 to `SHADES`."""
        return round((self.rate or 0) * SHADES)


@dataclass(frozen=True)
class RateRow:
    environment_id: int
    environment: str
    cells: list[RateCell]
    total: RateCell


@dataclass(frozen=True)
class HeatMap:
    """The environments and policies with the most judged attempts, and the numbers of further ones."""

    policies: list[str]
    rows: list[RateRow]
    more_policies: int
    more_environments: int


def map_pass_rates(scope: AttemptScope) -> HeatMap | None:
    """Return pass rates by environment and policy; None without a judged attempt."""
    judged_attempts = scope.attempts().filter(SCORED)
    counted = {"tried": Count("pk"), "solved": Count("pk", filter=Q(outcome="solved"))}
    cells: dict[tuple[int, str], tuple[int, int]] = {}
    policies, places, solved_in = Counter[str](), Counter[int](), Counter[int]()
    for pk, policy, tried, solved in judged_attempts.values_list("environment", "policy").annotate(**counted):
        cells[pk, policy] = tried, solved
        policies[policy] += tried
        places[pk] += tried
        solved_in[pk] += solved
    if not cells:
        return None
    names = sorted(policies, key=lambda name: (-policies[name], name))[:MOST_POLICIES]
    shown_environments = sorted(places, key=lambda pk: (-places[pk], pk))[:MOST_ENVIRONMENTS]
    titles = dict(Environment.objects.filter(pk__in=shown_environments).values_list("pk", "name"))
    rows = []
    for pk in shown_environments:
        row_cells = [
            RateCell(*cells.get((pk, name), (0, 0)), scope.build_attempts_url(environment=pk, made_by=name, judged=1))
            for name in names
        ]
        row_total = RateCell(places[pk], solved_in[pk], scope.build_attempts_url(environment=pk, judged=1))
        rows.append(RateRow(pk, titles[pk], row_cells, row_total))
    return HeatMap(names, rows, len(policies) - len(names), len(places) - len(rows))


@dataclass(frozen=True)
class FailureCounts:
    """Attempts that did not solve their task, each counted once, by the main reason."""

    failed: int
    every: int
    bars: list[Bar]


def count_failures(scope: AttemptScope) -> FailureCounts | None:
    """Return the reasons, the most frequent first; None without an attempt that ended."""
    rows = scope.attempts().exclude(outcome="").values_list("outcome", "failure").annotate(Count("pk"))
    every, counts = 0, dict[str, int]()
    for outcome, failure, count in rows:
        every += count
        if outcome != "solved":
            name = outcome if outcome in ENDS else failure or "none"
            counts[name] = counts.get(name, 0) + count
    if not every:
        return None
    ordered = rank_by_count(counts)
    bars = make_bars((name, _describe_failure(name), count, _build_failure_url(scope, name)) for name, count in ordered)
    return FailureCounts(sum(counts.values()), every, bars)


def _describe_failure(name: str) -> str:
    return ENDS.get(name) or FAILURES.get(name, "failed, and no score says why")


def _build_failure_url(scope: AttemptScope, name: str) -> str:
    if name in ENDS:
        return scope.build_attempts_url(outcome=name)
    return scope.build_attempts_url(outcome="failed", failure=name)


@dataclass(frozen=True)
class Difficulty:
    """Tasks by the share of their judged attempts that solved them."""

    tasks: int
    untried: Bar
    never: Bar
    always: Bar
    bars: list[Bar]


def group_tasks(scope: AttemptScope) -> Difficulty | None:
    """Return the tasks by difficulty; None if there is no task."""
    tenths = Cast(F("solved_count") * 10 / F("scored_count"), IntegerField())
    group = Case(
        When(scored_count=0, then=Value("untried")),
        When(solved_count=0, then=Value("never")),
        When(solved_count=F("scored_count"), then=Value("always")),
        default=Cast(tenths, CharField()),
        output_field=CharField(),
    )
    counts = dict(scope.tasks().annotate(group=group).values_list("group").annotate(Count("pk")))
    if not counts:
        return None
    words = dict(DIFFICULTIES)
    tried = [name for name in words if name != "untried"]
    untried, *bars = (
        Bar(name, words[name], counts.get(name, 0), 0.0, scope.build_tasks_url(difficulty=name))
        for name in ("untried", *tried)
    )
    bars = make_bars((bar.name, bar.label, bar.count, bar.url) for bar in bars)
    return Difficulty(sum(counts.values()), untried, bars[0], bars[-1], bars)


class Percentiles(Aggregate):
    """The 10th, 25th, 50th, 75th and 90th percentile of a column, as a list; null of no value."""

    function = "PERCENTILE_DISC"
    template = "to_jsonb(%(function)s(ARRAY[0.1,0.25,0.5,0.75,0.9]) WITHIN GROUP (ORDER BY %(expressions)s))"
    output_field = JSONField()


@dataclass(frozen=True)
class Sizes:
    """Five percentiles (10, 25, 50, 75, 90) of a policy's attempts, and their places in a drawing of all policies."""

    values: tuple[int, ...]
    most: int

    @property
    def places(self) -> list[float]:
        """Places in percent of the drawing's width."""
        return [round(100 * value / (self.most or 1), 2) for value in self.values]

    @property
    def widths(self) -> tuple[float, float]:
        """Widths of the line from the 10th to the 90th percentile, and of the box from the 25th to the 75th."""
        low, first, _, third, high = self.places
        return round(high - low, 2), round(third - first, 2)


@dataclass(frozen=True)
class PolicySizes:
    policy: str
    attempts: int
    url: str
    steps: Sizes
    tokens: Sizes | None
    """None if none of its attempts has a count of tokens."""
    with_tokens: int


@dataclass(frozen=True)
class AttemptSizes:
    rows: list[PolicySizes]
    more_policies: int


def measure_attempts(scope: AttemptScope) -> AttemptSizes | None:
    """Return steps and tokens per attempt by policy; None without an attempt."""
    every = list(
        scope.attempts()
        .values_list("policy")
        .annotate(
            n=Count("pk"),
            step_sizes=Percentiles("step_count"),
            counted=Count("tokens"),
            token_sizes=Percentiles("tokens"),
        )
        .order_by("-n", "policy")
    )
    rows = every[:MOST_POLICIES]
    most_steps, most_tokens = (max((row[at][-1] for row in rows if row[at]), default=0) for at in (2, 4))
    policy_sizes = [
        PolicySizes(
            policy=policy,
            attempts=count,
            url=scope.build_attempts_url(made_by=policy),
            steps=Sizes(tuple(steps), most_steps),
            tokens=Sizes(tuple(tokens), most_tokens) if tokens else None,
            with_tokens=counted,
        )
        for policy, count, steps, counted, tokens in rows
    ]
    return AttemptSizes(policy_sizes, len(every) - len(rows)) if policy_sizes else None


@dataclass(frozen=True)
class AttemptPictures:
    heat: HeatMap | None
    failures: FailureCounts | None
    difficulty: Difficulty | None
    verifiers: list[VerifierCount]
    sizes: AttemptSizes | None
    users: UserFaultTable | None


def draw_attempts(scope: AttemptScope) -> AttemptPictures:
    """Return all pictures of these attempts."""
    parts: tuple[Any, ...] = (
        map_pass_rates(scope),
        count_failures(scope),
        group_tasks(scope),
        count_verifiers(scope),
        measure_attempts(scope),
        count_user_faults(scope),
    )
    return AttemptPictures(*parts)
