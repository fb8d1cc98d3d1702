"""Blueprint of a task on its page: nodes in order, where each value comes from, words before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models.fields.json import KT
from pydantic import ValidationError

from synthesis.contracts import Blueprint, BlueprintNode, NodeArgument
from webapp.scenarios.models import TaskRevision
from webapp.templatetags.show import inline_json

SOURCES = {"intent": "from the words of the task", "tool": "a choice that the tool documents"}
VALUE_CHARS = 200


@dataclass(frozen=True)
class ArgumentRow:
    """One value of a call. `source` says where it comes from, `derivation` is the code of a derived one."""

    name: str
    value: str
    source: str
    derivation: str = ""


@dataclass(frozen=True)
class NodeRow:
    """A node in the order of execution. `kind` is `read`, `change`, `call` (of an unknown tool) or `reason`; `takes`
    are the nodes that it takes something from."""

    number: int
    id: str
    label: str
    kind: str
    level: int
    takes: tuple[str, ...]
    arguments: tuple[ArgumentRow, ...]
    derivation: str = ""


def read_blueprint(revision: TaskRevision) -> tuple[str, str] | None:
    """The blueprint in a revision's record, as JSON, and the intent beside it; None if it was not written from one. The
    rest of the record, which may be large, is not read."""
    if revision.verifier_kind != "golden":
        return None
    rows = TaskRevision.objects.filter(pk=revision.pk)
    blueprint, intent = rows.values_list(KT("record__blueprint"), KT("record__intent")).get()
    return (blueprint, intent or "") if blueprint else None


def blueprint_context(revision: TaskRevision, stored: tuple[str, str], kinds: Mapping[str, str]) -> dict[str, Any]:
    """A blueprint as `read_blueprint` gives it, for its page; `kinds` says of tools whether they change something. With
    `blueprint_fault` if the record holds one that cannot be read."""
    text, intent = stored
    try:
        blueprint = Blueprint.model_validate_json(text)
    except ValidationError as error:
        return {"blueprint_fault": str(error.errors()[0]["msg"])}
    rows = list(_list_nodes(blueprint, kinds))
    return {
        "blueprint": blueprint,
        "nodes": rows,
        "calls": sum(row.kind != "reason" for row in rows),
        "thoughts": sum(row.kind == "reason" for row in rows),
        "output_edges": sum(edge.kind == "output" for edge in blueprint.edges),
        "reason_edges": sum(edge.kind == "reason" for edge in blueprint.edges),
        "levels": max(row.level for row in rows) + 1,
        "intent": intent,
        "words_before": len(intent.split()),
        "words_after": len(revision.instruction.split()),
    }


def _list_nodes(blueprint: Blueprint, kinds: Mapping[str, str]) -> Iterator[NodeRow]:
    numbers = {node.id: number for number, node in enumerate(blueprint.nodes, 1)}
    labels = {node.id: f"{numbers[node.id]} {node.label}" for node in blueprint.nodes}
    levels = blueprint.levels()
    for node in blueprint.nodes:
        yield NodeRow(
            number=numbers[node.id],
            id=node.id,
            label=node.label,
            kind=_say_kind(node, kinds),
            level=levels[node.id],
            takes=tuple(labels[source] for source in blueprint.sources(node.id)),
            arguments=tuple(_describe_argument(argument, labels) for argument in node.arguments),
            derivation=node.derivation,
        )


def _say_kind(node: BlueprintNode, kinds: Mapping[str, str]) -> str:
    if node.kind == "reason":
        return "reason"
    return {"query": "read", "change": "change"}.get(kinds.get(node.tool, ""), "call")


def _describe_argument(argument: NodeArgument, labels: Mapping[str, str]) -> ArgumentRow:
    named = ", ".join(labels.get(name, name) for name in argument.nodes)
    source = SOURCES.get(argument.source, f"from {named}")
    if argument.source == "derivation":
        source = f"worked out from {named}"
    return ArgumentRow(argument.name, inline_json(argument.value, VALUE_CHARS), source, argument.derivation)
