"""Services of pages and API that let agents act, and the obstacles to that."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import transaction

from synthesis.errors import InputError
from synthesis.rollout.plan import NO_USER_JUDGE, require_user_tools
from synthesis.verifiers.rubric import NO_JUDGE
from webapp.endpoints.models import Endpoint, LLMRole
from webapp.endpoints.queries import find_choice, find_default_model
from webapp.jobs.services import enqueue_job
from webapp.scenarios.audits.services import SUPERSEDED_REMEDY
from webapp.scenarios.models import Task, TaskRevision
from webapp.scenarios.references import find_reference
from webapp.scenarios.verifiers import needs_judge
from webapp.trajectories.forks.starts import ForkPoint
from webapp.trajectories.models import Rollout, RolloutAttempt
from webapp.trajectories.rollouts.plans import load_rollout_fork
from webapp.trajectories.rollouts.queries import list_tools
from webapp.trajectories.rollouts.spec import Spec

NO_CONTENT = "This task has no content: its import did not finish. Import its file again."


def find_obstacle(revision: TaskRevision | None) -> str:
    """Return why no attempt can be made at this task at all; empty if one can."""
    if revision is None:
        return NO_CONTENT
    if needs_judge(revision) and find_default_model(LLMRole.JUDGE) is None:
        return NO_JUDGE
    return find_judging_obstacle(bool(revision.criteria) or revision.checks.exists(), revision.superseded)


def find_judging_obstacle(has_verifier: bool, superseded: str) -> str:
    """Return why no attempt at a revision could be judged; empty if one could. `superseded` is why the revision is
    retired."""
    if superseded:
        return f"This task is superseded. {superseded} {SUPERSEDED_REMEDY}"
    return "" if has_verifier else "This task has no checks and no criteria, so nothing could judge an attempt."


def fill_defaults(spec: Spec) -> Spec:
    """Return the spec with the default models of the roles without a named model."""
    changes = {}
    if spec.policy == "model" and not spec.model:
        changes["model"] = _format_default("agent")
    if spec.conversational and not spec.user_model:
        changes["user_model"] = _format_default("user")
    return spec.model_copy(update=changes)


def _format_default(role: str) -> str:
    default = find_default_model(role)
    return f"{default[0].pk}/{default[1]}" if default else ""


def start_rollout(user: Any, task: Task, spec: Spec) -> Rollout:
    """Queue a job of attempts at the task's current revision, those of a fork at its parent's. Raises `InputError`,
    whose message says what to do."""
    revision = task.current
    if spec.fork is not None:
        point = require_fork_point(task, spec)
        revision = point.parent.revision
        parent = {"conversational": point.parent.conversational, "user_tools": point.user_tools}
        spec = spec.model_copy(update={**parent, "prompt_style": point.style})
    spec = fill_defaults(spec)
    problem = find_obstacle(revision)
    if problem or revision is None:
        raise InputError(problem)
    if spec.attempts > settings.ROLLOUT_ATTEMPTS:
        raise InputError(f"One job makes at most {settings.ROLLOUT_ATTEMPTS} attempts; {spec.attempts} were asked for.")
    if spec.policy in ("reference", "noisy") and find_reference(revision) is None:
        raise InputError("This revision of the task has no reference to play. Choose another policy.")
    require_user_tools(spec.user_tools, list_tools(revision), spec.conversational)
    if spec.conversational and spec.judges_user and find_default_model(LLMRole.JUDGE) is None:
        raise InputError(NO_USER_JUDGE)
    endpoint = _require_model_endpoint(spec.model, "agent") if spec.policy == "model" else None
    user_endpoint = _require_model_endpoint(spec.user_model, "user") if spec.conversational else None
    return _create_rollout(user, task, revision, spec, endpoint, user_endpoint)


def require_fork_point(task: Task, spec: Spec) -> ForkPoint:
    """Return the start of a fork's attempts. Raises InputError: they cannot be made, or would have no turn left."""
    assert spec.fork is not None
    point = load_rollout_fork(spec.fork)
    if point.parent.task_id != task.pk:
        raise InputError(f"Trajectory {point.parent.pk} is an attempt at another task: {point.parent.task_id}.")
    point.start()
    most, turns_made = point.setting(max_turns=spec.max_steps).turn_limit, len(point.turns)
    if turns_made >= most:
        raise InputError(
            f"The parent took {turns_made} turns up to step {spec.fork.step}, and {most} are the most: "
            "allow more turns."
        )
    return point


def _require_model_endpoint(value: str, role: str) -> Endpoint:
    if not value:
        raise InputError(f"Choose the model that plays the {role}: none is named, and the role has no default.")
    choice = find_choice(value)
    if choice is None:
        raise InputError(
            f"The model chosen for the {role} ({value[:80]}) is not listed at its endpoint. Choose another one."
        )
    return choice[0]


@transaction.atomic
def _create_rollout(
    user: Any, task: Task, revision: TaskRevision, spec: Spec, endpoint: Endpoint | None, user_endpoint: Endpoint | None
) -> Rollout:
    label = format_policy_label(spec, endpoint)
    title = f"{spec.attempts} attempt{'s' * (spec.attempts != 1)} by {label} at task {task.pk}"
    if spec.fork is not None:
        title += f", from step {spec.fork.step} of trajectory {spec.fork.trajectory}"
    payload = {"task": task.pk, "revision": revision.pk}
    job = enqueue_job("rollout", title, payload, user, subject=f"task:{task.pk}")
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


def format_policy_label(spec: Spec, endpoint: Endpoint | None) -> str:
    """Return the policy's name for people."""
    if spec.policy == "model" and endpoint is not None:
        return f"{endpoint.name}/{spec.model.partition('/')[2]}"
    return {"noisy": f"noisy reference {spec.noise:g}", "random": "random calls"}.get(spec.policy, spec.policy)
