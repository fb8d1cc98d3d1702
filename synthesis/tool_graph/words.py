"""What prompts of the variant show of an environment's tools and of a blueprint."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from synthesis.assessment.prompt_values import shown
from synthesis.contracts import Blueprint, BlueprintNode
from synthesis.prompts import fenced

RESULT_CHARS = 6_000
RESULTS_CHARS = 40_000


def chain_text(blueprint: Blueprint) -> str:
    """The nodes of a blueprint, one a line with its id, fenced."""
    return fenced("steps", "\n".join(_line(node) for node in blueprint.nodes))


def edges_text(blueprint: Blueprint, into: str = "") -> str:
    """The edges of a blueprint, or those into one node, one a line, fenced."""
    lines = []
    for edge in blueprint.edges:
        if into and edge.target != into:
            continue
        place = f" ({edge.parameter})" if edge.parameter else ""
        why = f": {edge.why}" if edge.why else ""
        how = "by reasoning" if edge.kind == "reason" else "as it is"
        lines.append(f"{edge.source} -> {edge.target}{place}, {how}{why}")
    return fenced("edges", "\n".join(lines) or "none")


def results_text(nodes: Collection[BlueprintNode], results: Mapping[str, Any]) -> str:
    """What was called and what it returned, bounded, fenced. The latest results are never left out."""
    lines: list[str] = []
    room = RESULTS_CHARS
    for node in reversed([node for node in nodes if node.id in results]):
        made = shown(results[node.id], min(RESULT_CHARS, max(200, room)))
        asked = json.dumps(node.call_arguments, ensure_ascii=False)
        head = f"{node.tool}({asked})" if node.kind == "tool" else node.purpose
        lines.append(f"{node.id} {head} -> {made}")
        room -= len(lines[-1])
    return fenced("results", "\n".join(reversed(lines)) or "nothing yet")


def _line(node: BlueprintNode) -> str:
    if node.kind == "tool":
        return f"{node.id} {node.tool}"
    return f"{node.id} (reasoning) {node.purpose}"
