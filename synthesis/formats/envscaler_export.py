"""Export of records to EnvScaler's files, equal to the import, including the order of keys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from synthesis.formats.records import EnvironmentRecord, RunRecord, RunStep

STATE_FIELD = "init_config"


def drop_initial_state(raw: dict[str, Any]) -> dict[str, Any]:
    """Return a scenario's raw record with null as its initial state, which has a store of its own.

    A state that was imported as a JSON string stays: its spelling is part of the record. A golden state is dropped
    likewise.
    """
    record = {key: None if key == STATE_FIELD and isinstance(value, dict) else value for key, value in raw.items()}
    if isinstance(verifier := record.get("verifier"), dict):
        record["verifier"] = {key: None if key == "state" else value for key, value in verifier.items()}
    return record


def scenario_to_envscaler(
    raw: dict[str, Any], state: dict[str, Any], golden: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the scenario as imported.

    `raw` comes from `drop_initial_state`, `state` is the plain (decoded) initial state, `golden` the encoded golden
    state, if the scenario has one."""
    scenario = {key: state if key == STATE_FIELD and value is None else value for key, value in raw.items()}
    if golden is not None and isinstance(verifier := scenario.get("verifier"), dict):
        scenario["verifier"] = {**verifier, "state": golden}
    return scenario


def environment_to_envscaler(record: EnvironmentRecord) -> dict[str, Any]:
    """Return an environment that was made here (its `raw` is not read) in EnvScaler's shape, for import anywhere."""
    operations = [
        {
            "operation_name": tool.name,
            "operation_description": tool.description.partition("\n")[0],
            "operation_type": "state_change" if tool.kind == "change" else "query",
        }
        for tool in record.tools
    ]
    return {
        "env_id": record.key,
        "environment_summary": record.summary,
        "environment_introduction": record.introduction,
        "category": record.category,
        "state_space_definition": list(record.state_schema),
        "constraints_rules": list(record.rules),
        "operation_list": operations,
        "env_class_name": record.class_name,
        "env_class_code": record.source,
    }


def environments_to_envscaler(records: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """Yield the text of an object keyed by environment id, piece by piece."""
    yield "{"
    for index, (key, raw) in enumerate(records):
        yield f"{',' if index else ''}\n{json.dumps(key)}: {json.dumps(raw)}"
    yield "\n}\n"


def scenarios_to_envscaler(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the text of a list of scenarios, piece by piece."""
    yield "["
    for index, raw in enumerate(records):
        yield f"{',' if index else ''}\n{json.dumps(raw)}"
    yield "\n]\n"


def runs_to_jsonl(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    for raw in records:
        yield json.dumps(raw) + "\n"


def run_to_envscaler(run: RunRecord) -> dict[str, Any]:
    """Return a run in EnvScaler's shape, built from its steps; an import of it gives the same steps.

    A run that was lost before its first step has none. A submitted answer and a call that a disturbance refused are
    only in the conversation: no environment executed them. The disturbance of another call is in the field `injected`
    of its entry (ours).

    A call of the simulated user has only an entry, with the fields `by` and `after_user_messages` (ours): the messages
    are what the agent saw.
    """
    opening = next((step.content for step in run.steps if step.kind == "user"), "")
    messages: list[dict[str, Any]] = []
    actions: list[dict[str, Any]] = [{"step": 0, "observation": opening}]
    for number, step in enumerate(run.steps):
        if step.kind == "user":
            messages.append({"role": "user", "content": step.content})
            continue
        if step.by == "user":
            actions.append({"step": len(actions), **_serialize_user_call(step, messages)})
            continue
        message: dict[str, Any] = {"role": "assistant", "content": step.content, "reasoning_content": step.reasoning}
        messages.append(message)
        if step.kind == "call":
            function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
            message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
            messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": step.recorded})
            if not step.executed or (step.injected is not None and not step.injected.carried_out):
                continue
            observation = {"type": "tool", "content": step.recorded}
            action = {"name": step.tool, "arguments": step.arguments}
            entry: dict[str, Any] = {"step": len(actions), "action": action, "observation": observation}
            if step.injected is not None:
                entry["injected"] = step.injected.model_dump(mode="json")
            actions.append(entry)
    users = [{"role": "user", "content": step.content} for step in run.steps if step.kind == "user"]
    return {
        "task_info": {"env_id": run.environment_key, "task_id": run.task_key, "task": opening},
        "model": run.policy,
        "messages": messages,
        "user_messages": users if run.conversational else None,
        "trajectory": actions,
        "total_reward": run.recorded_reward,
        "terminated": run.terminated,
        "truncated": run.truncated,
    }


def _serialize_user_call(step: RunStep, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields of a call that the simulated user made after these messages."""
    texts = {"content": step.content, "reasoning_content": step.reasoning}
    return {
        "action": {"name": step.tool, "arguments": step.arguments},
        "observation": {"type": "tool", "content": step.recorded},
        "by": "user",
        "after_user_messages": sum(message["role"] == "user" for message in messages),
        **{name: text for name, text in texts.items() if text},
    }
