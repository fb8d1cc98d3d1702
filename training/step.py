"""What one step of RL tries: tasks drawn, attempts made, dynamic sampling's refills; the same list on every rank."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from synthesis.errors import EnvariumError
from training.attempts import TaskAttempt, tries
from training.config import Reinforcement
from training.dataset import TaskRow
from training.masks import zero_variance
from training.policy import Trace
from training.rewards import scored
from training.rows import Rows, rows_of
from training.sampler import Catalogue, SamplerState
from training.step_record import Judged, program_error_words

FEWEST = 16
"""A step of fewer attempts is taken as one of so many, where its programs' errors are held against a share of them."""
NOBODY = -1
"""The place of a sample that only fills up."""
Attempting = Callable[[Sequence[tuple[TaskRow, int]], str], list[TaskAttempt]]
"""Makes this rank's attempts at (row, ordinal) with a seed; some may be missing where the job was stopped."""


class StepStopped(EnvariumError):
    """The job was told to stop while attempts were under way; nothing was learnt from them."""


class TooManyLost(EnvariumError):
    """More of a step's attempts were lost to the infrastructure than the job allows."""


class TooManyProgramErrors(EnvariumError):
    """More of a step's attempts were ended by their environments' programs than the job allows."""


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this is. `every` gives all processes' items, in the order of their ranks."""

    rank: int = 0
    count: int = 1
    every: Callable[[list[Any]], list[Any]] = lambda items: items

    def apart(self) -> Ranks:
        """The same processes with a channel of their own, for a thread: its exchanges must not meet the training's."""
        if self.count == 1:
            return self
        import torch.distributed

        group = torch.distributed.new_group(backend="gloo")

        def every(items: list[Any]) -> list[Any]:
            told: list[Any] = [None] * self.count
            torch.distributed.all_gather_object(told, items, group=group)
            return [item for part in told for item in part]

        return Ranks(self.rank, self.count, every)


@dataclass(frozen=True)
class Samples:
    """The M sequences that a step's update is computed on, alike on every rank: one an attempt, or one a turn of an
    attempt (`training.turn_policy`), side by side in the order of its turns.

    `places` are those of their attempts in the step. Each has its attempt's advantage and mask; rewards, baselines,
    deviations and the loss's divisor stay those of attempts, so that a long one counts as a short one does. Sequences
    of `NOBODY`, which bear no loss, fill up to what ranks and micro batches share evenly.
    """

    traces: list[Trace]
    places: list[int]

    def own(self, ranks: Ranks) -> slice:
        """This rank's share."""
        size = len(self.places) // ranks.count
        return slice(ranks.rank * size, (ranks.rank + 1) * size)


