"""Progress of a batch for its page: the funnel, items by stage, pace, time left.

All figures are read from roll-ups and indexes, so that a batch of any size can be polled every second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from django.db.models import Count
from django.utils import timezone

from synthesis.stages import LEVELS, Pipeline, StageSettings
from webapp.batches import queries
from webapp.batches.engine.item_state import OPEN
from webapp.batches.engine.stage_runs import SAVE
from webapp.batches.models import Batch, BatchItem, BatchStageCount, BatchState, ItemState, LLMCall, StageState
from webapp.batches.pages.failed_attempts import find_failure_reasons
from webapp.batches.pages.time_left import estimate_time_left
from webapp.batches.setting_labels import STAGE_WORDS
from webapp.trajectories.failure_reason import FailureReason

CALLS_LOOKED_AT = 1_000
CALLS_WITHIN = timedelta(minutes=1)
ITEMS_WITHIN = timedelta(minutes=10)
REASONS_SHOWN = 5
"""In a row of the funnel; the rest is on the page of failures."""
LEAST_SECONDS = 10.0
"""A pace is not worth saying before."""
WORDS = {"theme": "Themes", "scenario": "Scenarios", "task": "Tasks", "trajectory": "Trajectories"}
ENDINGS = (ItemState.KEPT, ItemState.REJECTED, ItemState.FAILED)


Bar = tuple[str, float, float]
"""A piece of a picture: what it represents, its start and its width, of 100."""


@dataclass(frozen=True)
class Reason:
    state: str
    reason: str
    count: int


@dataclass
class StageLine:
    """A row of the funnel. `here` are items that wait for the stage or are in it; `entered` those that it has ended
    for, kept or not. `cost` is the known part: that of `unpriced` replies is unknown."""

    name: str
    level: str = ""
    barrier: bool = False
    here: int = 0
    running: int = 0
    kept: int = 0
    rejected: int = 0
    failed: int = 0
    reasons: list[Reason] = field(default_factory=list)
    seconds: float = 0.0
    requests: int = 0
    replayed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0
    underway: int = 0
    """Of the requests: those of items that are in the stage now."""
    bar: list[Bar] = field(default_factory=list)
    neck: str = ""
    """Points of the shape that narrows from what came in to what was kept."""

    @property
    def entered(self) -> int:
        return self.kept + self.rejected + self.failed

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    @property
    def cells(self) -> list[tuple[str, int]]:
        return [("entered", self.entered), ("kept", self.kept), ("rejected", self.rejected), ("failed", self.failed)]

    @property
    def commonest(self) -> list[Reason]:
        return self.reasons[:REASONS_SHOWN]

    @property
    def rarer(self) -> int:
        """Number of reasons that are not shown."""
        return max(0, len(self.reasons) - REASONS_SHOWN)

    @property
    def words(self) -> str:
        return STAGE_WORDS.get(self.name, "")

    @property
    def mean(self) -> float | None:
        return self.seconds / self.entered if self.entered else None


Open = Mapping[tuple[str, str], Mapping[str, int]]


def count_open_items(batch: int) -> dict[tuple[str, str], dict[str, int]]:
    """Return the number of items that wait or run, by level and stage, then by state."""
    rows = BatchItem.objects.filter(batch_id=batch, state__in=OPEN).values_list("level", "stage", "state")
    by_stage: dict[tuple[str, str], dict[str, int]] = {}
    for level, stage, state, count in rows.annotate(Count("id")).order_by():
        by_stage.setdefault((level, stage), {})[state] = count
    return by_stage


def build_funnel(counts: Iterable[BatchStageCount], waiting: Open, pipeline: Pipeline) -> list[StageLine]:
    """Return every stage in the pipeline's order, then those outside it: saving, stages of another version."""
    lines = {stage.name: StageLine(stage.name, stage.level, stage.group is not None) for stage in pipeline.stages}
    saving = StageLine(SAVE)
    for row in counts:
        if row.count <= 0 and not row.seconds:
            continue
        line = saving if row.stage == SAVE else lines.setdefault(row.stage, StageLine(row.stage))
        _add_stage_count(line, row)
    for (_level, stage), states in waiting.items():
        line = saving if stage == SAVE else lines.setdefault(stage, StageLine(stage))
        line.here += sum(states.values())
        line.running += states.get(ItemState.RUNNING, 0)
    ordered = [*lines.values(), saving]
    most: Counter[str] = Counter()
    for line in ordered:
        most[line.level] = max(most[line.level], line.entered + line.here)
    for line in ordered:
        line.reasons.sort(key=lambda reason: (-reason.count, reason.state, reason.reason))
        parts = {"kept": line.kept, "rejected": line.rejected, "failed": line.failed, "here": line.here}
        line.bar = center_bar(draw_bar(parts, most[line.level]))
        line.neck = draw_neck(line.entered + line.here, line.kept + line.here, most[line.level])
    return ordered


