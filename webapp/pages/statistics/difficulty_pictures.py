"""Pictures of difficulty: success by the knobs of tasks, calls and turns per task, Pass@10 of policies.

Agent-World 3.1.1 and Figure 4 (e, f). Everything is summed in the database, all knobs in one query.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import connection
from django.db.models import Max

from synthesis.variant_settings import VARIANT_TITLES
from webapp.pages.statistics.attempt_pictures import Bar, make_bars
from webapp.pages.statistics.call_pictures import NEWEST as NEWEST_ATTEMPTS
from webapp.pages.statistics.call_pictures import build_picked_url
from webapp.pages.statistics.clustered_rates import ClusteredRate
from webapp.pages.statistics.distributions import Bin, Spread, add_bin_links, build_bins, compute_spread
from webapp.pages.statistics.task_scope import TaskScope
from webapp.scenarios.measures.difficulty import KNOBS
from webapp.scenarios.measures.shown import KNOB_MEANINGS, KNOB_TITLES, SHARES
from webapp.scenarios.models import PASS_AT, PolicyPass
from webapp.trajectories.models import Step

MOST_BINS = 8
FIFTHS = 5
MOST_POLICIES = 6
SUMS = """count(*), count(*) FILTER (WHERE tried > 0), sum(tried), sum(solved), sum(tried * tried),
    sum(solved * solved), sum(tried * solved)"""
Sums = dict[tuple[str, float], ClusteredRate]
"""By variant and value of a knob."""


@dataclass(frozen=True)
class KnobRow:
    """Tasks whose knob is in a range: together, and by variant in the order of the table. `url` lists them."""

    label: str
    low: float
    high: float
    total: ClusteredRate
    by_variant: list[ClusteredRate]
    url: str

    @property
    def places(self) -> tuple[str, str, str] | None:
        """Start and width of the drawn interval, and the rate, in percent."""
        rate, ends = self.total.rate, self.total.interval
        if rate is None:
            return None
        low, high = ends or (rate, rate)
        return f"{100 * low:.1f}", f"{100 * (high - low):.1f}", f"{100 * rate:.1f}"


@dataclass(frozen=True)
class KnobPicture:
    name: str
    title: str
    meaning: str
    rows: list[KnobRow]
    total: ClusteredRate


@dataclass(frozen=True)
class PassPicture:
    """Tasks by how many of a policy's first ten attempts solved them (Figure 4 f)."""

    policy: str
    tasks: int
    mean: float
    bars: list[Bar]


@dataclass(frozen=True)
class DifficultyPictures:
    """All pictures. `variants` are those that made a task with a knob, with their titles. `calls` are of references,
    `turns` of the newest attempts."""

    tasks: int
    variants: list[tuple[str, str]]
    knobs: list[KnobPicture]
    calls: Spread | None
    turns: Spread | None
    passes: list[PassPicture]
    more_policies: int


def draw_difficulty(scope: TaskScope) -> DifficultyPictures:
    """Return all pictures of these tasks."""
    sums = _sum_knobs(scope)
    found_variants = {variant for knob in sums.values() for variant, _ in knob}
    names = [name for name in VARIANT_TITLES if name in found_variants] + sorted(found_variants - VARIANT_TITLES.keys())
    knobs = [_draw_knob(scope, name, sums[name], names) for name in KNOBS if sums.get(name)]
    calls = Counter[int]()
    for (_, value), rate in sums.get("invocations", {}).items():
        calls[int(value)] += rate.tasks
    passes, more = _draw_passes(scope)
    return DifficultyPictures(
        tasks=calls.total(),
        variants=[(name, VARIANT_TITLES.get(name, name) or "no batch") for name in names],
        knobs=knobs,
        calls=_draw_calls(scope, calls),
        turns=_draw_turns(scope),
        passes=passes,
        more_policies=more,
    )


def _sum_knobs(scope: TaskScope) -> dict[str, Sums]:
    """Return by knob the sums of each variant and value; tasks without the knob are left out."""
    measured, parameters = scope.select_measured()
    sets = ", ".join(f"(variant, {name})" for name in KNOBS)
    query = f"SELECT variant, {', '.join(KNOBS)}, GROUPING({', '.join(KNOBS)}), {SUMS} FROM ({measured}) AS measured "
    sums_by_knob: dict[str, Sums] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(f"{query} GROUP BY GROUPING SETS ({sets})", parameters)
        for variant, *values in cursor.fetchall():
            grouped, sums = values[len(KNOBS)], values[len(KNOBS) + 1 :]
            # GROUPING() has a 0 bit for the column of the grouping set; the last column is the lowest bit.
            place = next(at for at in range(len(KNOBS)) if not grouped >> (len(KNOBS) - 1 - at) & 1)
            if values[place] is not None:
                sums_by_knob[KNOBS[place]][variant, float(values[place])] = ClusteredRate(*map(int, sums))
    return sums_by_knob


