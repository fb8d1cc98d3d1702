"""Usage of past calls by role, stage and model, item by item, for estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Count, Max, Sum

from synthesis.stages import StageSettings
from webapp.batches.launch.bounds import Bounds, bound_mean
from webapp.batches.models import Batch, BatchItem, CallState, ItemState, LLMCall
from webapp.batches.spec import SCRIPTED, BatchSettings

LOOKED_BACK = 20_000
"""Number of newest calls that are read."""
LEAST_ITEMS = 5
"""Items that a stage, or a level, must have been seen for before its numbers are believed."""
GROWS_WITH = {"solve": "solver_runs", "test_state": "test_states"}
"""The setting that the calls of a stage grow with."""
DECIDED_BY = (
    "assessment_calls",
    "sequential",
    "assessment_threshold",
    "assessment_confidence",
    "tool_repairs",
    "tester",
)
"""Settings that decide how many calls an assessment makes."""
ENDED = (ItemState.KEPT, ItemState.REJECTED, ItemState.FAILED)


@dataclass(frozen=True)
class ItemUsage:
    """Usage of one past item by one role in one stage."""

    batch: int
    path: str
    role: str
    stage: str
    model: str
    calls: int
    prompt: int
    completion: int
    seconds: float

    @property
    def theme(self) -> tuple[int, str]:
        """Batch and root path: the same path in another batch over the same themes is another item with its own
        calls."""
        return self.batch, self.path.partition("/")[0]


@dataclass(frozen=True)
class PastUsage:
    """Calls of an item, and tokens and seconds of a call, as earlier items show; `count` calls were seen.

    `calls` is None if their number depends on settings and all of them were made under others. `scripted`: they were
    the scripted provider's, whose prompts are like a model's, and whose replies and times are not.
    """

    count: int
    calls: Bounds | None
    prompt: Bounds
    completion: Bounds
    seconds: Bounds
    scripted: bool
    mean_calls: float | None = None
    """Of an item that comes so far, those that were asked nothing counted in."""


class History:
    """The newest answered calls, and the states of the items of their batches."""

    def __init__(self, settings: StageSettings, themes: int) -> None:
        """Load the history for a batch with these settings over so many themes."""
        self.settings, self.themes = settings, themes
        newest = LLMCall.objects.aggregate(newest=Max("pk"))["newest"] or 0
        rows = LLMCall.objects.filter(pk__gt=newest - LOOKED_BACK, state=CallState.DONE, batch__isnull=False)
        names = ("batch", "path", "role", "stage", "model")
        sums = {"prompt": Sum("prompt_tokens"), "completion": Sum("completion_tokens"), "spent": Sum("seconds")}
        listed = rows.values_list(*names).annotate(calls=Count("pk"), **sums).order_by()
        self.items = [ItemUsage(*row) for row in listed]
        batches = Batch.objects.filter(pk__in={item.batch for item in self.items})
        self.before = {
            batch.pk: BatchSettings.model_validate(batch.settings).stages for batch in batches.only("settings")
        }

    def of(self, role: str, stage: str, model: str) -> PastUsage | None:
        """Return the usage with this model, else with others over a network, else with the scripted provider; None if
        the stage was not seen often enough."""
        stage_items = [item for item in self.items if (item.role, item.stage) == (role, stage)]
        groups = (
            [item for item in stage_items if item.model == model],
            [item for item in stage_items if item.model != SCRIPTED],
            [item for item in stage_items if item.model == SCRIPTED],
        )
        return next((self._build_past_usage(group) for group in groups if len(group) >= LEAST_ITEMS), None)

    def bound_kept_share(self, level: str, *, scripted: bool) -> Bounds | None:
        """Return the share of a level's items that were kept; None if too few ended."""
        kept_count, ended_count = (self._ends[level, scripted, state] for state in (True, False))
        if kept_count + ended_count < LEAST_ITEMS:
            return None
        share = bound_mean([1.0] * kept_count + [0.0] * ended_count, self._count_themes(scripted), self.themes)
        return Bounds(share.low, min(1.0, share.high))

    def _build_past_usage(self, group: Sequence[ItemUsage]) -> PastUsage:
        scripted = all(item.model == SCRIPTED for item in group)
        stage, depth = group[0].stage, group[0].path.count("/")
        themes = len({item.theme for item in group})

        def bound_per_call(figure: str) -> Bounds:
            return bound_mean([getattr(item, figure) / item.calls for item in group], themes, self.themes)

        counted = [item for item in group if self._is_like(stage, item)]
        calls, mean = None, None
        if len(counted) >= LEAST_ITEMS:
            idle = len({item for item in self._paths[scripted] if item[1].count("/") == depth}) - len(group)
            figures = [item.calls * self._growth(stage, item) for item in counted]
            mean = sum(figures) / (len(figures) + max(0, idle))
            calls = bound_mean(figures, len({item.theme for item in counted}), self.themes, max(0, idle))
        count = sum(item.calls for item in group)
        return PastUsage(
            count,
            calls,
            bound_per_call("prompt"),
            bound_per_call("completion"),
            bound_per_call("seconds"),
            scripted,
            mean,
        )

    def _is_like(self, stage: str, item: ItemUsage) -> bool:
        if stage not in ("test_call", "choose_call", "check_call"):
            return True
        before = self.before[item.batch]
        return all(getattr(before, name) == getattr(self.settings, name) for name in DECIDED_BY)

    def _growth(self, stage: str, item: ItemUsage) -> float:
        name = GROWS_WITH.get(stage)
        return getattr(self.settings, name) / getattr(self.before[item.batch], name) if name else 1.0

    def _count_themes(self, scripted: bool) -> int:
        return len({(batch, path.partition("/")[0]) for batch, path in self._paths[scripted]})

    @cached_property
    def _paths(self) -> dict[bool, set[tuple[int, str]]]:
        """(batch, path) of every seen item, by whether it used the scripted provider."""
        return {
            scripted: {(item.batch, item.path) for item in self.items if (item.model == SCRIPTED) is scripted}
            for scripted in (True, False)
        }

    @cached_property
    def _ends(self) -> Counter[tuple[str, bool, bool]]:
        """Items of the seen batches, by level, whether the batch is scripted, and whether kept."""
        ended = BatchItem.objects.filter(batch__in=self.before, state__in=ENDED).order_by()
        counts: Counter[tuple[str, bool, bool]] = Counter()
        for level, scripted, state, count in ended.values_list("level", "batch__scripted", "state").annotate(
            Count("pk")
        ):
            counts[level, scripted, state == ItemState.KEPT] += count
        return counts