@dataclass(frozen=True)
class TrainingStep:
    """All attempts that a step made, on every rank alike. `kept` are the places of those that the update is made of,
    a group of `rollouts` side by side, as many as the configuration asks for."""

    judged: list[Judged]
    rollouts: int
    kept: list[int]
    draws: int
    state: SamplerState
    seconds: float
    policy_step: int = 0
    """How many updates the policy that made them had had."""

    def rows(self) -> Rows:
        """Rows of all attempts, those that dynamic sampling left out included. A task that was drawn twice makes two
        groups."""
        return rows_of(
            [score for _, score in self.judged],
            [str(place // self.rollouts) for place in range(len(self.judged))],
            [tried.row.environment for tried, _ in self.judged],
        )

    def own(self, ranks: Ranks) -> list[int]:
        """Places of this rank's share of `kept`."""
        size = len(self.kept) // ranks.count
        return self.kept[ranks.rank * size : (ranks.rank + 1) * size]

    def samples(self, parts: int) -> Samples:
        """The sequences of the kept attempts, a multiple of `parts` (ranks x micro batches)."""
        pairs = [(place, trace) for place in self.kept for trace in self.judged[place][0].trace.samples()]
        missing = -len(pairs) % parts if pairs else parts
        pairs += [(NOBODY, Trace())] * missing
        return Samples([trace for _, trace in pairs], [place for place, _ in pairs])


def make_step(
    cfg: Reinforcement,
    catalogue: Catalogue,
    dataset: Sequence[TaskRow],
    state: SamplerState,
    attempting: Attempting,
    ranks: Ranks,
    stopped: Callable[[], bool],
) -> TrainingStep:
    """Draw tasks and attempt them; with dynamic sampling (AF 4.1) draw others for groups of equal rewards.

    What cannot be filled in `dynamic_sampling.rounds` draws stays with such groups, which teach nothing. Raises
    Stopped; TooManyLost: more than `limits.infra_error_share` of the attempts were lost; TooManyProgramErrors: more
    than `limits.program_error_share` of them were ended by programs.
    """
    started, judged, draws = time.perf_counter(), list[Judged](), 0
    groups: list[list[int]] = []
    useful: list[int] = []
    missing = cfg.sampling.tasks
    while missing > 0 and draws < (cfg.dynamic_sampling.rounds if cfg.dynamic_sampling.enabled else 1):
        wanted = min(math.ceil(missing / cfg.sampling.tasks_each), len(catalogue.environments))
        places, state = catalogue.draw(state, environments=wanted)
        work = tries([dataset[place] for place in places], cfg.sampling.rollouts)
        made = _everywhere(work, f"{cfg.seed}:{state.draws}", attempting, ranks, stopped)
        base = len(judged)
        judged += [(tried, scored(tried.attempt, cfg.reward, cfg.masking)) for tried in made]
        size = cfg.sampling.rollouts
        groups += [list(range(at, at + size)) for at in range(base, len(judged), size)]
        draws += 1
        useful = _useful(judged, groups, cfg)
        missing = cfg.sampling.tasks - len(useful)
    _require_sandbox(judged, cfg.limits.infra_error_share)
    _require_programs(judged, cfg.limits.program_error_share)
    others = [number for number in range(len(groups)) if number not in set(useful)]
    chosen = sorted([*useful, *others][: cfg.sampling.tasks])
    kept = [place for number in chosen for place in groups[number]]
    return TrainingStep(judged, cfg.sampling.rollouts, kept, draws, state, time.perf_counter() - started)


def _everywhere(
    work: list[tuple[TaskRow, int]], seed: str, attempting: Attempting, ranks: Ranks, stopped: Callable[[], bool]
) -> list[TaskAttempt]:
    """All attempts in the order of `work`, each made on one rank. Every rank hears of it when one was stopped."""
    own = attempting(work[ranks.rank :: ranks.count], seed)
    halted = len(own) < len(work[ranks.rank :: ranks.count]) or stopped()
    if any(ranks.every([halted])):
        raise StepStopped("The job was told to stop.")
    made = ranks.every(own)
    known = {(tried.group, tried.ordinal): tried for tried in made}
    return [known[(f"{row.setting}:{row.id}", number)] for row, number in work]


def _useful(judged: Sequence[Judged], groups: Sequence[Sequence[int]], cfg: Reinforcement) -> list[int]:
    """Numbers of the groups that teach something; without dynamic sampling, of all."""
    if not cfg.dynamic_sampling.enabled:
        return list(range(len(groups)))
    rewards = rows_of([s for _, s in judged], _numbered(groups), ["" for _ in judged])
    flat = zero_variance(rewards.rewards, rewards.groups, rewards.valid)
    return [number for number, places in enumerate(groups) if not bool(flat[places[0]])]


def _numbered(groups: Sequence[Sequence[int]]) -> list[str]:
    return [str(number) for number, places in enumerate(groups) for _ in places]


def _require_sandbox(judged: Sequence[Judged], most: float) -> None:
    lost = [tried.attempt.note for tried, score in judged if score.masked == "infra_error"]
    if len(lost) > most * len(judged):
        raise TooManyLost(
            f"{len(lost)} of {len(judged)} attempts of a step were lost to the infrastructure, more than the "
            f"{most:.0%} allowed; the last one: {lost[-1][:500] or 'no reason given'}"
        )


def _require_programs(judged: Sequence[Judged], most: float) -> None:
    ended = sum(tried.attempt.outcome == "program_error" for tried, _ in judged)
    if ended > most * max(len(judged), FEWEST):
        raise TooManyProgramErrors(
            f"{ended} of {len(judged)} attempts of a step were ended by the programs of their environments, more than "
            f"the {most:.0%} allowed (limits.program_error_share): {program_error_words(judged)} Repair the "
            "environment, leave it out of the dataset, or allow more, then resume."
        )
