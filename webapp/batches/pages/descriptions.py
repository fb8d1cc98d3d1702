"""Descriptions of a batch, an item and a call in words and links."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from synthesis.errors import InputError
from synthesis.stages import LEVELS, Pipeline
from webapp.batches import queries
from webapp.batches.engine.item_state import OPEN
from webapp.batches.engine.stage_runs import SAVE
from webapp.batches.models import (
    Batch,
    BatchAttempt,
    BatchItem,
    BatchProduct,
    BatchState,
    CallState,
    ItemState,
    LLMCall,
    StageRun,
    StageState,
)
from webapp.batches.pages import filters, stage_output
from webapp.batches.pages.progress import FailureGroup
from webapp.batches.services import RETRIED, STILL
from webapp.forms import filter_bar
from webapp.templatetags.show import SHOWN_UP_TO

BELOW = 50
ATTEMPT_COLUMNS = (
    "role", "ordinal", "outcome", "unkept", "message", "item",
    "trajectory__outcome", "trajectory__reward", "trajectory__rejected", "trajectory__step_count",
)  # fmt: skip
CALLS_SHOWN = 200
MESSAGES_SHOWN = 400
JSON_UP_TO = 300_000
"""A longer reply is not read as JSON for its colours."""


@dataclass(frozen=True)
class Actions:
    """What can be done with a batch as it stands."""

    start: bool
    pause: bool
    resume: bool
    raise_cap: bool
    cancel: bool
    failed: int
    rejected: int
    cancelled: int


def actions(batch: Batch, counts: Mapping[str, Mapping[str, int]]) -> Actions:
    def number(state: str) -> int:
        return sum(states.get(state, 0) for states in counts.values())

    state = batch.state
    return Actions(
        start=state == BatchState.DRAFT,
        pause=state == BatchState.RUNNING,
        resume=state in STILL,
        raise_cap=state == BatchState.CAPPED,
        cancel=state not in (BatchState.DONE, BatchState.CANCELLED),
        failed=number(ItemState.FAILED),
        rejected=number(ItemState.REJECTED),
        cancelled=number(ItemState.CANCELLED) if state == BatchState.CANCELLED else 0,
    )


FAILED_WHY = "Something went wrong on the way: it can be tried again."
REJECTED_WHY = "A stage looked and said no: a fact about the item."


@dataclass(frozen=True)
class OutcomeGroups:
    """Groups that ended in one state, the first of them; `more` are on a page of their own."""

    title: str
    state: str
    groups: Sequence[FailureGroup]
    why: str
    more: int


def kinds(groups: Sequence[FailureGroup], most: int) -> list[OutcomeGroups]:
    """Groups of failures and of rejections, with the words that stand above them."""
    outcomes = []
    for title, state, why in (
        ("Failures", ItemState.FAILED, FAILED_WHY),
        ("Rejections", ItemState.REJECTED, REJECTED_WHY),
    ):
        own = [group for group in groups if group.failures.state == state]
        if own:
            outcomes.append(OutcomeGroups(title, str(state), own[:most], why, max(0, len(own) - most)))
    return outcomes


@dataclass(frozen=True)
class ItemActions:
    retry: bool
    keep: bool


def item_actions(item: BatchItem, pipeline: Pipeline) -> ItemActions:
    barriers = {stage.name for stage in pipeline.stages if stage.group is not None}
    left_out = item.state == ItemState.REJECTED and item.stage in barriers
    return ItemActions(retry=item.state in RETRIED and not left_out, keep=left_out)


def is_open(item: BatchItem) -> bool:
    return item.state in OPEN and item.batch.state == BatchState.RUNNING


@dataclass(frozen=True)
class Link:
    words: str
    url: str


def tried(item: BatchItem) -> list[Link]:
    """The attempt of a rejected trajectory."""
    if item.attempt_id is None:
        return []
    return [Link(f"Attempt {item.attempt_id}", reverse("trajectories:detail", args=[item.attempt_id]))]


ATTEMPTS_SHOWN = 100


def attempts_of(item: BatchItem) -> list[BatchAttempt]:
    """The attempts that an item made at its task, the first of them."""
    if item.level not in ("task", "trajectory"):
        return []
    rows = item.attempts.select_related("trajectory")
    return list(rows.only(*ATTEMPT_COLUMNS).order_by("role", "ordinal")[:ATTEMPTS_SHOWN])


def products(level: str, product: BatchProduct | None) -> list[Link]:
    """What an item became, its own thing first. What somebody deleted since is not there."""
    if product is None:
        return []
    known = [
        ("trajectory", "Trajectory", "trajectories:detail", product.trajectory_id),
        ("task", "Task", "scenarios:task", product.task_id),
        ("scenario", "Scenario", "scenarios:state", product.scenario_id),
        ("theme", "Environment", "environments:detail", product.environment_id),
    ]
    at = next((place for place, (name, *_) in enumerate(known) if name == level), 0)
    return [Link(f"{words} {pk}", reverse(url, args=[pk])) for _, words, url, pk in known[at:] if pk]


@dataclass(frozen=True)
class ItemRow:
    """A line of a list of items."""

    item: BatchItem
    product: Link | None
    depth: int
    name: str
    above: str


def item_row(item: BatchItem) -> ItemRow:
    above, _, name = item.path.rpartition("/")
    links = products(item.level, filters.product_of(item)) or tried(item)
    return ItemRow(item, links[0] if links else None, item.rank, name, above)


@dataclass(frozen=True)
class PathStep:
    """A part of an item's path; `pk` None where no item has it."""

    name: str
    pk: int | None


