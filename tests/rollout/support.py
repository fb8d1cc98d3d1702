"""A small environment, attempts at it, and models behind a scripted server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from synthesis.contracts import AnswerField, Attempt, Program, Reference, ReferenceCall, Tool
from synthesis.formats.answer_form import build_field_checks
from synthesis.llm import Endpoint
from synthesis.llm.client import connect_to_endpoint
from synthesis.llm.openai_chat import OpenAIChat
from synthesis.rollout import (
    AttemptSetting,
    ChatPolicy,
    Plan,
    Policy,
    RolloutTask,
    SimulatedUser,
    format_documentation,
    run_attempts,
)
from synthesis.runtime import Sandbox, derive_working_schema, outline_program
from tests.fixtures.llm import Request
from tests.verifier_fields import nest_verifier

SOURCE = '''
class Shelf:
    def __init__(self, init_config: dict):
        self.boxes = {"B-1": {"owner": "Ada", "open": False}, "B-2": {"owner": "Bo", "open": False}}
        self.secret = "the combination is 4711"
        self.log = []

    def find_box(self, owner: str) -> dict:
        """Find the boxes of an owner."""
        return {"success": True, "boxes": [{"box_id": k} for k, v in self.boxes.items() if v["owner"] == owner]}

    def open_box(self, box_id: str) -> dict:
        """Open a box."""
        if box_id not in self.boxes:
            return {"success": False, "error": "no such box"}
        self.boxes[box_id]["open"] = True
        self.log.append(box_id)
        return {"success": True}

    def burn(self) -> dict:
        """Fail."""
        raise RuntimeError("smoke")

    def think(self) -> dict:
        """Never come back."""
        while True:
            pass

    def print_all(self, times: int = 1) -> str:
        """Print much."""
        return "word " * times
'''
CHECKS = (
    "def check(initial_state, final_state):\n    return final_state['boxes']['B-1']['open']",
    "def check(initial_state, final_state):\n    return not final_state['boxes']['B-2']['open']",
)
INSTRUCTION = "Ada would like her box to be opened."
DOCUMENTATION = format_documentation("A shelf of boxes.", ["Only its owner's box may be opened."])
REFERENCE = Reference(
    calls=(
        ReferenceCall(tool="find_box", arguments={"owner": "Ada"}),
        ReferenceCall(tool="open_box", arguments={"box_id": "B-1"}),
    ),
    answer="Her box B-1 is open.",
)
ANSWERED = (
    "def check(initial_state, final_state):\n    return final_state['boxes']['B-1']['open']",
    "def check(initial_state, final_state, answer):\n    return 'B-1' in (answer or '')",
)
FORM = (
    AnswerField(name="box", type="id", description="The box that was opened."),
    AnswerField(name="boxes", type="number", unit="boxes", description="How many boxes she has.", required=False),
)
EXPECTED = {"box": "B-1", "boxes": 1}
FORM_CHECKS = (CHECKS[0], *(check.source for check in build_field_checks(FORM, EXPECTED)))


def program() -> Program:
    found = outline_program(SOURCE, "Shelf")
    tools = tuple(
        Tool(name=m.name, description=m.docstring, parameters=derive_working_schema(m)) for m in found.methods
    )
    return Program(source=SOURCE, class_name="Shelf", tools=tools)


PROGRAM = program()


def task(**changes: Any) -> RolloutTask:
    fields: dict[str, Any] = {
        "key": "open-ada",
        "program": PROGRAM,
        "initial": {},
        "instruction": INSTRUCTION,
        "documentation": DOCUMENTATION,
        "checks": CHECKS,
    }
    return RolloutTask(**nest_verifier(fields | changes))


def form_task(**changes: Any) -> RolloutTask:
    """The task with an answer form: two of its three checks compare fields."""
    return task(**({"answer_form": FORM, "checks": FORM_CHECKS} | changes))


def gather(sandbox: Sandbox, plans: Iterable[Plan], **options: Any) -> list[Attempt]:
    async def run() -> list[Attempt]:
        return [one async for one in run_attempts(sandbox, plans, **options)]

    return asyncio.run(run())


def attempt_with(sandbox: Sandbox, policy: Policy, **setting: Any) -> Attempt:
    (made,) = gather(sandbox, [Plan(task(), policy, AttemptSetting(**setting))])
    return made


def endpoint(url: str, **changes: Any) -> Endpoint:
    fields: dict[str, Any] = {"name": "scripted", "base_url": url, "api_key": "sk-secret-0123456789", "max_retries": 0}
    return Endpoint(**(fields | changes))


def chat_attempts(
    sandbox: Sandbox,
    url: str,
    *,
    count: int = 1,
    setting: AttemptSetting | None = None,
    make_task: Callable[[], RolloutTask] = task,
    user: str = "optimised",
    at_once: int = 8,
    parameters: dict[str, Any] | None = None,
    **changes: Any,
) -> list[Attempt]:
    """Attempts by a scripted model. In a conversation the user is the model `user` of the same server."""
    used = setting or AttemptSetting()

    async def run() -> list[Attempt]:
        async with connect_to_endpoint(endpoint(url, **changes)) as connection:
            policy = ChatPolicy(connection.chat("agent"), **(parameters or {}))
            plans = [
                Plan(make_task(), policy, used, _user(connection.chat("user"), user, used), ordinal)
                for ordinal in range(count)
            ]
            return [one async for one in run_attempts(sandbox, plans, at_once=at_once)]

    return asyncio.run(run())


def _user(model: OpenAIChat, kind: Any, setting: AttemptSetting) -> SimulatedUser | None:
    tools = task().pick_tools(setting.user_tools)
    return SimulatedUser(model, INSTRUCTION, kind, tools) if setting.conversational else None


def texts(request: Request) -> list[str]:
    return [str(message.get("content")) for message in request["messages"]]


def of_model(requests: Iterable[Request], model: str) -> list[Request]:
    return [request for request in requests if request["model"] == model]
