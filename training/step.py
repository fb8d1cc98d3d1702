"""One step of RL: tasks drawn, attempts made, refills of dynamic sampling; the same list on every rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch.distributed

from synthesis.contracts import Attempt
from synthesis.errors import EnvariumError
from training.attempts import TaskAttempt, list_tries
from training.config import Reinforcement
from training.dataset import TaskRow
from training.objective.masks import find_zero_variance
from training.objective.rows import Rows, build_rows
from training.policy import Trace
from training.rewards import score_attempt
from training.sampler import Catalogue, SamplerState
from training.step_record import Judged, describe_program_errors

FEWEST = 16
"""A step of fewer attempts is taken as one of so many, where its programs' errors are held against a share of them."""
NOBODY = -1
"""The place of a sample that only fills up."""
Attempting = Callable[[Sequence[tuple[TaskRow, int]], str], list[TaskAttempt]]
"""Makes this rank's attempts at (row, ordinal) with a seed; some may be missing if the job was stopped."""


class StepStopped(EnvariumError):
    """The job was stopped while attempts were under way; they were not trained on."""


class TooManyLost(EnvariumError):
    """More of a step's attempts were lost to the infrastructure than the job allows."""


class TooManyProgramErrors(EnvariumError):
    """More of a step's attempts were ended by their environments' programs than the job allows."""


@dataclass(frozen=True)
class Ranks:
    """Place of this process among all. `every` returns all processes' items, in the order of their ranks; `first`
    returns them to the first process only, and to others their own items.
    """

    rank: int = 0
    count: int = 1
    every: Callable[[list[Any]], list[Any]] = lambda items: items
    first: Callable[[list[Any]], list[Any]] = lambda items: items

    def apart(self) -> Ranks:
        """Return the same processes with a separate channel for a thread, whose exchanges must not mix with the
        training's.
        """
        if self.count == 1:
            return self
        return _make_ranks(self.rank, self.count, torch.distributed.new_group(backend="gloo"))


def get_ranks(accelerator: Any) -> Ranks:
    """Return the processes of an accelerator (accelerate's)."""
    return _make_ranks(accelerator.process_index, accelerator.num_processes, None)


def _make_ranks(rank: int, count: int, group: Any) -> Ranks:
    """Return processes that exchange over a group; None: the group of all."""
    if count == 1:
        return Ranks()

    def gather_everywhere(items: list[Any]) -> list[Any]:
        told: list[Any] = [None] * count
        torch.distributed.all_gather_object(told, items, group=group)
        return [item for part in told for item in part]

    def gather_first(items: list[Any]) -> list[Any]:
        told: list[Any] | None = [None] * count if rank == 0 else None
        torch.distributed.gather_object(items, told, dst=0, group=group)
        return items if told is None else [item for part in told for item in part]

    return Ranks(rank, count, gather_everywhere, gather_first)


@dataclass(frozen=True)
class Samples:
    """The M sequences that a step's update is computed on: one per attempt, or one per turn of an attempt
    (`training.turn_policy`), side by side in the order of its turns. `traces` are this rank's.

    `places` are those of their attempts in the step, of all ranks, one rank after another. Each sequence has its
    attempt's advantage and mask; rewards, baselines, deviations and the loss's divisor stay those of attempts, so that
    a long one counts as a short one does. Sequences of `NOBODY`, which bear no loss, fill up to a number that ranks and
    micro batches share evenly.
    """

    traces: list[Trace]
    places: list[int]

    def own(self, ranks: Ranks) -> slice:
        """Return the slice of this rank's share."""
        size = len(self.places) // ranks.count
        return slice(ranks.rank * size, (ranks.rank + 1) * size)


