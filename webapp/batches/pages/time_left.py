"""Time that a batch still takes: the remaining work, by the duration of its stages so far."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from synthesis.stages import LEVELS, Level, Pipeline, StageSettings
from webapp.batches.engine.stage_runs import SAVE
from webapp.batches.models import Batch, BatchStageCount

BATCHES_LOOKED_AT = 20
"""Earlier batches that give the time of a stage that this one has not run yet."""


class TimedStage(Protocol):
    """A row of the funnel."""

    name: str

    @property
    def mean(self) -> float | None: ...


@dataclass(frozen=True)
class TimeLeft:
    """`seconds` of work if all open items are kept, without the `unseen` stages, whose duration is unknown. `earlier`:
    some durations are those of earlier batches."""

    seconds: float
    unseen: tuple[str, ...] = ()
    earlier: bool = False


@dataclass
class StageTimes:
    """Mean seconds of stages; `unseen` gathers requested stages of unknown duration."""

    pipeline: Pipeline
    settings: StageSettings
    means: Mapping[str, float]
    asked: set[str] = field(default_factory=set)
    unseen: list[str] = field(default_factory=list)

    def sum_below(self, level: Level) -> float:
        """Return the seconds of all items below a kept item of this level."""
        of_level: dict[str, float] = {}
        parts = self.pipeline.parts(level, self.settings)
        for part in parts:
            if part.level not in of_level:
                of_level[part.level] = self.sum_stages(part.level) + self.sum_below(part.level)
        return sum(of_level[part.level] for part in parts)

    def sum_stages(self, level: Level, start: str = "") -> float:
        """Return the seconds of an item's stages of its level, from `start` on."""
        every = [stage.name for stage in self.pipeline.of(level)]
        names = [stage.name for stage in self.pipeline.of(level) if stage.group is None]
        if start in every:
            names = [name for name in names if every.index(name) >= every.index(start)]
        elif start:
            names = []
        return sum(self._find_mean(name) for name in [*names, SAVE])

    def _find_mean(self, name: str) -> float:
        self.asked.add(name)
        if name not in self.means and name not in self.unseen:
            self.unseen.append(name)
        return self.means.get(name, 0.0)


def estimate_time_left(
    batch: Batch,
    lines: Sequence[TimedStage],
    waiting: Mapping[tuple[str, str], Mapping[str, int]],
    pipeline: Pipeline,
    settings: StageSettings,
) -> TimeLeft:
    """Return the remaining work. A stage that this batch has not seen takes as long as in earlier batches."""
    means = {line.name: line.mean for line in lines if line.mean is not None}
    unseen = [line.name for line in lines if line.mean is None]
    before = average_earlier_seconds(batch, unseen) if unseen else {}
    times = StageTimes(pipeline, settings, {**before, **means})
    total = 0.0
    for level in LEVELS:
        stages = {stage: sum(states.values()) for (at, stage), states in waiting.items() if at == level}
        if stages:
            below = times.sum_below(level)
            total += sum((times.sum_stages(level, stage) + below) * count for stage, count in stages.items())
    return TimeLeft(total, tuple(times.unseen), bool(times.asked & before.keys()))


def average_earlier_seconds(batch: Batch, stages: Collection[str]) -> dict[str, float]:
    """Return the mean seconds of these stages in earlier batches, by stage: in scripted batches if this one is
    scripted, else in the others."""
    earlier = Batch.objects.filter(scripted=batch.scripted, pk__lt=batch.pk).order_by("-pk")
    newest = list(earlier.values_list("pk", flat=True)[:BATCHES_LOOKED_AT])
    seconds: dict[str, float] = {}
    entered: dict[str, int] = {}
    for row in BatchStageCount.objects.filter(batch__in=newest, stage__in=stages):
        seconds[row.stage] = seconds.get(row.stage, 0.0) + row.seconds
        entered[row.stage] = entered.get(row.stage, 0) + max(0, row.count)
    return {stage: seconds[stage] / entered[stage] for stage in seconds if entered[stage]}
