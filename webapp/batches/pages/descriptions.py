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
from webapp.common.forms import filter_bar
from webapp.common.templatetags.show import SHOWN_UP_TO

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
    """The actions that the state of a batch allows."""

    start: bool
    pause: bool
    resume: bool
    raise_cap: bool
    cancel: bool
    failed: int
    rejected: int
    cancelled: int


def build_batch_actions(batch: Batch, counts: Mapping[str, Mapping[str, int]]) -> Actions:
    def count_in_state(state: str) -> int:
        return sum(states.get(state, 0) for states in counts.values())

    state = batch.state
    return Actions(
        start=state == BatchState.DRAFT,
        pause=state == BatchState.RUNNING,
        resume=state in STILL,
        raise_cap=state == BatchState.CAPPED,
        cancel=state not in (BatchState.DONE, BatchState.CANCELLED),
        failed=count_in_state(ItemState.FAILED),
        rejected=count_in_state(ItemState.REJECTED),
        cancelled=count_in_state(ItemState.CANCELLED) if state == BatchState.CANCELLED else 0,
    )


FAILED_WHY = "Something went wrong on the way: it can be tried again."
REJECTED_WHY = "A stage looked and said no: a fact about the item."


@dataclass(frozen=True)
class OutcomeGroups:
    """The first groups that ended in one state; `more` are on a page of their own."""

    title: str
    state: str
    groups: Sequence[FailureGroup]
    why: str
    more: int


def group_by_outcome(groups: Sequence[FailureGroup], most: int) -> list[OutcomeGroups]:
    """Return groups of failures and of rejections, with the words above them."""
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


def build_item_actions(item: BatchItem, pipeline: Pipeline) -> ItemActions:
    barriers = {stage.name for stage in pipeline.stages if stage.group is not None}
    left_out = item.state == ItemState.REJECTED and item.stage in barriers
    return ItemActions(retry=item.state in RETRIED and not left_out, keep=left_out)


def is_item_open(item: BatchItem) -> bool:
    return item.state in OPEN and item.batch.state == BatchState.RUNNING


@dataclass(frozen=True)
class Link:
    words: str
    url: str


def link_rejected_attempt(item: BatchItem) -> list[Link]:
    """Return a link to the attempt of a rejected trajectory, in a list; empty if there is none."""
    if item.attempt_id is None:
        return []
    return [Link(f"Attempt {item.attempt_id}", reverse("trajectories:detail", args=[item.attempt_id]))]


ATTEMPTS_SHOWN = 100


def list_item_attempts(item: BatchItem) -> list[BatchAttempt]:
    """Return the first attempts that an item made at its task."""
    if item.level not in ("task", "trajectory"):
        return []
    rows = item.attempts.select_related("trajectory")
    return list(rows.only(*ATTEMPT_COLUMNS).order_by("role", "ordinal")[:ATTEMPTS_SHOWN])


def link_products(level: str, product: BatchProduct | None) -> list[Link]:
    """Return links to an item's product and the things above it, its own first. Deleted ones are left out."""
    if product is None:
        return []
    candidates = [
        ("trajectory", "Trajectory", "trajectories:detail", product.trajectory_id),
        ("task", "Task", "scenarios:task", product.task_id),
        ("scenario", "Scenario", "scenarios:state", product.scenario_id),
        ("theme", "Environment", "environments:detail", product.environment_id),
    ]
    at = next((place for place, (name, *_) in enumerate(candidates) if name == level), 0)
    return [Link(f"{words} {pk}", reverse(url, args=[pk])) for _, words, url, pk in candidates[at:] if pk]


@dataclass(frozen=True)
class ItemRow:
    """A line of a list of items."""

    item: BatchItem
    product: Link | None
    depth: int
    name: str
    above: str


def build_item_row(item: BatchItem) -> ItemRow:
    above, _, name = item.path.rpartition("/")
    links = link_products(item.level, filters.get_joined_product(item)) or link_rejected_attempt(item)
    return ItemRow(item, links[0] if links else None, item.rank, name, above)


@dataclass(frozen=True)
class PathStep:
    """A part of an item's path; `pk` None if no item has it."""

    name: str
    pk: int | None


def build_item_path(item: BatchItem) -> list[PathStep]:
    names = item.path.split("/")
    paths = ["/".join(names[: length + 1]) for length in range(len(names))]
    pk_by_path = dict(BatchItem.objects.filter(batch_id=item.batch_id, path__in=paths).values_list("path", "pk"))
    return [PathStep(name, pk_by_path.get(path)) for name, path in zip(names, paths, strict=True)]


def build_item_filter_form(pipeline: Pipeline, chosen: filters.ItemFilter) -> filter_bar.FilterForm:
    """Return the filters of a batch's items as a form."""
    stages = [*(stage.name for stage in pipeline.stages), SAVE]
    words = {filters.ENTERED: "have been through it", filters.REPAIRED: "were repaired in it and kept"}
    went = [(name, words.get(name, f"were {name} by it")) for name in filters.ENDED_AS]
    fields = {
        **filter_bar.make_hidden_fields({"tab": "items", "signature": chosen.signature, "parent": chosen.parent}),
        "level": filter_bar.make_select("Level", LEVELS),
        "state": filter_bar.make_select("State now", ItemState.values),
        "stage": filter_bar.make_select("Stage", stages),
        "ended": filter_bar.make_select("Which", went, first="are or ended there", title="Of the stage"),
        "reason": filter_bar.make_text("Reason", maxlength=60, autocomplete="off"),
    }
    if chosen.open:
        fields["open"] = filter_bar.make_checkbox("waiting or running only")
    return filter_bar.FilterForm(vars(chosen), fields)


