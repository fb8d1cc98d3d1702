"""Usage of past calls by role, stage and model, item by item, for estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Count, Max, Sum

from synthesis.stages import StageSettings
from webapp.batches.launch.bounds import Bounds, mean_bounds
from webapp.batches.models import Batch, BatchItem, CallState, ItemState, LLMCall
from webapp.batches.spec import SCRIPTED, BatchSettings

LOOKED_BACK = 20_000
"""So many of the newest calls are looked at."""
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
    """What one item of the past asked of one role in one stage."""

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
        """The same path comes again in each batch over the same themes: another item, with calls of its own."""
        return self.batch, self.path.partition("/")[0]


@dataclass(frozen=True)
class PastUsage:
    """Calls of an item, and tokens and seconds of a call, as far as earlier items tell; `count` calls were seen.

    `calls` is None where their number hangs on settings, and all of them were made under others. `scripted`: they were
    the offline provider's, whose prompts are a model's too, and whose replies and times are not.
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
    """The newest calls that were answered, and what became of the items of their batches."""

    def __init__(self, settings: StageSettings, themes: int) -> None:
        """For a batch with these settings over so many themes."""
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
        """Of this model, else of others that are asked over a network, else of the offline provider; None where the
        stage was not seen often enough."""
        here = [item for item in self.items if (item.role, item.stage) == (role, stage)]
        groups = (
            [item for item in here if item.model == model],
            [item for item in here if item.model != SCRIPTED],
            [item for item in here if item.model == SCRIPTED],
        )
        return next((self._past(group) for group in groups if len(group) >= LEAST_ITEMS), None)

    def kept(self, level: str, *, scripted: bool) -> Bounds | None:
        """The share of a level's items that were kept; None where too few ended."""
        kept, gone = (self._ends[level, scripted, state] for state in (True, False))
        if kept + gone < LEAST_ITEMS:
            return None
        share = mean_bounds([1.0] * kept + [0.0] * gone, self._themes_of(scripted), self.themes)
        return Bounds(share.low, min(1.0, share.high))

    def _past(self, group: Sequence[ItemUsage]) -> PastUsage:
        scripted = all(item.model == SCRIPTED for item in group)
        stage, depth = group[0].stage, group[0].path.count("/")
        themes = len({item.theme for item in group})

        def of_call(figure: str) -> Bounds:
            return mean_bounds([getattr(item, figure) / item.calls for item in group], themes, self.themes)

        counted = [item for item in group if self._is_like(stage, item)]
        calls, mean = None, None
        if len(counted) >= LEAST_ITEMS:
            idle = len({item for item in self._paths[scripted] if item[1].count("/") == depth}) - len(group)
            figures = [item.calls * self._growth(stage, item) for item in counted]
            mean = sum(figures) / (len(figures) + max(0, idle))
            calls = mean_bounds(figures, len({item.theme for item in counted}), self.themes, max(0, idle))
        count = sum(item.calls for item in group)
        return PastUsage(count, calls, of_call("prompt"), of_call("completion"), of_call("seconds"), scripted, mean)

    def _is_like(self, stage: str, item: ItemUsage) -> bool:
        if stage not in ("test_call", "choose_call", "check_call"):
            return True
        before = self.before[item.batch]
        return all(getattr(before, name) == getattr(self.settings, name) for name in DECIDED_BY)

    def _growth(self, stage: str, item: ItemUsage) -> float:
        name = GROWS_WITH.get(stage)
        return getattr(self.settings, name) / getattr(self.before[item.batch], name) if name else 1.0

    def _themes_of(self, scripted: bool) -> int:
        return len({(batch, path.partition("/")[0]) for batch, path in self._paths[scripted]})

    @cached_property
    def _paths(self) -> dict[bool, set[tuple[int, str]]]:
        """(batch, path) of every item that was seen, by whether the offline provider was asked."""
        return {
            scripted: {(item.batch, item.path) for item in self.items if (item.model == SCRIPTED) is scripted}
            for scripted in (True, False)
        }

    @cached_property
    def _ends(self) -> Counter[tuple[str, bool, bool]]:
        """Items of the batches that were seen by level, whether the offline provider played, and whether kept."""
        ended = BatchItem.objects.filter(batch__in=self.before, state__in=ENDED).order_by()
        counts: Counter[tuple[str, bool, bool]] = Counter()
        for level, scripted, state, count in ended.values_list("level", "batch__scripted", "state").annotate(
            Count("pk")
        ):
            counts[level, scripted, state == ItemState.KEPT] += count
        return counts
