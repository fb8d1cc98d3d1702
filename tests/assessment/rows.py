"""Assessments as rows, made by hand: what pages and the API show needs no sandbox."""

from __future__ import annotations

import hashlib
from typing import Any

from synthesis.assessment.scores import summarize_assessment
from synthesis.drafts import AssessmentDraft, ToolCase
from synthesis.stages import StageSettings
from tests.fixtures import pages_seed
from webapp.environments.assessment_services import save_assessment
from webapp.environments.models import Assessment, Version

VERDICTS = ("pass", "pass", "warning", "fail")
WAYS = ("positive", "negative")
TOOLS = ("get_row", "drop_row")


def case(number: int, text: str = "fine", **changes: Any) -> ToolCase:
    fields: dict[str, Any] = {
        "tool": TOOLS[number // 2 % 2],
        "arguments": {"key": text},
        "case": WAYS[number % 2],
        "state": {"rows": {str(number // 4): text}},
        "ok": True,
        "result": {"said": text},
        "patch": ({"op": "add", "path": "/rows/x", "value": text},) if number % 2 else (),
        "verdict": VERDICTS[number % 4],
        "reason": f"reason {number}: {text}",
        "seed": number,
        "digest": hashlib.sha256(str(number).encode()).hexdigest(),
    }
    return ToolCase(**fields | changes)


def draft(count: int = 40, text: str = "fine", **settings: Any) -> AssessmentDraft:
    cases = [case(number, text) for number in range(count)]
    return summarize_assessment(cases, TOOLS, StageSettings(assessment_threshold=0.5, **settings))


def saved(count: int = 40, text: str = "fine", version: Version | None = None) -> Assessment:
    if version is None:
        version = pages_seed.environment("Assessed desk").current
        assert version is not None
    roles = {"tester": f"model {text}", "checker": "another"}
    return save_assessment(version, draft(count, text), roles=roles, scripted=True)[1]
