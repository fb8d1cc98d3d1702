"""Records back into EnvScaler's files, equal to what was imported, key order included."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from synthesis.formats.records import EnvironmentRecord, RunRecord, RunStep

STATE_FIELD = "init_config"


def without_state(raw: dict[str, Any]) -> dict[str, Any]:
    """A scenario's raw record with a null where its initial state stood, which has a store of its own.

    A state that came as a JSON string stays: its spelling is part of the record. A golden state is left out likewise.
    """
    kept = {key: None if key == STATE_FIELD and isinstance(value, dict) else value for key, value in raw.items()}
    if isinstance(verifier := kept.get("verifier"), dict):
        kept["verifier"] = {key: None if key == "state" else value for key, value in verifier.items()}
    return kept


def scenario_to_envscaler(
    raw: dict[str, Any], state: dict[str, Any], golden: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The scenario as it was imported, from `without_state(raw)`, the plain (decoded) initial state and the golden
    state, encoded, if it has one."""
    given = {key: state if key == STATE_FIELD and value is None else value for key, value in raw.items()}
    if golden is not None and isinstance(verifier := given.get("verifier"), dict):
        given["verifier"] = {**verifier, "state": golden}
    return given


def environment_to_envscaler(record: EnvironmentRecord) -> dict[str, Any]:
    """An environment that was made here (its `raw` is not read) in EnvScaler's shape, to be imported anywhere."""
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
    """The text of an object keyed by environment id, piece by piece."""
    yield "{"
    for index, (key, raw) in enumerate(records):
        yield f"{',' if index else ''}\n{json.dumps(key)}: {json.dumps(raw)}"
    yield "\n}\n"


def scenarios_to_envscaler(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The text of a list of scenarios, piece by piece."""
    yield "["
    for index, raw in enumerate(records):
        yield f"{',' if index else ''}\n{json.dumps(raw)}"
    yield "\n]\n"


def runs_to_jsonl(records: Iterable[dict[str, Any]]) -> Iterator[str]:
    for raw in records:
        yield json.dumps(raw) + "\n"


def run_to_envscaler(run: RunRecord) -> dict[str, Any]:
    """A run in EnvScaler's shape, made of its steps; importing that gives the same steps. One that was lost before
    its first step has none. A submitted answer stands in the conversation alone: no environment executed it, as does a
    call that a disturbance refused. How another call was disturbed is in the field `injected` of its entry (ours).

    A call of the simulated user is an entry alone, with the fields `by` and `after_user_messages` (ours): the messages
    are what the agent saw."""
    opening = next((step.content for step in run.steps if step.kind == "user"), "")
    messages: list[dict[str, Any]] = []
    actions: list[dict[str, Any]] = [{"step": 0, "observation": opening}]
    for number, step in enumerate(run.steps):
        if step.kind == "user":
            messages.append({"role": "user", "content": step.content})
            continue
        if step.by == "user":
            actions.append({"step": len(actions), **_spell_user_call(step, messages)})
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
            taken: dict[str, Any] = {"step": len(actions), "action": action, "observation": observation}
            if step.injected is not None:
                taken["injected"] = step.injected.model_dump(mode="json")
            actions.append(taken)
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


def _spell_user_call(step: RunStep, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The fields of a call that the simulated user made behind these messages."""
    beside = {"content": step.content, "reasoning_content": step.reasoning}
    return {
        "action": {"name": step.tool, "arguments": step.arguments},
        "observation": {"type": "tool", "content": step.recorded},
        "by": "user",
        "after_user_messages": sum(message["role"] == "user" for message in messages),
        **{name: text for name, text in beside.items() if text},
    }
