"""What one step of RL tries: tasks drawn, attempts made, dynamic sampling's refills; the same list on every rank."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch.distributed

from synthesis.contracts import Attempt
from synthesis.errors import EnvariumError
from training.attempts import TaskAttempt, tries
from training.config import Reinforcement
from training.dataset import TaskRow
from training.objective.masks import zero_variance
from training.objective.rows import Rows, rows_of
from training.policy import Trace
from training.rewards import scored
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
    """Which of how many processes this is. `every` gives all processes' items, in the order of their ranks; `first`
    gives them to the first process alone, and to others what is their own."""

    rank: int = 0
    count: int = 1
    every: Callable[[list[Any]], list[Any]] = lambda items: items
    first: Callable[[list[Any]], list[Any]] = lambda items: items

    def apart(self) -> Ranks:
        """The same processes with a channel of their own, for a thread: its exchanges must not meet the training's."""
        if self.count == 1:
            return self
        return _exchanging(self.rank, self.count, torch.distributed.new_group(backend="gloo"))


def ranks_of(accelerator: Any) -> Ranks:
    """The processes of an accelerator (accelerate's)."""
    return _exchanging(accelerator.process_index, accelerator.num_processes, None)


def _exchanging(rank: int, count: int, group: Any) -> Ranks:
    """Processes that exchange over a group of theirs; None: the one of all."""
    if count == 1:
        return Ranks()

    def every(items: list[Any]) -> list[Any]:
        told: list[Any] = [None] * count
        torch.distributed.all_gather_object(told, items, group=group)
        return [item for part in told for item in part]

    def first(items: list[Any]) -> list[Any]:
        told: list[Any] | None = [None] * count if rank == 0 else None
        torch.distributed.gather_object(items, told, dst=0, group=group)
        return items if told is None else [item for part in told for item in part]

    return Ranks(rank, count, every, first)


@dataclass(frozen=True)
class Samples:
    """The M sequences that a step's update is computed on: one an attempt, or one a turn of an attempt
    (`training.turn_policy`), side by side in the order of its turns. `traces` are this rank's.

    `places` are those of their attempts in the step, of all ranks, one rank's behind the other's. Each sequence has its
    attempt's advantage and mask; rewards, baselines, deviations and the loss's divisor stay those of attempts, so that
    a long one counts as a short one does. Sequences of `NOBODY`, which bear no loss, fill up to what ranks and micro
    batches share evenly.
    """

    traces: list[Trace]
    places: list[int]

    def own(self, ranks: Ranks) -> slice:
        """This rank's share."""
        size = len(self.places) // ranks.count
        return slice(ranks.rank * size, (ranks.rank + 1) * size)