def list_call_choices(batch: int) -> dict[str, list[Any]]:
    places = [
        (f"{role}:{stage}", f"{role}: {stage.replace('_', ' ')}") for role, stage in filters.list_call_places(batch)
    ]
    return {"place": places, "state": [str(state) for state in CallState.values]}


def list_stage_runs(item: BatchItem, pipeline: Pipeline) -> list[StageRun]:
    """Return the stage runs of an item, in the order of the pipeline."""
    order = [stage.name for stage in pipeline.stages]
    rows = item.runs.select_related("output").defer("calls", "output__body")
    return sorted(rows, key=lambda run: (order.index(run.stage) if run.stage in order else len(order), run.pk))


def build_run_content(run: StageRun, start: int = 0) -> dict[str, Any]:
    """Return the output of a stage, and its calls from the one at `start` on."""
    try:
        output = queries.load_body(run.output_id)
    except InputError as error:
        output = {"problem": str(error)}
    keys = run.calls
    rows = {row.key: row for row in LLMCall.objects.filter(key__in=keys[start : start + CALLS_SHOWN])}
    shown_calls = [rows[key] for key in keys[start : start + CALLS_SHOWN] if key in rows]
    return {
        "run": run,
        "is_evidence": run.state != StageState.KEPT,
        "blocks": stage_output.build_blocks(output),
        "whole": output if run.output_id else None,
        "run_calls": shown_calls,
        "run_calls_total": len(keys),
        "run_calls_start": start,
        "run_calls_next": start + CALLS_SHOWN if start + CALLS_SHOWN < len(keys) else None,
        "run_fault": find_call_by_key(run.call_key or stage_output.get_blamed_call(output)),
    }


def find_call_by_key(key: str) -> int | None:
    return LLMCall.objects.filter(key=key).values_list("pk", flat=True).first() if key else None


@dataclass(frozen=True)
class Provenance:
    facts: list[tuple[str, Any]]
    cost: float | None
    models: list[tuple[str, str]]
    prompts: list[tuple[str, str]]


def read_provenance(product: BatchProduct | None) -> Provenance | None:
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
    """Text up to the shown length; `rest` characters more are in the file."""

    text: str
    rest: int = 0
    is_json: bool = False

    def __bool__(self) -> bool:
        return bool(self.text)


def format_shown_text(value: Any) -> Text:
    """Return a text for display, indented if it is JSON of a readable size."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if text[:1] in "{[" and 1 < len(text) <= JSON_UP_TO:
        try:
            return _truncate_text(json.dumps(json.loads(text), ensure_ascii=False, indent=2), True)
        except (ValueError, RecursionError):
            pass
    return _truncate_text(text)


def _truncate_text(text: str, is_json: bool = False) -> Text:
    return Text(text[:SHOWN_UP_TO], max(0, len(text) - SHOWN_UP_TO), is_json)


@dataclass(frozen=True)
class ShownMessage:
    """A message of a conversation, prepared for display."""

    role: str
    content: Text
    reasoning: Text
    calls: list[tuple[str, Text, str]]
    """Name, arguments, what was wrong with the call."""
    answers: str = ""


def build_shown_message(message: Mapping[str, Any]) -> ShownMessage:
    tool_calls = message.get("tool_calls") or []
    written = [format_shown_text(call.get("raw") or call.get("arguments") or {}) for call in tool_calls]
    names = [(str(call.get("name", "")), str(call.get("error") or "")) for call in tool_calls]
    calls = [(name, text, error) for (name, error), text in zip(names, written, strict=True)]
    return ShownMessage(
        str(message.get("role", "")),
        format_shown_text(message.get("content") or ""),
        format_shown_text(message.get("reasoning") or ""),
        calls,
        str(message.get("tool_call_id") or ""),
    )


def build_shown_request(body: Any) -> dict[str, Any]:
    """Return messages, tools and parameters of a stored request; `skipped` messages at its start are in the file."""
    body = body if isinstance(body, dict) else {}
    messages = body.get("messages") or []
    return {
        "messages": [build_shown_message(message) for message in messages[-MESSAGES_SHOWN:]],
        "skipped": max(0, len(messages) - MESSAGES_SHOWN),
        "tools": body.get("tools") or [],
        "parameters": body.get("parameters") or {},
    }


def build_shown_reply(body: Any) -> dict[str, Any] | None:
    if not isinstance(body, dict):
        return None
    return {
        "said": build_shown_message(body.get("message") or {}),
        "finish": body.get("finish_reason") or "",
        "model": body.get("model") or "",
        "usage": list((body.get("usage") or {}).items()),
    }


def list_call_tries(call: LLMCall) -> list[LLMCall]:
    """Return all calls at the same place for the same thing, in order: an unusable reply is asked for again."""
    if call.item_id is None:
        return [call]
    same = {"path": call.path, "role": call.role, "stage": call.stage, "sample": call.sample}
    rows = LLMCall.objects.filter(item_id=call.item_id, **same).order_by("id")
    return list(rows[:BELOW])


def find_failed_run(call: LLMCall) -> StageRun | None:
    """Return the stage run that failed with this reply, if one did."""
    if call.item_id is None:
        return None
    runs = StageRun.objects.filter(item_id=call.item_id, call_key=call.key).exclude(state=StageState.KEPT)
    return runs.select_related("item").defer("item__spec", "calls").first()
