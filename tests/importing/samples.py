"""A compact environment, scenarios and recorded runs in EnvScaler's form, made afresh by every call."""

from __future__ import annotations

import copy
import json
from typing import Any

SOURCE = '''import uuid
from datetime import datetime
from typing import Dict, List, Optional


class TicketDesk:
    def __init__(self, init_config: dict = None):
        self.tickets: Dict[str, dict] = {}
        self.agents: Dict[str, dict] = {}
        for name, value in (init_config or {}).items():
            setattr(self, name, value)

    def get_ticket(self, ticket_id: str) -> dict:
        """Look one ticket up.

        Args:
            ticket_id (str): Its id.
        """
        if ticket_id not in self.tickets:
            return {"success": False, "error": "no such ticket"}
        return {"success": True, "data": self.tickets[ticket_id]}

    def open_ticket(self, title: str, priority: int = 1) -> dict:
        """Open a ticket under a new random id."""
        ticket_id = str(uuid.uuid4())
        ticket = {"ticket_id": ticket_id, "title": title.strip(), "status": "open", "priority": priority}
        self.tickets[ticket_id] = ticket
        return {"success": True, "data": {"ticket_id": ticket_id}}

    def set_status(self, ticket_id: str, status: str) -> dict:
        """Change the status of a ticket."""
        self.tickets[ticket_id]["status"] = status
        return {"success": True, "message": f"Ticket {ticket_id} is {status}"}

    def spin(self, seconds: int = 1) -> dict:
        """Never comes back for a negative number."""
        while seconds < 0:
            pass
        return {"success": True}
'''
CHECKS = [
    ("Is T1 closed?", "def check_func(final_state):\n    return final_state['tickets']['T1']['status'] == 'closed'"),
    ("Is T2 still there?", "def check_func(final_state):\n    return 'T2' in final_state['tickets']"),
    (
        "Is there an urgent ticket?",
        "def check_func(final_state):\n"
        "    new = [t for k, t in final_state['tickets'].items() if k not in initial_state['tickets']]\n"
        "    return any(t['status'] == 'urgent' for t in new)",
    ),
]


def function(name: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": f"{name}.", "parameters": parameters}}


def environment(key: str = "desk", **changes: Any) -> dict[str, Any]:
    text = {"type": "string"}
    record = {
        "env_id": key,
        "environment_summary": "Ticket desk",
        "environment_introduction": "People open tickets and agents close them.",
        "state_space_definition": [
            {"entity": "Ticket", "attributes": "ticket_id, title, status, priority", "description": "A request."}
        ],
        "constraints_rules": ["A closed ticket stays closed."],
        "operation_list": [
            {"operation_name": "get_ticket", "operation_description": "Look up.", "operation_type": "query"},
            {"operation_name": "open_ticket", "operation_description": "Open.", "operation_type": "state_change"},
            {"operation_name": "set_status", "operation_description": "Change.", "operation_type": "state_change"},
        ],
        "env_class_name": "TicketDesk",
        "env_class_code": SOURCE,
        "tools": [
            function("get_ticket", {"ticket_id": text}, ["ticket_id"]),
            function("open_ticket", {"title": text, "priority": {"type": "integer"}}, ["title", "priority"]),
            function("set_status", {"ticket_id": text, "status": text}, ["ticket_id", "status"]),
        ],
    }
    return copy.deepcopy({k: v for k, v in (record | changes).items() if v is not ...})


def state() -> dict[str, Any]:
    return {
        "tickets": {
            "T1": {"ticket_id": "T1", "title": "Printer", "status": "open", "priority": 1},
            "T2": {"ticket_id": "T2", "title": "Phone", "status": "open", "priority": 2},
        },
        "agents": {"A1": {"agent_id": "A1", "name": "Ada"}},
    }


def scenario(key: str = "task_1", env: str = "desk", **changes: Any) -> dict[str, Any]:
    record = {
        "env_id": env,
        "env_class_name": "TicketDesk",
        "task_id": key,
        "init_config": state(),
        "task": "Close the ticket about the printer and open an urgent one.",
        "checklist_with_func": [{"check_item": label, "check_func": source} for label, source in CHECKS],
    }
    return copy.deepcopy({k: v for k, v in (record | changes).items() if v is not ...})


Call = tuple[str, dict[str, Any], str]


def run(
    calls: list[Call], reward: float | None, key: str = "task_1", env: str = "desk", **changes: Any
) -> dict[str, Any]:
    """A recorded run: messages and trajectory of the same calls, ended by the agent."""
    task = scenario(key)["task"]
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be good."}, {"role": "user", "content": task}]
    trajectory: list[dict[str, Any]] = [{"step": 0, "observation": task}]
    for number, (name, arguments, observed) in enumerate(calls, 1):
        made = {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        messages.append(
            {"role": "assistant", "content": f"<think>thought {number}</think>said {number}", "tool_calls": [made]}
        )
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "name": name, "content": observed})
        trajectory.append(
            {
                "step": number,
                "action": {"name": name, "arguments": arguments},
                "observation": {"type": "tool", "content": observed},
                "reward": 0.0,
            }
        )
    messages += [{"role": "assistant", "content": "Task Completed"}, {"role": "user", "content": "Task finished"}]
    end = {"name": "chat_with_user", "arguments": {"content": "Task Completed"}}
    trajectory.append(
        {"step": len(calls) + 1, "action": end, "observation": {"type": "user", "content": "Task finished"}}
    )
    record = {
        "task_info": {"env_id": env, "task_id": key, "task": task},
        "tools": environment()["tools"],
        "messages": messages,
        "user_messages": None,
        "trajectory": trajectory,
        "total_reward": reward,
        "terminated": True,
        "truncated": False,
        "steps": len(calls) + 1,
    }
    return copy.deepcopy({k: v for k, v in (record | changes).items() if v is not ...})


COMPLAINT = "Error: Failed to parse response to struct response"


def unread(record: dict[str, Any], text: str, action: Any = ..., **message: Any) -> dict[str, Any]:
    """A run in which the agent, before its last call, wrote `text`, which its environment could not read."""
    record = copy.deepcopy(record)
    at = len(record["messages"]) - 4
    spoken = {"role": "assistant", "content": text, **message}
    record["messages"][at:at] = [spoken, {"role": "user", "content": COMPLAINT}]
    kept = text if action is ... else action
    seen = {"type": "user", "content": COMPLAINT}
    record["trajectory"].insert(-2, {"step": 2, "action": kept, "observation": seen})
    return record


CLOSE: Call = (
    "set_status",
    {"ticket_id": "T1", "status": "closed"},
    "{'success': True, 'message': 'Ticket T1 is closed'}",
)
LOOK: Call = (
    "get_ticket",
    {"ticket_id": "T1"},
    "{'success': True, 'data': {'ticket_id': 'T1', 'title': 'Printer', 'status': 'open', 'priority': 1}}",
)
RANDOM_ID = "7d0f9c1e-5a55-4b6e-9f0a-0d8f1c2b3a4d"
OPEN: Call = ("open_ticket", {"title": "Fire"}, "{'success': True, 'data': {'ticket_id': '" + RANDOM_ID + "'}}")
URGENT: Call = (
    "set_status",
    {"ticket_id": RANDOM_ID, "status": "urgent"},
    "{'success': True, 'message': 'Ticket " + RANDOM_ID + " is urgent'}",
)
