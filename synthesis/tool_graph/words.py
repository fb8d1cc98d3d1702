"""Texts of an environment's tools and of a blueprint for the prompts of the variant."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Collection, Mapping
from typing import Any

from synthesis.assessment.prompt_values import format_value
from synthesis.contracts import Blueprint, BlueprintNode
from synthesis.prompts import fence_text

RESULT_CHARS = 6_000
RESULTS_CHARS = 40_000


def format_chain(blueprint: Blueprint, has_code: bool = False) -> str:
    """Return the nodes of a blueprint, one per line with its id, fenced. With `has_code` the code of reasoning nodes
    follows them, indented.
    """
    return fence_text("steps", "\n".join(_format_node(node, has_code) for node in blueprint.nodes))


def format_edges(blueprint: Blueprint, into: str = "") -> str:
    """Return the edges of a blueprint, or those into one node, one per line, fenced."""
    lines = []
    for edge in blueprint.edges:
        if into and edge.target != into:
            continue
        place = f" ({edge.parameter})" if edge.parameter else ""
        why = f": {edge.why}" if edge.why else ""
        edge_kind = "by reasoning" if edge.kind == "reason" else "as it is"
        lines.append(f"{edge.source} -> {edge.target}{place}, {edge_kind}{why}")
    return fence_text("edges", "\n".join(lines) or "none")


def format_results(nodes: Collection[BlueprintNode], results: Mapping[str, Any]) -> str:
    """Return the calls and their results, bounded, fenced. The latest results are never left out."""
    lines: list[str] = []
    room = RESULTS_CHARS
    for node in reversed([node for node in nodes if node.id in results]):
        result_text = format_value(results[node.id], min(RESULT_CHARS, max(200, room)))
        arguments_text = json.dumps(node.call_arguments, ensure_ascii=False)
        head = f"{node.tool}({arguments_text})" if node.kind == "tool" else node.purpose
        lines.append(f"{node.id} {head} -> {result_text}")
        room -= len(lines[-1])
    return fence_text("results", "\n".join(reversed(lines)) or "nothing yet")


def _format_node(node: BlueprintNode, has_code: bool) -> str:
    if node.kind == "tool":
        return f"{node.id} {node.tool}"
    code = f"\n{textwrap.indent(node.derivation, '    ')}" if has_code else ""
    return f"{node.id} (reasoning) {node.purpose}{code}"