@dataclass(frozen=True)
class TrainingStep:
    """All attempts that a step made, in the same order on every rank. `kept` are the places of those that the update
    is made of, a group of `rollouts` side by side, as many as the configuration asks for; `shares` are each rank's.

    What was said stands with the first rank, which writes it down, and with the rank that made the attempt; tokens
    with the rank that learns from it. Others know how it ended.
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
        """Rows of all attempts, those that dynamic sampling left out included. A task that was drawn twice makes two
        groups."""
        return rows_of(
            [score for _, score in self.judged],
            [str(place // self.rollouts) for place in range(len(self.judged))],
            [tried.row.environment for tried, _ in self.judged],
        )

    def own(self, ranks: Ranks) -> list[int]:
        """Places of this rank's share of `kept`."""
        return self.shares[ranks.rank]

    def samples(self, ranks: Ranks, parts: int) -> Samples:
        """The sequences of the kept attempts: as many on each rank, a multiple of `parts` (micro batches)."""
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

    What cannot be filled in `dynamic_sampling.rounds` draws stays with such groups, which teach nothing. Raises
    Stopped; TooManyLost: more than `limits.infra_error_share` of the attempts were lost; TooManyProgramErrors: more
    than `limits.program_error_share` of them were ended by programs.
    """
    started, judged, draws, makers = time.perf_counter(), list[Judged](), 0, list[int]()
    groups: list[list[int]] = []
    useful: list[int] = []
    missing = cfg.sampling.tasks
    while missing > 0 and draws < (cfg.dynamic_sampling.rounds if cfg.dynamic_sampling.enabled else 1):
        places, state = catalogue.draw(state, missing)
        work = tries([dataset[place] for place in places], cfg.sampling.rollouts)
        made = _everywhere(work, f"{cfg.seed}:{state.draws}", attempting, ranks, stopped)
        base = len(judged)
        judged += [(tried, scored(tried.attempt, cfg.reward, cfg.masking)) for tried in made]
        makers += [number % ranks.count for number in range(len(made))]
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
    shares = shared_out(kept, makers, ranks.count)
    _hand_tokens(judged, makers, shares, ranks)
    return TrainingStep(judged, cfg.sampling.rollouts, kept, draws, state, time.perf_counter() - started, shares)


def _everywhere(
    work: list[tuple[TaskRow, int]], seed: str, attempting: Attempting, ranks: Ranks, stopped: Callable[[], bool]
) -> list[TaskAttempt]:
    """All attempts in the order of `work`, each made on one rank. Every rank hears of it when one was stopped.

    Between ranks go the attempts' places, not their tasks, and no copy of what each turn began with.
    """
    places = range(ranks.rank, len(work), ranks.count)
    own = attempting([work[place] for place in places], seed)
    halted = len(own) < len(places) or stopped()
    if any(ranks.every([halted])):
        raise StepStopped("The job was told to stop.")
    whole = dict(zip(places, (_without_prefixes(tried.attempt) for tried in own), strict=True))
    known = dict(ranks.every([(place, _ending(attempt)) for place, attempt in whole.items()]))
    lengths = [
        (place, Trace(own=tried.trace.own, drawn=tried.trace.drawn)) for place, tried in zip(places, own, strict=True)
    ]
    traces = dict(ranks.first(lengths)) | {place: tried.trace for place, tried in zip(places, own, strict=True)}
    known |= dict(ranks.first(list(whole.items()))) | whole
    return [
        TaskAttempt(row, number, known[place], traces.get(place, Trace())) for place, (row, number) in enumerate(work)
    ]


def _without_prefixes(attempt: Attempt) -> Attempt:
    """Without the ids that each turn began with: together they grow with the square of the number of turns, and the
    attempt's trace holds them once."""
    turns = tuple(turn.model_copy(update={"prompt_ids": None}) for turn in attempt.turns)
    return attempt.model_copy(update={"turns": turns})


def _ending(attempt: Attempt) -> Attempt:
    """How an attempt ended, without what was said and done."""
    return attempt.model_copy(update={"turns": (), "messages": (), "steps": ()})


def shared_out(kept: Sequence[int], makers: Sequence[int], count: int) -> list[list[int]]:
    """Equal shares of places for `count` ranks: each learns from what it made itself, as far as shares stay equal."""
    size = len(kept) // count
    shares = [[place for place in kept if makers[place] == rank][:size] for rank in range(count)]
    taken = {place for share in shares for place in share}
    left = [place for place in kept if place not in taken]
    for share in shares:
        missing = size - len(share)
        share += left[:missing]
        left = left[missing:]
    return shares


def _hand_tokens(judged: list[Judged], makers: Sequence[int], shares: list[list[int]], ranks: Ranks) -> None:
    """Give each rank the tokens of attempts that it learns from and another one made."""
    moved = {place for rank, share in enumerate(shares) for place in share if makers[place] != rank}
    mine = [(place, judged[place][0].trace) for place in sorted(moved) if makers[place] == ranks.rank]
    for place, trace in ranks.every(mine) if moved else ():
        if place in shares[ranks.rank]:
            tried, score = judged[place]
            judged[place] = replace(tried, trace=trace), score


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
