"""Blueprint of a task on its page: its drawing, its nodes in order, and the values and result of one node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from django.db.models.fields.json import KT
from pydantic import ValidationError

from synthesis.contracts import Blueprint, BlueprintEdge, BlueprintNode, NodeArgument, StepKind, Volatile
from webapp.common.query_params import Params
from webapp.common.templatetags.show import inline_json
from webapp.environments.graph_drawing.graph_shapes import Drawing, GraphLink, GraphNode, draw_graph
from webapp.scenarios.golden.differences import list_differences
from webapp.scenarios.models import TaskReference, TaskRevision
from webapp.scenarios.playground.services import load_cached_state
from webapp.scenarios.reference_steps import ReferenceStep, execute_stored_reference
from webapp.scenarios.references import find_reference

NONE = "No reference is stored for this revision, so nothing can be said of what the calls returned."
CHANGED = (
    "The reference is no longer the calls of this blueprint: another one replaced it. What its own calls returned "
    "is shown with it."
)


@dataclass(frozen=True)
class RecordedCalls:
    """The executed steps by node, and why they are missing or incomplete (`missing`)."""

    steps: Mapping[str, ReferenceStep] = field(default_factory=dict)
    missing: str = ""


def read_recorded_calls(revision: TaskRevision, blueprint: Blueprint) -> RecordedCalls:
    """Return the steps of the revision's reference, if they are still the calls of the blueprint."""
    reference = find_reference(revision)
    if reference is None:
        return RecordedCalls(missing=NONE)
    if not _has_calls(reference, blueprint):
        return RecordedCalls(missing=CHANGED)
    scenario = revision.scenario
    executed = execute_stored_reference(scenario.version_id, scenario.initial_id, reference.pk)
    calls = [node.id for node in blueprint.nodes if node.kind == "tool"]
    missing = f"The reference cannot be carried out to its end: {executed.lost}" if executed.lost else ""
    return RecordedCalls(dict(zip(calls, executed.steps, strict=False)), missing)


def _has_calls(reference: TaskReference, blueprint: Blueprint) -> bool:
    blueprint_calls = [(node.tool, node.call_arguments) for node in blueprint.nodes if node.kind == "tool"]
    return blueprint_calls == [(call["tool"], call["arguments"]) for call in reference.calls]


SOURCES = {
    "intent": "from the words of the task",
    "tool": "a choice that the tool documents",
    "result": "from the result of",
    "derivation": "worked out from the result of",
}
KINDS = ("golden", "rubric")
"""Verifiers of tasks that were written from a blueprint: merged walks (AutoForge), or a chain (Agent-World)."""
VALUE_CHARS = 200
WIDEST = 5
PARAMETERS_NAMED = 3


@dataclass(frozen=True)
class ArgumentRow:
    """One value of a call. `source` describes its source, `origins` are the nodes that it was taken from, by number and
    label, `derivation` is the code of a derived value."""

    name: str
    value: str
    source: str
    origins: tuple[tuple[int, str], ...] = ()
    derivation: str = ""


@dataclass(frozen=True)
class NodeRow:
    """A node in the order of execution. `kind` is `read`, `change`, `call` (of an unknown tool) or `reason`; `takes`
    describes its inputs and their nodes. `step` is the result of its call and the changes."""

    number: int
    id: str
    label: str
    kind: str
    level: int
    takes: str
    arguments: tuple[ArgumentRow, ...]
    origins: tuple[tuple[int, str], ...] = ()
    derivation: str = ""
    step: ReferenceStep | None = None

    @property
    def changed(self) -> int:
        """Number of places of the state that the call changed."""
        return len(self.step.changes) + self.step.more if self.step is not None else 0


def read_blueprint(revision: TaskRevision) -> tuple[str, str] | None:
    """Return the blueprint in a revision's record, as JSON, and its intent; None if the revision has no blueprint.

    The rest of the record, which may be large, is not read.
    """
    if revision.verifier_kind not in KINDS:
        return None
    rows = TaskRevision.objects.filter(pk=revision.pk)
    blueprint, intent = rows.values_list(KT("record__blueprint"), KT("record__intent")).get()
    return (blueprint, intent or "") if blueprint else None


def build_blueprint_context(
    revision: TaskRevision, stored: tuple[str, str], kinds: Mapping[str, str], params: Params
) -> dict[str, Any]:
    """Build the context of a blueprint as `read_blueprint` returns it.

    `kinds` maps tools to whether they change the state; the address selects a node. The context has `blueprint_fault`
    if the stored blueprint cannot be read.
    """
    text, intent = stored
    try:
        blueprint = Blueprint.model_validate_json(text)
    except ValidationError as error:
        return {"blueprint_fault": str(error.errors()[0]["msg"])}
    recorded = read_recorded_calls(revision, blueprint)
    rows = list(_list_nodes(blueprint, kinds, recorded))
    chosen = rows[min(max(1, params.number("node") or 1), len(rows)) - 1]
    return {
        "blueprint": blueprint,
        "nodes": rows,
        "node": chosen,
        "node_before": rows[chosen.number - 2] if chosen.number > 1 else None,
        "node_after": rows[chosen.number] if chosen.number < len(rows) else None,
        "recorded_missing": recorded.missing,
        "drawing": _draw_blueprint(revision, blueprint, rows, chosen),
        "calls": sum(row.kind != "reason" for row in rows),
        "thoughts": sum(row.kind == "reason" for row in rows),
        "output_edges": sum(edge.kind == "output" for edge in blueprint.edges),
        "reason_edges": sum(edge.kind == "reason" for edge in blueprint.edges),
        **{f"{kind}_steps": blueprint.steps.count(kind) for kind in get_args(StepKind)},
        "levels": max(row.level for row in rows) + 1,
        "intent": intent,
        "words_before": len(intent.split()),
        "words_after": len(revision.instruction.split()),
        **_build_golden_context(revision),
    }