def path_of(item: BatchItem) -> list[PathStep]:
    names = item.path.split("/")
    paths = ["/".join(names[: length + 1]) for length in range(len(names))]
    known = dict(BatchItem.objects.filter(batch_id=item.batch_id, path__in=paths).values_list("path", "pk"))
    return [PathStep(name, known.get(path)) for name, path in zip(names, paths, strict=True)]


def item_filter_form(pipeline: Pipeline, chosen: filters.ItemFilter) -> filter_bar.FilterForm:
    """The filters of a batch's items as a form above them."""
    stages = [*(stage.name for stage in pipeline.stages), SAVE]
    words = {filters.ENTERED: "have been through it", filters.REPAIRED: "were repaired in it and kept"}
    went = [(name, words.get(name, f"were {name} by it")) for name in filters.ENDED_AS]
    fields = {
        **filter_bar.hidden({"tab": "items", "signature": chosen.signature, "parent": chosen.parent}),
        "level": filter_bar.select("Level", LEVELS),
        "state": filter_bar.select("State now", ItemState.values),
        "stage": filter_bar.select("Stage", stages),
        "ended": filter_bar.select("Which", went, first="stand or ended there", title="Of the stage"),
        "reason": filter_bar.text("Reason", maxlength=60, autocomplete="off"),
    }
    if chosen.open:
        fields["open"] = filter_bar.box("waiting or running only")
    return filter_bar.FilterForm(vars(chosen), fields)


def call_choices(batch: int) -> dict[str, list[Any]]:
    places = [(f"{role}:{stage}", f"{role}: {stage.replace('_', ' ')}") for role, stage in filters.places(batch)]
    return {"place": places, "state": [str(state) for state in CallState.values]}


def runs_of(item: BatchItem, pipeline: Pipeline) -> list[StageRun]:
    """Stage runs of an item, in the order of the pipeline."""
    order = [stage.name for stage in pipeline.stages]
    rows = item.runs.select_related("output").defer("calls", "output__body")
    return sorted(rows, key=lambda run: (order.index(run.stage) if run.stage in order else len(order), run.pk))


def run_content(run: StageRun, start: int = 0) -> dict[str, Any]:
    """Output of a stage, and its calls from the one at `start` on."""
    try:
        output = queries.body(run.output_id)
    except InputError as error:
        output = {"problem": str(error)}
    keys = run.calls
    rows = {row.key: row for row in LLMCall.objects.filter(key__in=keys[start : start + CALLS_SHOWN])}
    shown = [rows[key] for key in keys[start : start + CALLS_SHOWN] if key in rows]
    return {
        "run": run,
        "is_evidence": run.state != StageState.KEPT,
        "blocks": stage_output.blocks(output),
        "whole": output if run.output_id else None,
        "run_calls": shown,
        "run_calls_total": len(keys),
        "run_calls_start": start,
        "run_calls_next": start + CALLS_SHOWN if start + CALLS_SHOWN < len(keys) else None,
        "run_fault": call_by_key(run.call_key or stage_output.call_of(output)),
    }