@dataclass(frozen=True)
class TrainingStep:
    """All attempts that a step made, in the same order on every rank. `kept` are the places of those that the update
    uses, a group of `rollouts` side by side, as many as the configuration requires; `shares` are each rank's.

    The messages are only on the first rank, which writes them, and on the rank that made the attempt; tokens are on the
    rank that trains on them. Other ranks know only how it ended.
    """

    judged: list[Judged]
    rollouts: int
    kept: list[int]
    draws: int
    state: SamplerState
    seconds: float
    shares: list[list[int]]
    policy_step: int = 0
    """How many updates the policy that made them had had."""

    def rows(self) -> Rows:
        """Return rows of all attempts, including those that dynamic sampling left out. A task that was drawn twice
        makes two groups.
        """
        return build_rows(
            [score for _, score in self.judged],
            [str(place // self.rollouts) for place in range(len(self.judged))],
            [tried.row.environment for tried, _ in self.judged],
        )

    def own(self, ranks: Ranks) -> list[int]:
        """Return the places of this rank's share of `kept`."""
        return self.shares[ranks.rank]

    def samples(self, ranks: Ranks, parts: int) -> Samples:
        """Return the sequences of the kept attempts: the same number on each rank, a multiple of `parts` (micro
        batches).
        """
        pairs = [(place, trace) for place in self.own(ranks) for trace in self.judged[place][0].trace.samples()]
        most = max(1, *ranks.every([len(pairs)]))
        pairs += [(NOBODY, Trace())] * (most + -most % parts - len(pairs))
        return Samples([trace for _, trace in pairs], ranks.every([place for place, _ in pairs]))


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

    If `dynamic_sampling.rounds` draws do not fill the step, such groups, which teach nothing, fill it. Raises
    StepStopped; TooManyLost: more than `limits.infra_error_share` of the attempts were lost; TooManyProgramErrors: more
    than `limits.program_error_share` of them were ended by programs.
    """
    started, judged, draws, makers = time.perf_counter(), list[Judged](), 0, list[int]()
    groups: list[list[int]] = []
    useful: list[int] = []
    missing = cfg.sampling.tasks
    while missing > 0 and draws < (cfg.dynamic_sampling.rounds if cfg.dynamic_sampling.enabled else 1):
        places, state = catalogue.draw(state, missing)
        work = list_tries([dataset[place] for place in places], cfg.sampling.rollouts)
        new_attempts = _attempt_on_all_ranks(work, f"{cfg.seed}:{state.draws}", attempting, ranks, stopped)
        base = len(judged)
        judged += [(tried, score_attempt(tried.attempt, cfg.reward, cfg.masking)) for tried in new_attempts]
        makers += [number % ranks.count for number in range(len(new_attempts))]
        size = cfg.sampling.rollouts
        groups += [list(range(at, at + size)) for at in range(base, len(judged), size)]
        draws += 1
        useful = _find_useful_groups(judged, groups, cfg)
        missing = cfg.sampling.tasks - len(useful)
    _require_sandbox(judged, cfg.limits.infra_error_share)
    _require_programs(judged, cfg.limits.program_error_share)
    others = [number for number in range(len(groups)) if number not in set(useful)]
    chosen_groups = sorted([*useful, *others][: cfg.sampling.tasks])
    kept_places = [place for number in chosen_groups for place in groups[number]]
    shares = share_places(kept_places, makers, ranks.count)
    _exchange_tokens(judged, makers, shares, ranks)
    return TrainingStep(judged, cfg.sampling.rollouts, kept_places, draws, state, time.perf_counter() - started, shares)


def _attempt_on_all_ranks(
    work: list[tuple[TaskRow, int]], seed: str, attempting: Attempting, ranks: Ranks, stopped: Callable[[], bool]
) -> list[TaskAttempt]:
    """Return all attempts in the order of `work`, each made on one rank. Raises StepStopped on every rank if one was
    stopped.

    Ranks exchange the places of attempts, not their tasks, and no copies of prompts.
    """
    places = range(ranks.rank, len(work), ranks.count)
    own_attempts = attempting([work[place] for place in places], seed)
    halted = len(own_attempts) < len(places) or stopped()
    if any(ranks.every([halted])):
        raise StepStopped("The job was asked to stop.")
    whole = dict(zip(places, (_drop_prefixes(tried.attempt) for tried in own_attempts), strict=True))
    known_attempts = dict(ranks.every([(place, _keep_ending(attempt)) for place, attempt in whole.items()]))
    lengths = [
        (place, Trace(own=tried.trace.own, drawn=tried.trace.drawn))
        for place, tried in zip(places, own_attempts, strict=True)
    ]
    traces = dict(ranks.first(lengths)) | {
        place: tried.trace for place, tried in zip(places, own_attempts, strict=True)
    }
    known_attempts |= dict(ranks.first(list(whole.items()))) | whole
    return [
        TaskAttempt(row, number, known_attempts[place], traces.get(place, Trace()))
        for place, (row, number) in enumerate(work)
    ]


def _drop_prefixes(attempt: Attempt) -> Attempt:
    """Return the attempt without the prompt ids of each turn: together they grow with the square of the number of
    turns, and the attempt's trace holds them once.
    """
    turns = tuple(turn.model_copy(update={"prompt_ids": None}) for turn in attempt.turns)
    return attempt.model_copy(update={"turns": turns})


def _keep_ending(attempt: Attempt) -> Attempt:
    """Return the outcome of an attempt, without its turns, messages and steps."""
    return attempt.model_copy(update={"turns": (), "messages": (), "steps": ()})


def share_places(kept: Sequence[int], makers: Sequence[int], count: int) -> list[list[int]]:
    """Return equal shares of places for `count` ranks: each trains on its own attempts, as far as shares stay equal."""
    size = len(kept) // count
    shares = [[place for place in kept if makers[place] == rank][:size] for rank in range(count)]
    taken_places = {place for share in shares for place in share}
    left_places = [place for place in kept if place not in taken_places]
    for share in shares:
        missing = size - len(share)
        share += left_places[:missing]
        left_places = left_places[missing:]
    return shares


def _exchange_tokens(judged: list[Judged], makers: Sequence[int], shares: list[list[int]], ranks: Ranks) -> None:
    """Send each rank the tokens of attempts that it trains on and another rank made."""
    moved = {place for rank, share in enumerate(shares) for place in share if makers[place] != rank}
    mine = [(place, judged[place][0].trace) for place in sorted(moved) if makers[place] == ranks.rank]
    for place, trace in ranks.every(mine) if moved else ():
        if place in shares[ranks.rank]:
            tried, score = judged[place]
            judged[place] = replace(tried, trace=trace), score


def _find_useful_groups(judged: Sequence[Judged], groups: Sequence[Sequence[int]], cfg: Reinforcement) -> list[int]:
    """Return the indices of the groups that teach something; without dynamic sampling, of all."""
    if not cfg.dynamic_sampling.enabled:
        return list(range(len(groups)))
    rewards = build_rows([s for _, s in judged], _number_groups(groups), ["" for _ in judged])
    flat = find_zero_variance(rewards.rewards, rewards.groups, rewards.valid)
    return [number for number, places in enumerate(groups) if not bool(flat[places[0]])]


def _number_groups(groups: Sequence[Sequence[int]]) -> list[str]:
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
            f"the {most:.0%} allowed (limits.program_error_share): {describe_program_errors(judged)} Repair the "
            "environment, leave it out of the dataset, or allow more, then resume."
        )