def _draw_knob(scope: TaskScope, name: str, sums: Sums, variants: list[str]) -> KnobPicture:
    rows = []
    for label, low, high in _build_ranges(name, sums):
        inside = {variant: ClusteredRate() for variant in variants}
        for (variant, value), rate in sums.items():
            if low <= value < high:
                inside[variant] += rate
        total = _add_rates(inside.values())
        url = scope.build_tasks_url(knob=name, knob_from=f"{low:g}", knob_to=f"{high:g}") if total.tasks else ""
        rows.append(KnobRow(label, low, high, total, list(inside.values()), url))
    return KnobPicture(name, KNOB_TITLES[name], KNOB_MEANINGS[name], rows, _add_rates(row.total for row in rows))


def _add_rates(rates: Iterable[ClusteredRate]) -> ClusteredRate:
    return sum(rates, ClusteredRate())


def _build_ranges(name: str, sums: Sums) -> list[tuple[str, float, float]]:
    """Return (label, low, high) of a knob's ranges, without the upper end; a share's are fifths."""
    if name in SHARES:
        ends = [(fifth * 100 // FIFTHS, (fifth + 1) * 100 // FIFTHS) for fifth in range(FIFTHS)]
        return [
            (f"{low}\N{EN DASH}{high if high == 100 else high - 1} %", low / 100, 2 if high == 100 else high / 100)
            for low, high in ends
        ]
    counts = Counter[int]()
    for (_, value), rate in sums.items():
        counts[int(value)] += rate.tasks
    return [(one.label, one.low, one.high + 1) for one in build_bins(counts, MOST_BINS)]


def _draw_calls(scope: TaskScope, calls: Mapping[int, int]) -> Spread | None:
    call_spread = compute_spread(Counter(calls).elements())

    def build_url(bar: Bin) -> str:
        return scope.build_tasks_url(knob="invocations", knob_from=bar.low, knob_to=bar.high + 1)

    return call_spread and _replace_links(call_spread, build_url)


def _draw_turns(scope: TaskScope) -> Spread | None:
    """Return the turns of the newest attempts that have steps; a variant does not narrow them."""
    newest = list(scope.attempts.attempts().order_by("-id").values_list("pk", flat=True)[:NEWEST_ATTEMPTS])
    rows = Step.objects.filter(trajectory__in=newest).order_by().values_list("trajectory").annotate(Max("turn"))
    pairs = [(turns, pk) for pk, turns in rows]
    turn_spread = compute_spread(turns for turns, _ in pairs)
    return turn_spread and _replace_links(turn_spread, partial(_build_turns_url, pairs))


def _build_turns_url(pairs: list[tuple[int, int]], bar: Bin) -> str:
    return build_picked_url([pk for turns, pk in pairs if bar.low <= turns <= bar.high])


def _replace_links(found: Spread, url_of: Any) -> Spread:
    return Spread(found.count, found.mean, found.median, found.low, found.high, add_bin_links(found.bins, url_of))


def _draw_passes(scope: TaskScope) -> tuple[list[PassPicture], int]:
    """Return the policies with the most tasks of ten attempts, and the number of further ones."""
    tasks, parameters = scope.select_tasks()
    query = (
        f"SELECT pass.policy, pass.ten, count(*) FROM ({tasks}) AS task JOIN {PolicyPass._meta.db_table} AS pass "
        "ON pass.revision_id = task.revision_id WHERE pass.ten IS NOT NULL"
    )
    if scope.policy:
        query, parameters = f"{query} AND pass.policy = %s", [*parameters, scope.policy]
    counts: dict[str, Counter[int]] = defaultdict(Counter)
    with connection.cursor() as cursor:
        cursor.execute(f"{query} GROUP BY 1, 2", parameters)
        for policy, ten, count in cursor.fetchall():
            counts[policy][ten] += count
    names = sorted(counts, key=lambda name: (-counts[name].total(), name))
    return [_draw_pass(scope, name, counts[name]) for name in names[:MOST_POLICIES]], len(names[MOST_POLICIES:])


def _draw_pass(scope: TaskScope, policy: str, counts: Counter[int]) -> PassPicture:
    bars = make_bars(
        (str(ten), f"{ten} of {PASS_AT}", counts[ten], scope.build_tasks_url(ten=ten, ten_by=policy))
        for ten in range(PASS_AT + 1)
    )
    solved = sum(ten * count for ten, count in counts.items())
    return PassPicture(policy, counts.total(), solved / (PASS_AT * counts.total()), bars)
