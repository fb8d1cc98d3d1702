"""Measures of a version in EnvScaler's terms (Table 2): constraint rules, state categories by level, tools by kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from synthesis.assessment.truncated_names import list_attribute_names


def measure_program(rules: Any, state_schema: Any, kinds: Iterable[str]) -> dict[str, Any]:
    """Return the measures as the columns of `Version`.

    A level 1 category is an entity of the state definition (`user`); its level 2 categories are its attributes (`u_id`,
    `u_phone`). `category_sizes` has the number of level 2 categories for each of level 1, in their order; it is empty
    if the record defines no state.
    """
    tools = list(kinds)
    entities = [row for row in state_schema if isinstance(row, dict)] if isinstance(state_schema, list | tuple) else []
    return {
        "rule_count": len(rules) if isinstance(rules, list | tuple) else 0,
        "category_sizes": [len(list_attribute_names(row.get("attributes"))) for row in entities],
        "query_count": tools.count("query"),
        "change_count": tools.count("change"),
    }