def call_by_key(key: str) -> int | None:
    return LLMCall.objects.filter(key=key).values_list("pk", flat=True).first() if key else None


@dataclass(frozen=True)
class Provenance:
    facts: list[tuple[str, Any]]
    cost: float | None
    models: list[tuple[str, str]]
    prompts: list[tuple[str, str]]


def provenance_of(product: BatchProduct | None) -> Provenance | None:
    if product is None:
        return None
    about = BatchProduct.objects.values_list("provenance", flat=True).get(pk=product.pk)
    facts = [(name, about[name]) for name in ("theme", "path", "seed", "calls") if name in about]
    return Provenance(
        facts,
        about.get("cost"),
        list((about.get("models") or {}).items()),
        list((about.get("prompts") or {}).items()),
    )


@dataclass(frozen=True)
class Text:
    """Text as far as it is shown; `rest` characters more are in the file."""

    text: str
    rest: int = 0
    is_json: bool = False

    def __bool__(self) -> bool:
        return bool(self.text)


def shown_text(value: Any) -> Text:
    """A text as it is shown, indented where it is JSON of a size that can be read."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if text[:1] in "{[" and 1 < len(text) <= JSON_UP_TO:
        try:
            return _cut(json.dumps(json.loads(text), ensure_ascii=False, indent=2), True)
        except (ValueError, RecursionError):
            pass
    return _cut(text)


def _cut(text: str, is_json: bool = False) -> Text:
    return Text(text[:SHOWN_UP_TO], max(0, len(text) - SHOWN_UP_TO), is_json)


@dataclass(frozen=True)
class ShownMessage:
    """A message of a conversation as it is shown."""

    role: str
    content: Text
    reasoning: Text
    calls: list[tuple[str, Text, str]]
    """Name, arguments, what was wrong with the call."""
    answers: str = ""


def said(message: Mapping[str, Any]) -> ShownMessage:
    asked = message.get("tool_calls") or []
    written = [shown_text(call.get("raw") or call.get("arguments") or {}) for call in asked]
    names = [(str(call.get("name", "")), str(call.get("error") or "")) for call in asked]
    calls = [(name, text, error) for (name, error), text in zip(names, written, strict=True)]
    return ShownMessage(
        str(message.get("role", "")),
        shown_text(message.get("content") or ""),
        shown_text(message.get("reasoning") or ""),
        calls,
        str(message.get("tool_call_id") or ""),
    )


def request_of(body: Any) -> dict[str, Any]:
    """Messages, tools and parameters of a stored request; `skipped` messages at its start are in the file."""
    body = body if isinstance(body, dict) else {}
    messages = body.get("messages") or []
    return {
        "messages": [said(message) for message in messages[-MESSAGES_SHOWN:]],
        "skipped": max(0, len(messages) - MESSAGES_SHOWN),
        "tools": body.get("tools") or [],
        "parameters": body.get("parameters") or {},
    }


def reply_of(body: Any) -> dict[str, Any] | None:
    if not isinstance(body, dict):
        return None
    return {
        "said": said(body.get("message") or {}),
        "finish": body.get("finish_reason") or "",
        "model": body.get("model") or "",
        "usage": list((body.get("usage") or {}).items()),
    }


def tries_of(call: LLMCall) -> list[LLMCall]:
    """All that was asked at the same place for the same thing, in order: a reply that was no use is asked for again."""
    if call.item_id is None:
        return [call]
    same = {"path": call.path, "role": call.role, "stage": call.stage, "sample": call.sample}
    rows = LLMCall.objects.filter(item_id=call.item_id, **same).order_by("id")
    return list(rows[:BELOW])


def ended_badly(call: LLMCall) -> StageRun | None:
    """The stage run that failed with this reply, if one did."""
    if call.item_id is None:
        return None
    runs = StageRun.objects.filter(item_id=call.item_id, call_key=call.key).exclude(state=StageState.KEPT)
    return runs.select_related("item").defer("item__spec", "calls").first()