def center_bar(pieces: list[Bar]) -> list[Bar]:
    """Return a centred bar, so that stages below each other narrow as a funnel."""
    aside = (100 - sum(width for _, _, width in pieces)) / 2
    return [(name, at + aside, width) for name, at, width in pieces]


def draw_neck(entered: int, left: int, whole: int) -> str:
    """Return the points of a trapezium of height 10: its upper width shows the entered items, its lower width the
    remaining ones."""
    if not entered or not whole:
        return ""
    above, below = 50 * entered / whole, 50 * min(left, entered) / whole
    corners = ((50 - above, 0), (50 + above, 0), (50 + below, 10), (50 - below, 10))
    return " ".join(f"{x:.2f},{y}" for x, y in corners)


def draw_bar(parts: Mapping[str, int], whole: int) -> list[Bar]:
    """Return the pieces of a bar beside each other; a nonzero one is never too thin to be seen."""
    pieces: list[Bar] = []
    at = 0.0
    for name, count in parts.items():
        if count and whole:
            width = max(0.8, 100 * count / whole)
            pieces.append((name, at, min(width, 100 - at)))
            at = min(100.0, at + width)
    return pieces


def _add_stage_count(line: StageLine, row: BatchStageCount) -> None:
    count = max(0, row.count)
    if row.state == StageState.KEPT:
        line.kept += count
    else:
        if row.state == StageState.REJECTED:
            line.rejected += count
        else:
            line.failed += count
        if count:
            line.reasons.append(Reason(row.state, row.reason, count))
    for name in ("seconds", "requests", "replayed", "prompt_tokens", "completion_tokens", "cost", "unpriced"):
        setattr(line, name, getattr(line, name) + getattr(row, name))


def group_by_level(lines: Iterable[StageLine]) -> list[tuple[str, list[StageLine]]]:
    """Return the funnel's rows under the names of their levels; rows without a level only if items were in them."""
    sections: dict[str, list[StageLine]] = {words: [] for words in WORDS.values()}
    for line in lines:
        if line.level:
            sections[WORDS[line.level]].append(line)
        elif line.entered or line.here:
            sections.setdefault("Every level", []).append(line)
    return [(words, rows) for words, rows in sections.items() if rows]


def count_elapsed_seconds(batch: Batch) -> float | None:
    """Return the seconds since the batch was started, pauses included; None before."""
    if batch.started_at is None:
        return None
    return max(0.0, ((batch.finished_at or timezone.now()) - batch.started_at).total_seconds())


@dataclass(frozen=True)
class LevelLine:
    """Progress of the items of one level. `ended` of `total` have ended."""

    level: str
    words: str
    states: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.states.values())

    @property
    def ended(self) -> int:
        return self.total - sum(self.states.get(state, 0) for state in OPEN)

    @property
    def running(self) -> int:
        return self.states.get(ItemState.RUNNING, 0)

    @property
    def cells(self) -> list[tuple[str, int]]:
        return [(str(state), self.states.get(state, 0)) for state in ItemState.values]

    @property
    def bar(self) -> list[Bar]:
        piece_names = {
            "kept": "kept",
            "rejected": "rejected",
            "failed": "failed",
            "running": "here",
            "waiting": "waiting",
        }
        parts = dict.fromkeys(piece_names.values(), 0)
        return draw_bar(parts | {name: self.states.get(state, 0) for state, name in piece_names.items()}, self.total)


