"""What pages and API call to let agents act, and what stands in the way."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import transaction

from synthesis.errors import InputError
from synthesis.rollout.plan import NO_USER_JUDGE, require_user_tools
from synthesis.verifiers.rubric import NO_JUDGE
from webapp.endpoints.models import Endpoint, LLMRole
from webapp.endpoints.queries import default_of, find_choice
from webapp.jobs.services import create
from webapp.scenarios.audits.services import SUPERSEDED_REMEDY
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import reference_of
from webapp.scenarios.verifiers import needs_judge
from webapp.trajectories.forks.starts import ForkPoint
from webapp.trajectories.models import Rollout, RolloutAttempt
from webapp.trajectories.rollouts.plans import point_of
from webapp.trajectories.rollouts.queries import list_tools
from webapp.trajectories.rollouts.spec import Spec

NO_CONTENT = "This task has no content: its import did not finish. Import its file again."


def obstacle(revision: TaskRevision | None) -> str:
    """Why nobody can act in this task at all; empty where somebody can."""
    if revision is None:
        return NO_CONTENT
    if needs_judge(revision) and default_of(LLMRole.JUDGE) is None:
        return NO_JUDGE
    return unjudged(bool(revision.criteria) or revision.checks.exists(), revision.superseded)


def unjudged(has_verifier: bool, superseded: str) -> str:
    """Why no attempt at a revision could be judged; empty where one could. `superseded` is why it does not count."""
    if superseded:
        return f"This task is superseded. {superseded} {SUPERSEDED_REMEDY}"
    return "" if has_verifier else "This task has no checks and no criteria, so nothing could judge an attempt."


def with_defaults(spec: Spec) -> Spec:
    """The spec with the default models of the roles where none is named."""
    changes = {}
    if spec.policy == "model" and not spec.model:
        changes["model"] = _default("agent")
    if spec.conversational and not spec.user_model:
        changes["user_model"] = _default("user")
    return spec.model_copy(update=changes)


def _default(role: str) -> str:
    default = default_of(role)
    return f"{default[0].pk}/{default[1]}" if default else ""


def start_rollout(user: Any, task: Task, spec: Spec) -> Rollout:
    """Queue a job of attempts at the task's current revision, those of a fork at its parent's. Raises `InputError`,
    which says what to do."""
    revision = task.current
    if spec.fork is not None:
        point = forkable(task, spec)
        revision = point.parent.revision
        parent = {"conversational": point.parent.conversational, "user_tools": point.user_tools}
        spec = spec.model_copy(update={**parent, "prompt_style": point.style})
    spec = with_defaults(spec)
    problem = obstacle(revision)
    if problem or revision is None:
        raise InputError(problem)
    if spec.attempts > settings.ROLLOUT_ATTEMPTS:
        raise InputError(f"One job makes at most {settings.ROLLOUT_ATTEMPTS} attempts; {spec.attempts} were asked for.")
    if spec.policy in ("reference", "noisy") and reference_of(revision) is None:
        raise InputError("This revision of the task has no reference to play. Choose another policy.")
    require_user_tools(spec.user_tools, list_tools(revision), spec.conversational)
    if spec.conversational and spec.judges_user and default_of(LLMRole.JUDGE) is None:
        raise InputError(NO_USER_JUDGE)
    endpoint = _model(spec.model, "agent") if spec.policy == "model" else None
    user_endpoint = _model(spec.user_model, "user") if spec.conversational else None
    return _create(user, task, revision, spec, endpoint, user_endpoint)


def forkable(task: Task, spec: Spec) -> ForkPoint:
    """Where the attempts of a fork begin. Raises InputError: they cannot, or would have no turn left."""
    assert spec.fork is not None
    point = point_of(spec.fork)
    if point.parent.task_id != task.pk:
        raise InputError(f"Trajectory {point.parent.pk} is an attempt at another task: {point.parent.task_id}.")
    point.start()
    most, made = point.setting(max_turns=spec.max_steps).turn_limit, len(point.turns)
    if made >= most:
        raise InputError(
            f"The parent took {made} turns up to step {spec.fork.step}, and {most} are the most: allow more turns."
        )
    return point


def _model(value: str, role: str) -> Endpoint:
    if not value:
        raise InputError(f"Choose the model that plays the {role}: none is named, and the role has no default.")
    choice = find_choice(value)
    if choice is None:
        raise InputError(
            f"The model chosen for the {role} ({value[:80]}) is not listed at its endpoint. Choose another one."
        )
    return choice[0]


@transaction.atomic
def _create(
    user: Any, task: Task, revision: TaskRevision, spec: Spec, endpoint: Endpoint | None, user_endpoint: Endpoint | None
) -> Rollout:
    label = label_of(spec, endpoint)
    title = f"{spec.attempts} attempt{'s' * (spec.attempts != 1)} by {label} at task {task.pk}"
    if spec.fork is not None:
        title += f", from step {spec.fork.step} of trajectory {spec.fork.trajectory}"
    payload = {"task": task.pk, "revision": revision.pk}
    job = create("rollout", title, payload, user, subject=f"task:{task.pk}")
    rollout = Rollout.objects.create(
        job=job,
        task=task,
        revision=revision,
        endpoint=endpoint,
        user_endpoint=user_endpoint,
        policy=label[:200],
        spec=spec.model_dump(),
        total=spec.attempts,
    )
    RolloutAttempt.objects.bulk_create(
        [RolloutAttempt(rollout=rollout, ordinal=number) for number in range(spec.attempts)]
    )
    return rollout


def label_of(spec: Spec, endpoint: Endpoint | None) -> str:
    """How people know the policy."""
    if spec.policy == "model" and endpoint is not None:
        return f"{endpoint.name}/{spec.model.partition('/')[2]}"
    return {"noisy": f"noisy reference {spec.noise:g}", "random": "random calls"}.get(spec.policy, spec.policy)
