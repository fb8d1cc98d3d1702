"""Attempts at a held-out split, with a horizon of their own: seeded, the same tasks each time."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean, pstdev
from typing import Any

from synthesis.contracts import Frozen
from training.attempts import Table, TaskAttempt, list_tries, make_attempts
from training.config import Decoding, Evaluation, Masking
from training.dataset import TaskRow
from training.engines.local import TransformersEngine
from training.policy import GenerationEngine
from training.rewards import score_attempt
from training.sampler import choose_rows
from training.step import Ranks, StepStopped
from training.step_record import Judged, compute_step_values


class Result(Frozen):
    """Result of an evaluation. `success` is the share of counted attempts that solved their task, `counted` is their
    number out of `tried`; `environments` is the success of each. None if no attempt counts.
    """

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
    """Success of the tries at the second temperature (`Evaluation.sampled`), if there were any."""
    sampled_environments: dict[str, float] = {}
    sampled_tasks: int = 0

    def values(self) -> dict[str, float | None]:
        """Return the result as keys of the record."""
        whole: dict[str, float | None] = {"evaluation/success": self.success, "evaluation/reward": self.reward}
        if self.tasks:
            whole |= {"evaluation/tasks": self.tasks, "evaluation/reward_deviation": self.deviation}
        if self.sampled is not None:
            whole |= {"evaluation/sampled/success": self.sampled, "evaluation/sampled/tasks": self.sampled_tasks}
        return whole | {f"evaluation/environment/{name}/success": v for name, v in self.environments.items()}


def evaluate_model(
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

    Rewards are the verifier's scores. The tasks are the same each time, and so are the draws: `temperature` 0 compares
    two checkpoints without chance, 1 measures the policy that RL trains. With `settings.sampled` each task is tried as
    often at that temperature too. Raises StepStopped.
    """
    rows, ranks = choose_rows(rows, settings.tasks, seed), ranks or Ranks()
    results = []
    for temperature in (settings.temperature, *([settings.sampled] if settings.sampled else [])):
        work = list_tries(rows, settings.rollouts)[ranks.rank :: ranks.count]
        manner = decoding.model_copy(update={"temperature": temperature, "top_p": settings.top_p})
        own_attempts = attempt_tasks(
            table, model, work, settings.turns, manner, f"evaluation:{seed}", name, policy_step
        )
        if any(ranks.every([table.stopped()])):
            raise StepStopped("The job was asked to stop during an evaluation.")
        results.append(
            build_result(
                [
                    (tried, score_attempt(tried.attempt, "score", masking or Masking()))
                    for tried in ranks.every(own_attempts)
                ]
            )
        )
    result = results[0]
    if len(results) == 1:
        return result
    sampled = results[1]
    sampled_fields = {
        "sampled": sampled.success,
        "sampled_environments": sampled.environments,
        "sampled_tasks": sampled.tasks,
    }
    return result.model_copy(update=sampled_fields)


def build_result(judged: Sequence[Judged]) -> Result:
    """Return the numbers of evaluated attempts."""
    values = compute_step_values(judged, 0.0) if judged else {}
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


def attempt_tasks(
    table: Table,
    model: Any,
    work: Sequence[tuple[TaskRow, int]],
    turns: int,
    decoding: Decoding,
    seed: str,
    name: str = "policy",
    policy_step: int = 0,
) -> list[TaskAttempt]:
    """Return attempts with a model whose tokens the table's engine draws, or the model itself, which is in evaluation
    mode meanwhile. `policy_step`: the number of updates it has had.
    """
    with open_generation(table, model, decoding, name, policy_step) as engine:
        return make_attempts(table, engine, work, turns=turns, decoding=decoding, seed=seed)


@contextlib.contextmanager
def open_generation(
    table: Table, model: Any, decoding: Decoding, name: str, policy_step: int = 0
) -> Iterator[GenerationEngine]:
    """Yield the engine that draws a model's tokens in attempts: see `attempt_tasks`."""
    end_ids = model.generation_config.eos_token_id
    ends = frozenset({table.tokenizer.eos_token_id, *([end_ids] if isinstance(end_ids, int) else end_ids or [])})
    if table.engine is not None:
        yield table.engine(decoding, ends, name, policy_step)
        return
    own_engine = TransformersEngine(
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
        yield own_engine
    finally:
        model.train(was)
