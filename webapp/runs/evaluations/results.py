"""Results of an evaluation: at each horizon reward, success, pass@k, max@k, turns and tokens, with intervals."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence

from django.db.models import Count, Q, Sum

from synthesis.contracts import Frozen
from webapp.runs.evaluations.progress import count_reports
from webapp.runs.evaluations.statistics import Estimate, compute_max_at_k, estimate_means_over_tasks
from webapp.runs.evaluations.tried_tasks import TriedTask, group_tried_tasks
from webapp.runs.models import RolloutFile, RunRollout, TrainingJob
from webapp.trajectories.pass_rates import compute_pass_at

KS = (1, 2, 4, 8, 10, 16, 32, 64)
"""The k of pass@k and max@k, as far as there are attempts for them (AG Figure 9 ends at 64, AW Figure 4 f
has 10), in addition to the most."""
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
    """Results of the attempts with so many turns. `attempts` were made, `counted` are the judged ones; the others are
    in `left_out` by reason, and have no reward. Estimates are over tasks; None before any attempt counts."""

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
    """Results of an evaluation so far: `reports` of `total_reports` are in them."""

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


def get_results_by_horizon(job: TrainingJob) -> dict[int, tuple[list[TriedTask], HorizonResult]]:
    """Return by horizon the tried tasks and their results."""
    files = RolloutFile.objects.filter(job=job, superseded=False).aggregate(files=Count("pk"), ids=Sum("pk"))
    doubted = RunRollout.objects.filter(file__job=job).filter(~Q(quarantined="")).count()
    key = (job.pk, files["files"], files["ids"] or 0, doubted)
    if key not in _KNOWN:
        tasks_by_horizon = group_tried_tasks(job)
        _KNOWN[key] = {turns: (tasks, build_horizon_result(turns, tasks)) for turns, tasks in tasks_by_horizon.items()}
        while len(_KNOWN) > KEPT:
            _KNOWN.popitem(last=False)
    return _KNOWN.get(key) or {}


def get_results(job: TrainingJob) -> EvaluationResults:
    """Return the results of an evaluation so far."""
    results_by_horizon = get_results_by_horizon(job)
    return EvaluationResults(
        job=job.public_id,
        name=str(job),
        model=job.model,
        state=job.state,
        dataset=job.dataset.public_id,
        temperature=float(job.config["decoding"]["temperature"]),
        repeats=int(job.config["repeats"]),
        reports=count_reports(job),
        total_reports=job.total_steps,
        horizons=tuple(result for _, result in results_by_horizon.values()),
    )


def build_horizon_result(horizon: int, tasks: Sequence[TriedTask]) -> HorizonResult:
    """Return the results of the attempts at one horizon."""
    counted = [task for task in tasks if task.tried]
    left_out = sum((task.left_out for task in tasks), Counter[str]())
    solved = [task for task in counted if task.solved]
    reward, success = estimate_means_over_tasks(
        [[task.mean for task in counted], [task.solved / task.tried for task in counted]]
    )
    columns = [[_compute_mean(task.turns) for task in counted], [_compute_mean(task.solved_turns) for task in solved]]
    turns, turns_solved, tokens = estimate_means_over_tasks(
        [*columns, [_compute_mean(task.tokens) for task in counted]], bounded=False
    )
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
        at=_estimate_at_each_k(counted),
        environments=_build_environment_results(counted),
    )


def _compute_mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _estimate_at_each_k(tasks: Sequence[TriedTask]) -> tuple[AtK, ...]:
    most = max((task.tried for task in tasks), default=0)
    ks = sorted({k for k in (*KS, most) if 0 < k <= most})
    enough = [[task for task in tasks if task.tried >= k] for k in ks]
    columns = [
        [compute_pass_at(task.solved, task.tried, [k])[0][1] for task in those]
        for k, those in zip(ks, enough, strict=True)
    ]
    columns += [[compute_max_at_k(task.rewards, k) for task in those] for k, those in zip(ks, enough, strict=True)]
    estimates = estimate_means_over_tasks(columns)
    estimates_at_k = []
    for k, passed, best in zip(ks, estimates[: len(ks)], estimates[len(ks) :], strict=True):
        assert passed is not None
        assert best is not None
        estimates_at_k.append(AtK(k=k, passed=passed, best=best))
    return tuple(estimates_at_k)


def _build_environment_results(tasks: Sequence[TriedTask]) -> tuple[EnvironmentResult, ...]:
    """Return results by environment, the lowest success first."""
    parts: dict[str, list[TriedTask]] = defaultdict(list)
    for task in tasks:
        parts[task.environment].append(task)
    rows = [
        EnvironmentResult(
            name=name,
            tasks=len(those),
            reward=_compute_mean([task.mean for task in those]),
            success=_compute_mean([task.solved / task.tried for task in those]),
        )
        for name, those in parts.items()
    ]
    return tuple(sorted(rows, key=lambda row: (row.success, row.name))[:MOST_ENVIRONMENTS])
