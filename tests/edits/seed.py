"""A seed library with a tool that is wrong, three tasks, attempts at them, and an assessment with failed cases."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from synthesis.assessment.cases import CallSetting, execute_call
from synthesis.contracts import DEFAULT_NOW, Reference, ReferenceCall
from synthesis.drafts import AssessmentDraft, ToolCase
from synthesis.formats.files import Entry
from synthesis.runtime import Sandbox
from tests.fixtures.remembered import remembered
from webapp.accounts.models import User
from webapp.environments.assessment_services import save_assessment
from webapp.environments.models import Environment, Tool
from webapp.environments.services import build_program
from webapp.review.decisions import DecisionChoice, create_decision
from webapp.review.subjects import build_entity_tag
from webapp.scenarios.audits.audit_job import audit_tasks
from webapp.scenarios.frames.services import frame_tasks
from webapp.scenarios.importer import import_entries
from webapp.scenarios.models import Task
from webapp.scenarios.references import save_reference
from webapp.trajectories.importer import import_runs
from webapp.trajectories.models import Trajectory

WRONG = 'if lot["packets"] < 5:'
RIGHT = 'if lot["packets"] - packets < 5:'
PROGRAM = '''
class SeedLibrary:
    """A library of seeds."""

    def __init__(self, state):
        self.lots = state["lots"]
        self.loans = state["loans"]

    def lend_packets(self, lot_id: str, packets: int) -> dict:
        """Lend packets of a lot. Five stay."""
        lot = self.lots.get(lot_id)
        if lot is None:
            return {"success": False, "error": "no such lot"}
        if lot["packets"] < 5:
            return {"success": False, "error": "five stay"}
        lot["packets"] -= packets
        self.loans["L-%d" % (len(self.loans) + 1)] = {"lot": lot_id, "packets": packets}
        return {"success": True}

    def list_lots(self) -> dict:
        """All lots."""
        return {"success": True, "lots": self.lots}
'''
LOTS = {"S-1": {"packets": 14}, "S-2": {"packets": 10}, "S-3": {"packets": 6}}
CHECKS = {
    "three": [("Three of S-1 are lent", "return final_state['lots']['S-1']['packets'] == 11")],
    "eight": [("Eight of S-2 are lent", "return final_state['lots']['S-2']['packets'] == 2")],
    "none": [
        ("Nothing is lent", "return not final_state['loans']"),
        ("The six are there", "return final_state['lots']['S-3']['packets'] == 6"),
    ],
}
REFERENCES = {
    "three": [("lend_packets", {"lot_id": "S-1", "packets": 3})],
    "eight": [("lend_packets", {"lot_id": "S-2", "packets": 8})],
    "none": [("list_lots", {})],
}
RUNS = {
    "three": [[("lend_packets", {"lot_id": "S-1", "packets": 3})], [("list_lots", {})]],
    "eight": [[("lend_packets", {"lot_id": "S-2", "packets": 8})]],
    "none": [[("lend_packets", {"lot_id": "S-3", "packets": 3})], [("list_lots", {})]],
}


@dataclass
class SeedLibrary:
    environment: Environment
    tasks: dict[str, Task]

    @property
    def tool(self) -> Tool:
        self.environment.refresh_from_db()
        return Tool.objects.get(version=self.environment.current_id or 0, name="lend_packets")

    def task(self, name: str) -> Task:
        row = self.tasks[name]
        row.refresh_from_db()
        return row

    def runs(self, name: str) -> list[Trajectory]:
        return list(Trajectory.objects.filter(task=self.tasks[name]).order_by("id"))


def environment_record(program: str) -> dict[str, Any]:
    return {
        "env_id": "seeds", "environment_summary": "A seed library", "env_class_name": "SeedLibrary",
        "env_class_code": program, "constraints_rules": ["Five packets of a lot stay."],
        "operation_list": [
            {"operation_name": "lend_packets", "operation_type": "state_change"},
            {"operation_name": "list_lots", "operation_type": "query"},
        ],
    }  # fmt: skip


def library(sandbox: Sandbox) -> SeedLibrary:
    """The environment with its tasks, references, audits and attempts, all through the importers."""
    environment = environment_record(PROGRAM)
    scenarios = [Entry(f"[{number}]", scenario_record(name)) for number, name in enumerate(CHECKS)]
    report = import_entries(sandbox, [Entry("[0]", environment)], scenarios, "envscaler")
    assert not report["tasks"]["failed"], report
    made = _stored_library()
    tasks = made.tasks
    for name, task in tasks.items():
        assert task.current is not None
        calls = tuple(ReferenceCall(tool=tool, arguments=arguments) for tool, arguments in REFERENCES[name])
        save_reference(task.current, Reference(calls=calls, answer=""), "solver")
    frame_tasks(sandbox, [task.pk for task in tasks.values()])
    audit_tasks(sandbox, [task.pk for task in tasks.values()])
    runs = [Entry(f"[{n}]", run) for n, run in enumerate(_run(name, calls) for name in RUNS for calls in RUNS[name])]
    told = import_runs(sandbox, runs, "envscaler")
    assert not told["failed"], told
    return made


def remembered_library(sandbox: Sandbox) -> SeedLibrary:
    """The same, made once a process: its audits and attempts take two seconds."""
    remembered("seed library", lambda: len(library(sandbox).tasks))
    return _stored_library()


def _stored_library() -> SeedLibrary:
    row = Environment.objects.get(key="seeds")
    return SeedLibrary(row, {task.key: task for task in Task.objects.filter(environment=row).select_related("current")})


def scenario_record(name: str) -> dict[str, Any]:
    listed = [
        {"check_item": label, "check_func": f"def check_func(final_state):\n    {body}\n"}
        for label, body in CHECKS[name]
    ]
    state = {"lots": {key: dict(lot) for key, lot in LOTS.items()}, "loans": {}}
    return {
        "env_id": "seeds", "task_id": name, "task": f"Do {name}.", "init_config": state,
        "checklist": [label for label, _ in CHECKS[name]], "checklist_with_func": listed,
    }  # fmt: skip


def _run(name: str, calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for number, (tool, arguments) in enumerate(calls):
        function = {"name": tool, "arguments": json.dumps(arguments)}
        messages.append(
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}],
            }
        )
    actions = [{"step": 0, "observation": f"Do {name}."}] + [
        {"step": number, "action": {"name": tool, "arguments": arguments}, "observation": None}
        for number, (tool, arguments) in enumerate(calls, 1)
    ]
    return {
        "task_info": {"env_id": "seeds", "task_id": name, "task": f"Do {name}."}, "model": "made",
        "messages": messages, "trajectory": actions, "total_reward": None, "terminated": True, "truncated": False,
    }  # fmt: skip


def assessed(sandbox: Sandbox, made: SeedLibrary) -> None:
    """An assessment: a loan that should have been refused, one that is right, and one of a lot that is not there."""
    tool, state = made.tool, {"lots": LOTS, "loans": {}}
    program = build_program(tool.version)
    tried = [
        ("negative", {"lot_id": "S-3", "packets": 3}, "fail", "Three of six leave three, and line 14 looks at six."),
        ("positive", {"lot_id": "S-1", "packets": 3}, "pass", "Lent, as the rule allows."),
        ("negative", {"lot_id": "S-9", "packets": 1}, "pass", "Refused: no such lot."),
    ]
    cases = []
    for number, (kind, arguments, verdict, reason) in enumerate(tried):
        done = execute_call(sandbox, program, CallSetting(state, number, DEFAULT_NOW), tool.name, arguments)
        cases.append(
            ToolCase(
                tool=tool.name,
                case=kind,
                arguments=arguments,
                state=state,
                seed=number,
                now=DEFAULT_NOW,
                ok=done.ok,
                result=done.result,
                error=done.error,
                patch=done.patch,
                digest=done.digest,
                cut=done.cut,
                verdict=verdict,
                reason=reason,
            )
        )
    draft = AssessmentDraft(
        cases=tuple(cases), rates=(), score=2 / 3, strict=2 / 3, planned=3, kept=True, threshold=0.5
    )
    save_assessment(tool.version, draft, roles={"checker": "qwen3-32b"})


def approve(user: User, task: Task, verdict: str = "approve") -> None:
    task = Task.objects.select_related("current", "audit").get(pk=task.pk)
    create_decision(
        user,
        "task",
        task.pk,
        DecisionChoice(verdict, reasons=("too_easy",) if verdict != "approve" else ()),
        build_entity_tag("task", task),
    )
