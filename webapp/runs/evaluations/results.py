"""Results of an evaluation: at each horizon reward, success, pass@k, max@k, turns and tokens, with intervals."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence

from django.db.models import Count, Q, Sum

from synthesis.contracts import Frozen
from webapp.runs.evaluations.progress import reported
from webapp.runs.evaluations.statistics import Estimate, max_at, means_over_tasks
from webapp.runs.evaluations.tried_tasks import TriedTask, tried_tasks
from webapp.runs.models import RolloutFile, RunRollout, TrainingJob
from webapp.trajectories.pass_rates import pass_at

KS = (1, 2, 4, 8, 16, 32, 64)
"""The k of pass@k and max@k, as far as there are attempts for them (AG Figure 9 ends at 64), beside the most."""
MOST_ENVIRONMENTS = 200


class AtK(Frozen):
    """pass@k and max@k, over the tasks with at least k attempts that count (`passed.tasks` of them)."""

    k: int
    passed: Estimate
    best: Estimate


class EnvironmentResult(Frozen):
    name: str
    tasks: int
    reward: float
    success: float


class HorizonResult(Frozen):
    """What the attempts with so many turns come to. `attempts` were made, `counted` are the judged ones; the others are
    in `left_out` by why, and have no reward. Estimates are over tasks; None before any attempt counts."""

    horizon: int
    tasks: int
    attempts: int
    counted: int
    left_out: dict[str, int]
    program_errors: int
    reward: Estimate | None
    success: Estimate | None
    turns: Estimate | None
    turns_solved: Estimate | None
    """Of attempts that solved their task, over the tasks that have one."""
    tokens: Estimate | None
    at: tuple[AtK, ...]
    environments: tuple[EnvironmentResult, ...]


class EvaluationResults(Frozen):
    """An evaluation's results so far: `reports` of `total_reports` are in them."""

    job: str
    name: str
    model: str
    state: str
    dataset: str
    temperature: float
    repeats: int
    reports: int
    total_reports: int
    horizons: tuple[HorizonResult, ...]

    def at_horizon(self, turns: int) -> HorizonResult | None:
        return next((result for result in self.horizons if result.horizon == turns), None)


_KNOWN: OrderedDict[tuple[int, int, int, int], dict[int, tuple[list[TriedTask], HorizonResult]]] = OrderedDict()
"""By job and what of it is here: attempts are only added, superseded, or not believed any more."""
KEPT = 16


def known_results(job: TrainingJob) -> dict[int, tuple[list[TriedTask], HorizonResult]]:
    """By horizon, the tried tasks and what they come to."""
    files = RolloutFile.objects.filter(job=job, superseded=False).aggregate(files=Count("pk"), ids=Sum("pk"))
    doubted = RunRollout.objects.filter(file__job=job).filter(~Q(quarantined="")).count()
    key = (job.pk, files["files"], files["ids"] or 0, doubted)
    if key not in _KNOWN:
        found = tried_tasks(job)
        _KNOWN[key] = {turns: (tasks, horizon_result(turns, tasks)) for turns, tasks in found.items()}
        while len(_KNOWN) > KEPT:
            _KNOWN.popitem(last=False)
    return _KNOWN.get(key) or {}


def results_of(job: TrainingJob) -> EvaluationResults:
    """The results of an evaluation so far."""
    found = known_results(job)
    return EvaluationResults(
        job=job.public_id,
        name=str(job),
        model=job.model,
        state=job.state,
        dataset=job.dataset.public_id,
        temperature=float(job.config["decoding"]["temperature"]),
        repeats=int(job.config["repeats"]),
        reports=reported(job),
        total_reports=job.total_steps,
        horizons=tuple(result for _, result in found.values()),
    )


def horizon_result(horizon: int, tasks: Sequence[TriedTask]) -> HorizonResult:
    """What attempts at one horizon come to."""
    counted = [task for task in tasks if task.tried]
    left_out = sum((task.left_out for task in tasks), Counter[str]())
    solved = [task for task in counted if task.solved]
    reward, success = means_over_tasks(
        [[task.mean for task in counted], [task.solved / task.tried for task in counted]]
    )
    columns = [[_mean(task.turns) for task in counted], [_mean(task.solved_turns) for task in solved]]
    turns, turns_solved, tokens = means_over_tasks([*columns, [_mean(task.tokens) for task in counted]], bounded=False)
    return HorizonResult(
        horizon=horizon,
        tasks=len(tasks),
        attempts=sum(task.tried for task in tasks) + left_out.total(),
        counted=sum(task.tried for task in tasks),
        left_out=dict(sorted(left_out.items())),
        program_errors=sum(task.program_errors for task in tasks),
        reward=reward,
        success=success,
        turns=turns,
        turns_solved=turns_solved,
        tokens=tokens,
        at=_at(counted),
        environments=_environments(counted),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _at(tasks: Sequence[TriedTask]) -> tuple[AtK, ...]:
    most = max((task.tried for task in tasks), default=0)
    ks = sorted({k for k in (*KS, most) if 0 < k <= most})
    enough = [[task for task in tasks if task.tried >= k] for k in ks]
    columns = [
        [pass_at(task.solved, task.tried, [k])[0][1] for task in those] for k, those in zip(ks, enough, strict=True)
    ]
    columns += [[max_at(task.rewards, k) for task in those] for k, those in zip(ks, enough, strict=True)]
    estimates = means_over_tasks(columns)
    found = []
    for k, passed, best in zip(ks, estimates[: len(ks)], estimates[len(ks) :], strict=True):
        assert passed is not None
        assert best is not None
        found.append(AtK(k=k, passed=passed, best=best))
    return tuple(found)


def _environments(tasks: Sequence[TriedTask]) -> tuple[EnvironmentResult, ...]:
    """By environment, the lowest success first."""
    parts: dict[str, list[TriedTask]] = defaultdict(list)
    for task in tasks:
        parts[task.environment].append(task)
    rows = [
        EnvironmentResult(
            name=name,
            tasks=len(those),
            reward=_mean([task.mean for task in those]),
            success=_mean([task.solved / task.tried for task in those]),
        )
        for name, those in parts.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.success, row.name))[:MOST_ENVIRONMENTS])