def _build_golden_context(revision: TaskRevision) -> dict[str, Any]:
    """Compare the golden state with the initial one, field by field."""
    if revision.golden_id is None:
        return {}
    parts = revision.verifier or {}
    volatile = [Volatile.model_validate(item) for item in parts.get("volatile", ())]
    rules = volatile if parts.get("equality", "roles") == "roles" else []
    start, golden = load_cached_state(revision.scenario.initial_id), load_cached_state(revision.golden_id)
    groups, more = list_differences(start, golden, rules)
    fields = [field for group in groups for field in group.fields]
    return {
        "differences": groups,
        "differences_count": len(fields) + more,
        "differences_more": more,
        "differences_volatile": sum(field.is_volatile for field in fields),
    }


def _draw_blueprint(
    revision: TaskRevision, blueprint: Blueprint, rows: list[NodeRow], chosen: NodeRow
) -> Drawing | None:
    places = {row.id: place for place, row in enumerate(rows)}
    nodes = [
        GraphNode(
            key=str(row.number),
            label=row.label,
            number=str(row.number),
            kind="thought" if row.kind == "reason" else row.kind,
            href=f"?tab=blueprint&revision={revision.number}&node={row.number}#desk",
            state="on" if row is chosen else "",
            title=f"{row.number} {row.label}",
        )
        for row in rows
    ]
    links = [
        GraphLink(
            source=places[source],
            target=places[target],
            words=", ".join(dict.fromkeys(edge.parameter for edge in edges if edge.parameter)),
            kind="reason" if all(edge.kind == "reason" for edge in edges) else "output",
            state="on" if target == chosen.id else "",
            title="; ".join(edge.why for edge in edges if edge.why),
        )
        for (source, target), edges in _group_edges(blueprint.edges).items()
    ]
    return draw_graph(nodes, links, [row.level for row in rows], WIDEST)


def _group_edges(edges: tuple[BlueprintEdge, ...]) -> dict[tuple[str, str], list[BlueprintEdge]]:
    joined: dict[tuple[str, str], list[BlueprintEdge]] = {}
    for edge in edges:
        joined.setdefault((edge.source, edge.target), []).append(edge)
    return joined


def _list_nodes(blueprint: Blueprint, kinds: Mapping[str, str], recorded: RecordedCalls) -> Iterator[NodeRow]:
    numbers = {node.id: number for number, node in enumerate(blueprint.nodes, 1)}
    labels = {node.id: (numbers[node.id], node.label) for node in blueprint.nodes}
    levels = blueprint.levels()
    for node in blueprint.nodes:
        yield NodeRow(
            number=numbers[node.id],
            id=node.id,
            label=node.label,
            kind=_classify_node(node, kinds),
            level=levels[node.id],
            takes=_describe_inputs(node, blueprint, numbers),
            arguments=tuple(_describe_argument(argument, labels) for argument in node.arguments),
            origins=tuple(labels[source] for source in blueprint.sources(node.id)),
            derivation=node.derivation,
            step=recorded.steps.get(node.id),
        )


def _describe_inputs(node: BlueprintNode, blueprint: Blueprint, numbers: Mapping[str, int]) -> str:
    """Describe which inputs a node takes from which nodes, as `hut_ids from 3; from, to from 2`."""
    into = [edge for edge in blueprint.edges if edge.target == node.id]
    parts = []
    for source in blueprint.sources(node.id):
        names = list(dict.fromkeys(edge.parameter for edge in into if edge.source == source and edge.parameter))
        parts.append(f"{', '.join(names)} from {numbers[source]}" if names else f"from {numbers[source]}")
    if not parts and node.kind == "tool":
        intent_arguments = [argument.name for argument in node.arguments if argument.source == "intent"]
        more = (
            f" and {len(intent_arguments) - PARAMETERS_NAMED} more" if len(intent_arguments) > PARAMETERS_NAMED else ""
        )
        return (
            f"{', '.join(intent_arguments[:PARAMETERS_NAMED])}{more} from the words"
            if intent_arguments
            else "takes nothing"
        )
    return "; ".join(parts)


def _classify_node(node: BlueprintNode, kinds: Mapping[str, str]) -> str:
    if node.kind == "reason":
        return "reason"
    return {"query": "read", "change": "change"}.get(kinds.get(node.tool, ""), "call")


def _describe_argument(argument: NodeArgument, labels: Mapping[str, tuple[int, str]]) -> ArgumentRow:
    origins = tuple(labels[name] for name in argument.nodes if name in labels)
    value = inline_json(argument.value, VALUE_CHARS)
    return ArgumentRow(argument.name, value, SOURCES[argument.source], origins, argument.derivation)
