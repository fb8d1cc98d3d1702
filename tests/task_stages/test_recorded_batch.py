"""A batch recorded with a capable model, whose checklist forgot one of the things asked and whose audit was green."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from synthesis.contracts import AnswerField, CheckRecord, Reference, ReferenceCall
from synthesis.drafts import ScenarioDraft, TaskDraft
from synthesis.errors import Rejected
from synthesis.formats.answer_form import add_field_checks
from synthesis.formats.records import EnvironmentRecord, ToolRecord
from synthesis.llm.source_reader import read_code
from synthesis.runtime import Sandbox
from synthesis.tasks.audit_repair import audit_and_repair_task
from tests.benchmarks.prompt_parts.rewriting import Recorded
from tests.benchmarks.prompt_tokens import data_folder

from .support import Scripted, function, run

FOLDER = data_folder("")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="ENVARIUM_TEST_DATA names no folder with the recorded batch")
TOOL = re.compile(r"^- (\w+)\(.*?\) \[(query|change)\]", re.MULTILINE)
FORM = (AnswerField(name="credit", type="money", unit="EUR", description="What credit is left"),)
EXPECTED = {"credit": 35.1}
RELEASED = function("final_state['places']['PL-313']['status'] == 'released'")


def read_lines() -> list[tuple[Recorded, dict[str, Any]]]:
    path = (FOLDER or Path()) / "calls.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [(Recorded.of(line["request"]), line["reply"]) for line in lines]


def recorded_task() -> tuple[EnvironmentRecord, ScenarioDraft, TaskDraft]:
    """Return what was recorded of Luis's two tiles and his umbrella stand, with his question as an answer form."""
    lines = read_lines()
    (program,) = (call.parts["program"] for call, _ in lines if call.stage == "initial_state")
    about = next(call.parts for call, _ in lines if call.stage == "instruction")
    own = [(call, reply) for call, reply in lines if "umbrella stand" in call.words]
    listed = next(call for call, _ in own if call.stage == "checklist")
    record = EnvironmentRecord(
        key="kiln",
        name="Kiln desk",
        introduction=about["environment"],
        class_name="KilnDesk",
        source=program,
        tools=tuple(ToolRecord(name=name, kind=kind) for name, kind in TOOL.findall(about["tools"])),  # type: ignore[arg-type]
    )
    written = [
        CheckRecord(label=call.parts["item"], source=read_code(reply["content"]))
        for call, reply in own
        if call.stage == "check_function" and not call.parts["item"].startswith("The answer")
    ]
    asked = listed.parts["task"]
    talks = (call.request["messages"] for call, _ in lines if call.stage == "task")
    talk = max((talk for talk in talks if talk[1]["content"] == asked), key=len)
    made = [step["function"] for message in talk for step in message.get("tool_calls") or ()]
    calls = tuple(ReferenceCall(tool=call["name"], arguments=json.loads(call["arguments"])) for call in made)
    task = TaskDraft(
        title="Sun and moon together",
        instruction=asked,
        answer_form=FORM,
        expected_answer=EXPECTED,
        checks=add_field_checks(written, FORM, EXPECTED),
        reference=Reference(calls=calls, answer=json.dumps(EXPECTED)),
    )
    return record, ScenarioDraft(name="June", state=json.loads(listed.parts["state"])), task


def repair_reply(task: TaskDraft, *more: CheckRecord) -> str:
    own = [check for check in task.checks if "is_expected" not in check.source]
    return "\n".join(["```python", *(f"# Condition: {one.label}\n{one.source}" for one in (*own, *more)), "```"])


def test_the_forgotten_release_is_told_and_asked_for_after_the_repair(sandbox: Sandbox) -> None:
    record, scenario, task = recorded_task()
    forgotten = CheckRecord(label="The umbrella stand's place PL-313 is released.", source=RELEASED)
    model = Scripted({"repair_task": repair_reply(task, forgotten)})
    found, report = run(lambda kit: audit_and_repair_task(kit, record, scenario, task), model, sandbox)
    assert 'met without call 7, release_place {"place_id": "PL-313"}' in model.last_words()
    assert not [fault for fault in report.faults if fault.kind in ("unneeded_call", "run_refused", "reference_fails")]
    assert found.reference == task.reference
    with pytest.raises(Rejected, match="unneeded_call"):
        run(
            lambda kit: audit_and_repair_task(kit, record, scenario, task),
            Scripted({"repair_task": repair_reply(task)}),
            sandbox,
        )
