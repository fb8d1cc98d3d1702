"""Sampler of the tasks of a step or a report. Seeded, no torch.

For SFT, it selects the rows of an epoch. For RL, a draw depends only on the seed and a small state, which is saved in a
checkpoint as JSON, and its tasks are distinct. By environment (`sampling.draw`): distinct environments by weight, each
(environment, setting) traversed in a shuffled order before it begins anew. By task: every task of the dataset with the
same probability, independent of earlier draws (ES B.2), or in proportion to the weights of the mixture.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import Field

from synthesis.contracts import Frozen, VerifierKind
from synthesis.errors import InputError
from training.config import EvaluationJob, Mixture, Sampling, SettingName

Item = TypeVar("Item")


def choose_rows(rows: Sequence[Item], count: int, seed: int) -> list[Item]:
    """Return the same `count` rows each time, drawn by the seed, in the dataset's order; all if there are fewer."""
    if len(rows) <= count:
        return list(rows)
    places = random.Random(f"evaluation:{seed}").sample(range(len(rows)), count)
    return [rows[place] for place in sorted(places)]


@dataclass(frozen=True)
class PlannedReport(Generic[Item]):
    """Attempts at (row, ordinal) that are made and reported together; `number` counts from 1."""

    number: int
    horizon: int
    work: tuple[tuple[Item, int], ...]


def plan_reports(config: EvaluationJob, rows: Sequence[Item]) -> list[PlannedReport[Item]]:
    """Return all reports of an evaluation, `config.steps` of them. Within a horizon every task is tried once, then
    every one a second time, so that an interrupted evaluation covers all tasks.
    """
    tried_rows = choose_rows(rows, config.tasks or len(rows), config.seed)
    work = [(row, ordinal) for ordinal in range(config.repeats) for row in tried_rows]
    size = config.report_every
    parts = [
        (horizon, tuple(work[start : start + size]))
        for horizon in config.horizons
        for start in range(0, len(work), size)
    ]
    return [PlannedReport(number, horizon, part) for number, (horizon, part) in enumerate(parts, 1)]


class Prompt(Frozen):
    """A task as the sampler sees it. `row` is the place of its line in the dataset."""

    row: int
    environment: str
    setting: SettingName = "task"
    verifier: VerifierKind = "checks"


class SamplerState(Frozen):
    """Progress of a job: draws made, and the number of passed rows of each (environment, setting)."""

    draws: int = Field(default=0, ge=0)
    passed: dict[str, int] = Field(default_factory=dict)


