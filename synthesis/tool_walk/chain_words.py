"""Texts of a chain and of its results for the prompts of the variant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from synthesis.contracts import Blueprint
from synthesis.prompts import fence_text
from synthesis.tool_graph.words import format_results

SOURCES = {"intent": "known to the user", "tool": "a choice of the tool"}


def describe_calls(chain: Blueprint) -> str:
    """Return the calls of a chain, one per line, each value with its source, fenced."""
    lines = []
    for node in chain.nodes:
        arguments_text = ", ".join(
            f"{argument.name} = {json.dumps(argument.value, ensure_ascii=False)} "
            f"({SOURCES.get(argument.source) or 'from ' + ', '.join(argument.nodes)})"
            for argument in node.arguments
        )
        lines.append(f"{node.id} {node.tool}: {arguments_text or 'nothing'}")
    return fence_text("steps", "\n".join(lines))


def describe_trace(chain: Blueprint, results: Mapping[str, Any]) -> str:
    """Return the calls of a chain with their results, bounded, fenced."""
    return format_results(chain.nodes, results)
