"""Attempts at a held-out split, with a horizon of their own: seeded, the same tasks each time."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev
from typing import Any

from synthesis.contracts import Frozen
from training.attempts import Table, TaskAttempt, run, tries
from training.config import Decoding, Evaluation, Masking
from training.dataset import TaskRow
from training.engines.local import TransformersEngine
from training.policy import GenerationEngine
from training.rewards import scored
from training.sampler import chosen
from training.step import Ranks, StepStopped
from training.step_record import Judged, values_of


class Result(Frozen):
    """`success` is the share of attempts that count which solved their task, `counted` how many those are of `tried`;
    `environments` is each one's success. None where no attempt counts."""

    success: float | None
    reward: float | None
    counted: int
    tried: int
    environments: dict[str, float]
    tasks: int = 0
    """Of so many tasks an attempt counts."""
    deviation: float | None = None
    """The standard deviation (divisor n) of those tasks' mean rewards."""
    sampled: float | None = None
    """Success of the tries at the second temperature (`Evaluation.sampled`), where there were any."""
    sampled_environments: dict[str, float] = {}
    sampled_tasks: int = 0

    def values(self) -> dict[str, float | None]:
        """As keys of the record."""
        whole: dict[str, float | None] = {"evaluation/success": self.success, "evaluation/reward": self.reward}
        if self.tasks:
            whole |= {"evaluation/tasks": self.tasks, "evaluation/reward_deviation": self.deviation}
        if self.sampled is not None:
            whole |= {"evaluation/sampled/success": self.sampled, "evaluation/sampled/tasks": self.sampled_tasks}
        return whole | {f"evaluation/environment/{name}/success": v for name, v in self.environments.items()}


def evaluate(
    table: Table,
    model: Any,
    rows: Sequence[TaskRow],
    settings: Evaluation,
    decoding: Decoding,
    seed: int,
    *,
    ranks: Ranks | None = None,
    name: str = "policy",
    masking: Masking | None = None,
    policy_step: int = 0,
) -> Result:
    """Attempt the chosen rows with a model in this process; ranks share the work and all get the result.

    Rewards are the verifier's scores. A task is the same each time, and so are the draws: `temperature` 0 compares two
    checkpoints without chance, 1 measures the policy that RL trains. With `settings.sampled` each task is tried as
    often at that temperature too. Raises StepStopped.
    """
    rows, ranks = chosen(rows, settings.tasks, seed), ranks or Ranks()
    results = []
    for temperature in (settings.temperature, *([settings.sampled] if settings.sampled else [])):
        work = tries(rows, settings.rollouts)[ranks.rank :: ranks.count]
        manner = decoding.model_copy(update={"temperature": temperature, "top_p": settings.top_p})
        mine = attempt_all(table, model, work, settings.turns, manner, f"evaluation:{seed}", name, policy_step)
        if any(ranks.every([table.stopped()])):
            raise StepStopped("The job was told to stop during an evaluation.")
        results.append(
            result_of([(tried, scored(tried.attempt, "score", masking or Masking())) for tried in ranks.every(mine)])
        )
    result = results[0]
    if len(results) == 1:
        return result
    sampled = results[1]
    told = {"sampled": sampled.success, "sampled_environments": sampled.environments, "sampled_tasks": sampled.tasks}
    return result.model_copy(update=told)


def result_of(judged: Sequence[Judged]) -> Result:
    """The numbers of evaluated attempts."""
    values = values_of(judged, 0.0) if judged else {}
    environments = {
        key.removeprefix("environment/").removesuffix("/success"): value
        for key, value in values.items()
        if key.startswith("environment/") and key.endswith("/success")
    }
    tasks: dict[str, list[float]] = defaultdict(list)
    for tried, score in judged:
        if score.reward is not None:
            tasks[tried.row.id].append(score.reward)
    return Result(
        success=values.get("success"),
        reward=values.get("reward"),
        counted=sum(score.reward is not None for _, score in judged),
        tried=len(judged),
        tasks=len(tasks),
        deviation=pstdev(map(fmean, tasks.values())) if tasks else None,
        environments=environments,
    )


def attempt_all(
    table: Table,
    model: Any,
    work: Sequence[tuple[TaskRow, int]],
    turns: int,
    decoding: Decoding,
    seed: str,
    name: str = "policy",
    policy_step: int = 0,
) -> list[TaskAttempt]:
    """Attempts with a model whose tokens the table's engine draws; without one the model itself, which is in evaluation
    mode meanwhile. `policy_step`: how many updates it has had."""
    with generating(table, model, decoding, name, policy_step) as engine:
        return run(table, engine, work, turns=turns, decoding=decoding, seed=seed)


@contextlib.contextmanager
def generating(
    table: Table, model: Any, decoding: Decoding, name: str, policy_step: int = 0
) -> Iterator[GenerationEngine]:
    """What draws a model's tokens in attempts, for the block: see `attempt_all`."""
    told = model.generation_config.eos_token_id
    ends = frozenset({table.tokenizer.eos_token_id, *([told] if isinstance(told, int) else told or [])})
    if table.engine is not None:
        yield table.engine(decoding, ends, name, policy_step)
        return
    own = TransformersEngine(
        model,
        name=name,
        ends=ends,
        pad=table.tokenizer.pad_token_id,
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        at_once=table.limits.at_once,
        half=table.half,
        policy_step=policy_step,
    )
    was = model.training
    model.eval()
    try:
        yield own
    finally:
        model.train(was)
