"""Source of an export's records: the facts that filters read, the conversation as it was seen, and its origin."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q
from pydantic import ValidationError

from synthesis.contracts import Message, Tool, Withheld
from synthesis.errors import FormatError
from synthesis.formats.answer_form import build_answer_tool
from synthesis.formats.sft import Conversation, read_conversation
from synthesis.runtime import restrict_tools
from synthesis.tasks.trajectory_filters import IMPOSSIBLE, AttemptFacts
from webapp.environments.models import Tool as ToolRow
from webapp.scenarios.answers.answer_form import read_listed_form
from webapp.scenarios.models import TaskRevision
from webapp.trajectories.models import CallBy, Step, StepKind, Trajectory

COLUMNS = (
    "outcome",
    "live",
    "user_error",
    "user_fault",
    "conversational",
    "reward",
    "provenance",
    "injected_count",
    "policy",
    "revision_id",
    "rejected",
    "solver",
)


@dataclass(frozen=True)
class RecordOrigin:
    """The revision that an attempt was made at. `offered` are the tools of its environment version, without the tool
    that the task withholds, followed by the tool that submits the answer, if the task has an answer form."""

    about: dict[str, Any]
    offered: tuple[Tool, ...]


def load_attempt_facts(rows: Iterable[Trajectory]) -> dict[int, AttemptFacts]:
    """Return the facts that the filters read, by trajectory; one query for all."""
    rows = list(rows)
    counted = (
        Step.objects.filter(trajectory__in=[row.pk for row in rows])
        .exclude(kind=StepKind.USER)
        .exclude(by=CallBy.USER)
        .order_by()
        .values("trajectory")
        .annotate(
            actions=Count("pk"),
            silent=Count("pk", filter=Q(kind=StepKind.MESSAGE) & (Q(content="") | ~Q(recorded=""))),
            malformed=Count("pk", filter=Q(error_kind="malformed")),
            cut=Count("pk", filter=~Q(cut="")),
            unknown=Count("pk", filter=Q(error_kind__in=("unknown_tool", "not_offered"))),
        )
    )
    by_row: dict[int, dict[str, Any]] = {counts["trajectory"]: {**counts} for counts in counted}
    return {row.pk: _build_attempt_facts(row, by_row.get(row.pk, {})) for row in rows}


def _build_attempt_facts(row: Trajectory, counted: dict[str, Any]) -> AttemptFacts:
    return AttemptFacts(
        outcome="" if row.live else row.outcome,
        user_error=row.user_error,
        user_fault=row.user_fault,
        unusable=row.provenance.get("ending") == "unusable",
        conversational=row.conversational,
        reward=row.reward,
        actions=counted.get("actions", 0),
        refused=("malformed",) * counted.get("malformed", 0) + ("unknown_tool",) * counted.get("unknown", 0),
        silent=counted.get("silent", 0),
        cut=counted.get("cut", 0),
        judged_impossible=row.rejected == IMPOSSIBLE,
    )


def keep_agent_tools(tools: tuple[Tool, ...], provenance: dict[str, Any]) -> tuple[Tool, ...]:
    """Return the tools without those that only the attempt's simulated user could call: the agent was not offered
    them."""
    names = provenance.get("user_tools")
    return tuple(tool for tool in tools if tool.name not in names) if isinstance(names, list) else tools


def read_stored_conversation(
    record: dict[str, Any], provenance: dict[str, Any], offered: tuple[Tool, ...]
) -> Conversation:
    """Return the conversation as the agent saw it: stored here while it was made, or recorded elsewhere as a whole,
    system message and tools included. Raises FormatError if it is not stored: nothing is made up in its place."""
    stored = record.get("conversation")
    if stored is None:
        return read_conversation(record.get("messages"), record.get("tools"))
    try:
        messages = tuple(Message.model_validate(message) for message in stored)
        offered = keep_agent_tools(offered, provenance)
        return Conversation(messages=messages, tools=offered, style=provenance.get("prompt_style") or "tools")
    except (ValidationError, TypeError) as error:
        raise FormatError("conversation", "what is stored of it cannot be read") from error


class Origins:
    """Revisions and the tools of their versions, each loaded once."""

    def __init__(self) -> None:
        self._known: dict[int, RecordOrigin] = {}
        self._tools: dict[int, tuple[Tool, ...]] = {}

    def learn(self, revisions: Iterable[int]) -> None:
        missing = set(revisions) - self._known.keys()
        rows = TaskRevision.objects.filter(pk__in=missing).values_list(
            "pk",
            "number",
            "content_hash",
            "verifier_hash",
            "task_id",
            "task__key",
            "task__source",
            "task__environment__key",
            "scenario__version_id",
            "scenario__version__content_hash",
            "withheld",
            "record__answer_form",
        )
        names = ("revision", "content_hash", "verifier_hash", "task", "key", "source", "environment")
        revision_rows = list(rows)
        self._learn_tools({version for *_, version, _, _, _ in revision_rows})
        for pk, *values, version, version_hash, withheld, listed in revision_rows:
            about = {**dict(zip(names, values, strict=True)), "environment_version": version_hash}
            withheld_tool = None if withheld is None else Withheld.model_validate(withheld)
            about |= {} if withheld_tool is None else {"withheld": withheld_tool.name}
            offered, form = restrict_tools(self._tools[version], withheld_tool), read_listed_form(listed, pk)
            self._known[pk] = RecordOrigin(about, (*offered, build_answer_tool(form)) if form else offered)

    def of(self, revision: int) -> RecordOrigin:
        return self._known[revision]

    def _learn_tools(self, versions: set[int]) -> None:
        missing = versions - self._tools.keys()
        rows = ToolRow.objects.filter(version__in=missing).order_by("version", "position")
        offered: dict[int, list[Tool]] = {version: [] for version in missing}
        for version, *values in rows.values_list("version_id", "name", "description", "kind", "parameters"):
            named = dict(zip(("name", "description", "kind", "parameters"), values, strict=True))
            offered[version].append(Tool(**named))
        self._tools |= {version: tuple(tools) for version, tools in offered.items()}
