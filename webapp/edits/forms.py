"""Readers of the forms of edits: what was typed, as a draft's body takes it."""

from __future__ import annotations

from typing import Any

from django.http import QueryDict

from synthesis.contracts.verifier_kinds import SCRIPT_CHARS
from webapp.common.query_params import Params
from webapp.edits.answer_forms.form_rows import read_rows, rearrange_rows
from webapp.edits.draft_body import (
    ANSWER_CHARS,
    CALLS_CHARS,
    CHECK_CHARS,
    INSTRUCTION_CHARS,
    LABEL_CHARS,
    MOST_CHECKS,
    SOURCE_CHARS,
    STATE_CHARS,
)
from webapp.edits.models import Edit, EditKind
from webapp.edits.verifier_part import NEW_SCRIPT

TYPED_CHARS = 5_000_000
"""A text is read whole up to this length, so that a refusal states its real length."""
NEW_CHECK = {"label": "", "source": "def check_func(initial_state, final_state, answer):\n    return False\n"}


def read_typed_draft(edit: Edit, post: QueryDict) -> dict[str, Any]:
    """Return everything that was typed, as text, for the page that shows it again.

    One character beyond a limit is kept, so that a text that is too long is refused and not cut.
    """
    params = Params(post)
    typed_body: dict[str, Any] = {"why": params.text("why", TYPED_CHARS)}
    if edit.kind == EditKind.PROGRAM:
        name = "tool_source" if edit.tool else "source"
        return {**typed_body, name: params.text(name, SOURCE_CHARS + 1).replace("\r\n", "\n")}
    typed_body["title"] = params.text("title", TYPED_CHARS, strip=True)
    typed_body["instruction"] = params.text("instruction", TYPED_CHARS).replace("\r\n", "\n").strip()
    labels, sources = params.texts("check_label", LABEL_CHARS + 1), params.texts("check_source", CHECK_CHARS + 1)
    out = set(params.texts("check_out"))
    pairs = list(zip(labels, sources, strict=False))[: MOST_CHECKS + 1]
    if pairs or "form_sent" in post:
        typed_body["checks"] = [
            {"label": label.strip(), "source": source.replace("\r\n", "\n")}
            for number, (label, source) in enumerate(pairs)
            if str(number) not in out and (label.strip() or source.strip())
        ]
    if post.get("act") == "add_check":
        typed_body["checks"] = [*typed_body.get("checks", []), NEW_CHECK]
    if "verifier_kind" in post:
        typed_body["verifier"] = _read_verifier(params, is_redrawn=post.get("act") == "verifier_kind")
    if "criteria" in post:
        lines = params.text("criteria", INSTRUCTION_CHARS).splitlines()
        typed_body["criteria"] = [line.strip() for line in lines if line.strip()]
    if "equality" in post:
        typed_body["equality"] = params.text("equality", 20)
    if "form_sent" in post:
        typed_body["form_rows"] = rearrange_rows(read_rows(post), params.text("act", 30))
    typed_body["calls_text"] = params.text("calls", CALLS_CHARS + 1)
    typed_body["answer"] = params.text("answer", ANSWER_CHARS + 1).replace("\r\n", "\n")
    if "state" in post:
        typed_body["state_text"] = params.text("state", STATE_CHARS + 1)
    return typed_body


def _read_verifier(params: Params, *, is_redrawn: bool) -> dict[str, Any]:
    """Return the chosen kind with the script that is typed beside it, even if checks are chosen.

    A script that was just chosen and has no text begins with an example.
    """
    kind = params.text("verifier_kind", 20)
    source = params.text("script_source", SCRIPT_CHARS + 1).replace("\r\n", "\n")
    lines = params.text("assertions", TYPED_CHARS).splitlines()
    names = [line.strip() for line in lines if line.strip()]
    if is_redrawn and kind == "script" and not source.strip():
        return {**NEW_SCRIPT, "assertions": names or NEW_SCRIPT["assertions"]}
    return {"kind": kind, "source": source, "assertions": names}
