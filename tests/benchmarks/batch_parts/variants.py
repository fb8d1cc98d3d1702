"""A batch of a real pipeline: recorded in this process, then measured against a server that gives the same replies."""

from __future__ import annotations

import os
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.benchmarks.batch_parts.recording import RecordingModel
from tests.benchmarks.batch_parts.schedule import Step, bound_rounds, build_steps, schedule_rounds

NUMBERS = {
    "scenarios": 2, "tasks": 2, "teacher_runs": 1, "conversational": False, "assessment_calls": 12, "solver_runs": 2,
    "repairs": 1, "duplicate_pairs": 0,
}  # fmt: skip
"""Themes are few bundled ones under many names, so nobody is asked whether they are alike."""


@dataclass
class VariantRun:
    """A batch of a variant over so many themes that it has `items` items. `model` recorded its replies; `steps` are
    those of its calls."""

    variant: str
    items: int
    model: RecordingModel = field(default_factory=RecordingModel)
    themes: int = 0
    steps: list[Step] = field(default_factory=list)
    states: dict[str, int] = field(default_factory=dict)

    def settings(self, models: dict[str, str]) -> Any:
        from synthesis.stages import StageSettings
        from webapp.batches.spec import BatchSettings

        stages = StageSettings.model_validate(NUMBERS)
        return BatchSettings(variant=self.variant, stages=stages, models=models, at_once=256)

    def create(self, settings: Any, name: str, themes: int) -> Any:
        """Begin a batch over so many themes: bundled ones in turn, each under a name of its own."""
        from synthesis.scripted import list_bundled_themes as bundled_themes
        from tests.batches.real import theme_of
        from webapp.batches.services import build_theme_spec, create_batch

        plain = [draft.key for draft in bundled_themes(self.variant)]
        keys = [f"{plain[number % len(plain)]}__{name}{number}" for number in range(themes)]
        return create_batch(None, name, [build_theme_spec(theme_of(key)) for key in keys], settings, settings.pipeline)

    def record(self, latency: float) -> None:
        """Run the batch with the scripted provider, whose replies and whose calls' depths are recorded.

        What an assessment draws depends on the theme's name, so each copy of a theme has calls and depths of its own.
        Replies take a quarter of the latency: long enough that what is asked at once also begins at once. A theme of
        each kind goes first, which says how many items one has and warms this process up.
        """
        from synthesis.scripted import list_bundled_themes as bundled_themes
        from tests.batches.real import real_pipeline
        from tests.batches.support import work_off
        from webapp.batches.spec import ROLES, SCRIPTED

        settings = self.settings(dict.fromkeys(ROLES, SCRIPTED))
        kinds = [f"{draft.key}__probe{number}" for number, draft in enumerate(bundled_themes(self.variant))]
        with real_pipeline(RecordingModel(latency_s=0.01)):  # type: ignore[arg-type]
            probe = work_off(self.create(settings, "probe", len(kinds)))
        self.themes = max(1, round(self.items * len(kinds) / probe.items.count()))
        self.model.latency_s = latency / 4
        with real_pipeline(self.model):  # type: ignore[arg-type]
            self.states = count_states(work_off(self.create(settings, "copy", self.themes)))
        by_theme: dict[str, dict[str, Counter[int]]] = defaultdict(dict)
        for item, depths in self.model.depths.items():
            by_theme[item.partition("/")[0]][item] = depths
        self.steps = [step for depths in by_theme.values() for step in build_steps(depths)]

    def measure(self, url: str, at_once: int, latency: float) -> dict[str, Any]:
        """Run the same batch against the server, which must end as the recorded one did."""
        from tests.batches.real import real_pipeline
        from tests.batches.support import work_off
        from tests.rollouts_web.support import endpoint_at
        from webapp.batches.models import LLMCall
        from webapp.batches.spec import ROLES

        endpoint = endpoint_at(url, max_concurrency=at_once, timeout_s=60)
        settings = self.settings(dict.fromkeys(ROLES, f"{endpoint.pk}/scripted-1"))
        before = LLMCall.objects.count()
        batch = self.create(settings, "copy", self.themes)
        with real_pipeline(RecordingModel()):  # type: ignore[arg-type]
            began, cpu = time.perf_counter(), os.times()
            work_off(batch)
            actual, now = time.perf_counter() - began, os.times()
        if count_states(batch) != self.states:
            raise SystemExit(f"The batch came to {count_states(batch)}, the recorded one to {self.states}.")
        calls = LLMCall.objects.count() - before
        depths = sum(self.model.depths.values(), Counter[int]())
        rounds = schedule_rounds(self.steps, at_once)
        used = now.user + now.system + now.children_user + now.children_system
        used -= cpu.user + cpu.system + cpu.children_user + cpu.children_system
        return {
            "variant": self.variant,
            "items": batch.items.count(),
            "states": self.states,
            "at_once": at_once,
            "latency_s": latency,
            "llm_calls": calls,
            "recorded_calls": depths.total(),
            "critical_path": max(depths),
            "bound_s": round(bound_rounds(self.steps, depths, at_once) * latency, 3),
            "ideal_s": round(rounds * latency, 3),
            "actual_s": round(actual, 3),
            "cpu_s": round(used, 3),
            "ratio_to_ideal": round(rounds * latency / actual, 4),
        }


def count_states(batch: Any) -> dict[str, int]:
    """Items of a batch by level and state."""
    rows = batch.items.order_by().values_list("level", "state")
    return {f"{level} {state}": sum(1 for row in rows if row == (level, state)) for level, state in sorted(set(rows))}