class Catalogue:
    """A dataset's prompts by environment and setting, without those of weight 0. Built once, never changed."""

    def __init__(self, prompts: Iterable[Prompt], mixture: Mixture, sampling: Sampling, seed: int) -> None:
        """Index the prompts. Raises InputError: too few environments or tasks, or an environment with too few, for a
        step.
        """
        self.sampling, self.mixture, self.seed = sampling, mixture, seed
        self.rows: dict[str, dict[SettingName, list[int]]] = defaultdict(dict)
        for prompt in prompts:
            weights = (mixture.settings.get(prompt.setting, 1.0), mixture.verifiers.get(prompt.verifier, 1))
            if self._weight(prompt.environment) and all(weights):
                self.rows[prompt.environment].setdefault(prompt.setting, []).append(prompt.row)
        self.environments = sorted(self.rows)
        self.weights = self._weigh_rows()
        if sampling.draw == "tasks":
            if len(self.weights) < sampling.tasks:
                raise InputError(
                    f"sampling.tasks: a step asks for {sampling.tasks} tasks, the dataset has {len(self.weights)} with "
                    "a weight above 0; lower it, or choose another dataset"
                )
            return
        if len(self.environments) < sampling.environments:
            raise InputError(
                f"sampling.environments: a step asks for {sampling.environments} environments, the dataset has "
                f"{len(self.environments)} with a weight above 0; lower it, or choose another dataset"
            )
        for name in self.environments:
            count = sum(map(len, self.rows[name].values()))
            if count < sampling.tasks_each:
                raise InputError(
                    f"sampling.tasks: a step asks for {sampling.tasks_each} tasks of an environment, {name!r} has "
                    f"{count}; give it weight 0 in mixture.environments, or lower sampling.tasks"
                )

    def draw(self, state: SamplerState, tasks: int | None = None) -> tuple[list[int], SamplerState]:
        """Return (rows, next state) of so many tasks, by default the step's: by environment, `tasks_each` rows of each
        side by side, of as many environments as needed.

        Dynamic sampling draws replacements by the same call with the last returned state.
        """
        count = self.sampling.tasks if tasks is None else tasks
        passed = dict(state.passed)
        if self.sampling.draw == "tasks":
            return self._draw_rows(state.draws, count), SamplerState(draws=state.draws + 1, passed=passed)
        environment_count = min(math.ceil(count / self.sampling.tasks_each), len(self.environments))
        drawn_names = self._environments(state.draws, environment_count)
        rows: list[int] = []
        for name in drawn_names:
            rows += self._tasks(name, state.draws, passed)
        return rows, SamplerState(draws=state.draws + 1, passed=passed)

    def _weight(self, environment: str) -> float:
        return self.mixture.environments.get(environment, 1.0)

    def _weigh_rows(self) -> dict[int, float]:
        """Return the weight of each row of the catalogue: environment times setting."""
        return {
            row: self._weight(name) * self.mixture.settings.get(setting, 1.0)
            for name in self.environments
            for setting, rows in sorted(self.rows[name].items())
            for row in rows
        }

    def _draw_rows(self, draw: int, count: int) -> list[int]:
        """Return distinct rows of the whole dataset, each draw independent: uniformly if all weigh the same, else by
        weight.
        """
        dice = self._random("rows", draw)
        if len(set(self.weights.values())) == 1:
            return dice.sample(sorted(self.weights), count)
        keys = {row: math.log(1.0 - dice.random()) / self.weights[row] for row in sorted(self.weights)}
        return sorted(keys, key=lambda row: (-keys[row], row))[:count]

    def _random(self, *parts: object) -> random.Random:
        # Python hashes a text seed with SHA-512, so that the numbers are the same on every machine.
        return random.Random(":".join(map(str, (self.seed, *parts))))

    def _environments(self, draw: int, count: int) -> list[str]:
        """Draw environments by weight, without replacement: the largest log(u) / weight (Efraimidis and Spirakis)."""
        dice = self._random("environments", draw)
        keys = {name: math.log(1.0 - dice.random()) / self._weight(name) for name in self.environments}
        return sorted(self.environments, key=lambda name: (-keys[name], name))[:count]

    def _tasks(self, environment: str, draw: int, passed: dict[str, int]) -> list[int]:
        """Return the next rows of an environment, each slot's setting by weight; update the progress in `passed`."""
        dice = self._random("settings", draw, environment)
        pools = self.rows[environment]
        taken_rows: list[int] = []
        for _ in range(self.sampling.tasks_each):
            free: list[SettingName] = [name for name in sorted(pools) if set(pools[name]) - set(taken_rows)]
            weights = [self.mixture.settings.get(name, 1.0) for name in free]
            setting = dice.choices(free, weights)[0]
            taken_rows.append(self._next(environment, setting, set(taken_rows), passed))
        return taken_rows

    def _next(self, environment: str, setting: SettingName, taken: set[int], passed: dict[str, int]) -> int:
        pool, key = self.rows[environment][setting], f"{setting}:{environment}"
        while True:
            lap, place = divmod(passed.get(key, 0), len(pool))
            order = self._random("tasks", key, lap).sample(pool, len(pool))
            passed[key] = passed.get(key, 0) + 1
            # If a round ends inside a draw, the next one may begin with a row of this draw.
            if order[place] not in taken:
                return order[place]


def draw_epoch_rows(prompts: Iterable[Prompt], mixture: Mixture, epoch: int, seed: int) -> list[int]:
    """Return the rows of one epoch of SFT, shuffled: each as many times as environment x setting weigh.

    Fractions are distributed over epochs: after k of them a row of weight w occurred floor(k w) or floor(k w) + 1
    times. Raises InputError: no row has a weight above 0.
    """
    rows, weighs = [], False
    for prompt in prompts:
        weight = mixture.environments.get(prompt.environment, 1.0) * mixture.settings.get(prompt.setting, 1.0)
        weighs = weighs or weight > 0
        # Each row starts its fraction at a random offset, so that epochs have about the same length.
        start = random.Random(f"{seed}:fraction:{prompt.row}").random()
        times = math.floor(start + (epoch + 1) * weight) - math.floor(start + epoch * weight)
        rows += [prompt.row] * times
    if not weighs:
        raise InputError("mixture: no row of the dataset has a weight above 0; raise one, or choose another dataset")
    random.Random(f"{seed}:epoch:{epoch}").shuffle(rows)
    return rows


def repeat_rows(rows: Sequence[Item], rollouts: int) -> list[Item]:
    """Return each row `rollouts` times, side by side, as TRL's sampler gives prompts to a group."""
    return [row for row in rows for _ in range(rollouts)]
