"""First steps of a person: what the README suggests, each ticked by a row that the step leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse

from webapp.accounts.access import Scope, has_scope
from webapp.accounts.models import ApiToken, User
from webapp.batches.models import Batch, BatchState
from webapp.common.database.kept_sql import EXISTS, VALUE, Given, KeptNumbers
from webapp.endpoints.models import Endpoint
from webapp.environments.models import Environment
from webapp.jobs.models import Job, JobState
from webapp.pages.demo_content import exclude_demo
from webapp.review.models import ReviewDecision
from webapp.runs.models import TrainingJob
from webapp.scenarios.models import Playground, Task
from webapp.trajectories.models import Trajectory

Rows = Callable[[Any], QuerySet[Any]]


@dataclass(frozen=True)
class FirstStep:
    """One step: its label and page, and whether it was done."""

    name: str
    label: str
    hint: str
    url: str
    done: bool


@dataclass(frozen=True)
class StepOffer:
    """A step as it is offered: `page` with the number of the row in `newest`, or `otherwise` if there is no row."""

    name: str
    label: str
    hint: str
    scope: Scope
    done_by: Rows
    otherwise: str
    page: str = ""
    newest: Rows | None = None

    def url(self, pk: int | None) -> str:
        return reverse(self.page, args=[pk]) if pk else reverse(self.otherwise)


def _newest_tasks(user: Any) -> QuerySet[Any]:
    return exclude_demo(Task.objects.order_by("-pk")).values("pk")


def _user_jobs(user: Any, *kinds: str) -> QuerySet[Job]:
    return Job.objects.filter(created_by=user, kind__in=kinds)


IMPORTS = ("import_envscaler", "import_trajectories", "import_mcp_servers", "import_tool_documents")
OFFERS = (
    StepOffer(
        "replay",
        "Replay an attempt",
        "j and k walk its steps, ] leads to the next one at which a check flips.",
        "read",
        lambda user: User.objects.filter(pk=user, first_replay_at__isnull=False),
        "trajectories:list",
        "trajectories:detail",
        lambda user: exclude_demo(Trajectory.objects.order_by("-pk")).values("pk"),
    ),
    StepOffer(
        "tool",
        "Try a tool by hand",
        "A live episode with a form from the tool's schema.",
        "review",
        lambda user: Playground.objects.filter(user=user),
        "environments:list",
        "scenarios:try",
        lambda user: exclude_demo(Environment.objects.exclude(current=None).order_by("-pk"), "").values("current"),
    ),
    StepOffer(
        "decide",
        "Look at a task's audit and decide on it",
        "What doing nothing earns, which check notices what; then approve it, send it back or reject it.",
        "review",
        lambda user: ReviewDecision.objects.filter(user=user),
        "scenarios:tasks",
        "scenarios:task",
        _newest_tasks,
    ),
    StepOffer(
        "agent",
        "Let an agent attempt a task",
        "Run agent on a task: the reference and the random policy need no model.",
        "synthesise",
        lambda user: _user_jobs(user, "rollout"),
        "scenarios:tasks",
        "scenarios:task",
        _newest_tasks,
    ),
    StepOffer(
        "batch",
        "Start a batch",
        "Six bundled themes become environments, tasks and trajectories, played by scripted replies.",
        "synthesise",
        lambda user: Batch.objects.filter(created_by=user).exclude(state=BatchState.DRAFT),
        "batches:new",
    ),
    StepOffer(
        "model",
        "Register a model",
        "An OpenAI-compatible server; batches and agents then ask it.",
        "admin",
        lambda user: Endpoint.objects.all(),
        "endpoints:list",
    ),
    StepOffer(
        "token",
        "Make an API token",
        "Lists and forms show their call as curl and Python.",
        "read",
        lambda user: ApiToken.objects.filter(user=user),
        "accounts:tokens",
    ),
    StepOffer(
        "train",
        "Train the demo",
        "A tiny model learns on this machine's CPU; points of its curve lead to the attempts behind them.",
        "train",
        lambda user: TrainingJob.objects.filter(created_by=user),
        "runs:list",
    ),
    StepOffer(
        "import",
        "Import your own",
        "EnvScaler environments, scenarios, recorded runs and MCP servers.",
        "synthesise",
        lambda user: _user_jobs(user, *IMPORTS).filter(state=JobState.SUCCEEDED),
        "pages:import",
    ),
)
"""In the README's order; a person is offered those that their role may do."""


def list_first_steps(user: Any) -> list[FirstStep]:
    """Return the steps for a person, in one query; none once all are done."""
    offers = tuple(offer for offer in OFFERS if has_scope(user, offer.scope))
    step_values = _build_steps_query(offers).values(user=user.pk)
    steps = [
        FirstStep(
            offer.name,
            offer.label,
            offer.hint,
            offer.url(step_values.get(f"at_{offer.name}")),
            step_values[f"did_{offer.name}"],
        )
        for offer in offers
    ]
    return [] if all(step.done for step in steps) else steps


@lru_cache(maxsize=8)
def _build_steps_query(offers: tuple[StepOffer, ...]) -> KeptNumbers:
    """Return the query of whether each step was done, and of the row that it leads to; one for each set of offers."""
    user = Given("user")

    def build_numbers() -> dict[str, tuple[str, QuerySet[Any]]]:
        did = {f"did_{offer.name}": (EXISTS, offer.done_by(user).order_by().values("pk")[:1]) for offer in offers}
        at = {f"at_{offer.name}": (VALUE, offer.newest(user)[:1]) for offer in offers if offer.newest}
        return did | at

    return KeptNumbers(build_numbers)