def list_level_lines(counts: Mapping[str, dict[str, int]]) -> list[LevelLine]:
    return [LevelLine(level, WORDS[level], counts.get(level, {})) for level in LEVELS]


@dataclass(frozen=True)
class Pace:
    """Pace of a batch; each value is None if too little has happened to compute it."""

    calls_a_minute: float | None = None
    items_an_hour: float | None = None
    left: float | None = None
    """Seconds until the end at most, at this pace; at least, if `unseen` stages are not counted in."""
    unseen: tuple[str, ...] = ()
    """Stages that nothing has been through, neither here nor in an earlier batch."""
    earlier: bool = False
    """Whether the time of some stages is that of earlier batches."""


def measure_pace(
    batch: Batch, lines: Sequence[StageLine], waiting: Open, pipeline: Pipeline, settings: StageSettings
) -> Pace:
    if batch.state != BatchState.RUNNING or batch.started_at is None:
        return Pace()
    running = sum(states.get(ItemState.RUNNING, 0) for states in waiting.values())
    left = estimate_time_left(batch, lines, waiting, pipeline, settings)
    return Pace(
        _count_calls_per_minute(batch.pk),
        _count_items_per_hour(batch),
        left.seconds / running if left.seconds and running else None,
        left.unseen,
        left.earlier,
    )


def _count_calls_per_minute(batch: int) -> float | None:
    """Return the rate of the newest calls, those of the last minute."""
    newest = LLMCall.objects.filter(batch_id=batch).order_by("-id").values_list("created_at", flat=True)
    now = timezone.now()
    times = [at for at in newest[:CALLS_LOOKED_AT] if at > now - CALLS_WITHIN]
    if len(times) < CALLS_LOOKED_AT:
        return float(len(times))
    return len(times) * 60 / max(0.1, (now - times[-1]).total_seconds())


def _count_items_per_hour(batch: Batch) -> float | None:
    assert batch.started_at is not None
    now = timezone.now()
    since = max(batch.started_at, now - ITEMS_WITHIN)
    seconds = (now - since).total_seconds()
    if seconds < LEAST_SECONDS:
        return None
    ended = BatchItem.objects.filter(batch_id=batch.pk, state__in=ENDINGS, updated_at__gt=since).count()
    return ended * 3600 / seconds


@dataclass(frozen=True)
class BatchUsage:
    """Usage of a batch, stages under way included."""

    prompt_tokens: int
    completion_tokens: int
    replayed: int


def sum_usage(lines: Iterable[StageLine]) -> BatchUsage:
    stage_lines = list(lines)
    return BatchUsage(*(sum(getattr(line, name) for line in stage_lines) for name in BatchUsage.__dataclass_fields__))


@dataclass(frozen=True)
class FailureGroup:
    """Failures of one kind with the call at fault, if there is one, and the reason why the stored attempt of the first
    of them did not solve its task."""

    failures: queries.Failures
    call: int | None
    why: FailureReason | None = None


def list_failure_groups(batch: int) -> list[FailureGroup]:
    failures = queries.list_failures(batch)
    keys = [failure.call_key for failure in failures if failure.call_key]
    calls = dict(LLMCall.objects.filter(key__in=keys).values_list("key", "pk"))
    reasons = find_failure_reasons(failure.item for failure in failures)
    return [FailureGroup(failure, calls.get(failure.call_key), reasons.get(failure.item)) for failure in failures]


def list_lanes(batch: Batch) -> list[dict[str, Any]]:
    """Return the lanes that work on a batch, or did last."""
    rows = batch.lanes.order_by("-id").values("job_id", "job__state", "job__worker", "job__heartbeat_at")
    return [dict(row) for row in rows[: max(1, int(batch.settings.get("lanes", 1)))]]
