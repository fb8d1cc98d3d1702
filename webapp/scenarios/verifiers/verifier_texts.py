"""Verifiers as differences between revisions show them: texts by heading, without checks and frame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from synthesis.formats.criteria import format_criterion_line
from webapp.scenarios.models import TaskRevision
from webapp.scenarios.verifiers import VERIFIER_TITLES, read_criteria


def format_verifier_texts(revision: TaskRevision) -> dict[str, str]:
    """Return the texts of a revision's verifier; a golden state is named by its hash."""
    criteria = [format_criterion_line(one) for one in read_criteria(revision.criteria)]
    parts = {**(revision.verifier or {}), "rule": revision.score_rule, "criteria": criteria}
    return format_part_texts(revision.verifier_kind, parts | {"state": revision.golden_id})


def format_part_texts(kind: str, parts: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of the parts that a verifier of this kind has."""
    texts = {"Verifier": VERIFIER_TITLES.get(kind, kind)}
    if kind == "checks":
        texts["Score rule"] = parts.get("rule", "")
    elif kind == "script":
        texts |= {"Verification script": parts["source"], "Assertions": "\n".join(parts["assertions"])}
    elif kind == "golden":
        volatile = "\n".join(f"{one['path']} {one['role']}: {one['reason']}" for one in parts.get("volatile", ()))
        texts |= {"Golden state": parts.get("state") or "", "Equality": parts.get("equality", "")}
        texts["Volatile places"] = volatile
    elif kind == "rubric":
        texts["Criteria"] = "\n".join(parts.get("criteria", ()))
    return texts


def pair_texts(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield (heading, text before, text after) of each text that either side has."""
    for heading in dict.fromkeys([*before, *after]):
        yield heading, before.get(heading, ""), after.get(heading, "")
