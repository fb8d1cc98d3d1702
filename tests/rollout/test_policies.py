"""Policies without an LLM, on bundled tasks: what each is good for, and that a seed means what it says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from synthesis.contracts import Message, Reference, Tool, Turn
from synthesis.rollout import (
    AttemptSetting,
    Conversation,
    NoisyReferencePolicy,
    Plan,
    RandomPolicy,
    ReferencePolicy,
    RolloutTask,
    format_documentation,
)
from synthesis.runtime import Sandbox, encode_state, validate_arguments
from synthesis.starter import list_folders, read_environment, read_tasks
from synthesis.starter.record import build_program
from tests.rollout.support import PROGRAM, REFERENCE, attempt_with, gather, task

FOLDERS = [folder for folder in list_folders() if (folder / "references.json").is_file()][:2]


def bundled() -> list[tuple[RolloutTask, Reference]]:
    found = []
    for folder in FOLDERS:
        about = read_environment(folder)
        program = build_program(about)
        for one in read_tasks(folder)[:2]:
            made = RolloutTask(
                key=one.key,
                program=program,
                initial=encode_state(one.initial_state),
                instruction=one.instruction,
                answer_form=one.answer_form,
                documentation=format_documentation(about.introduction, about.rules),
                verifier=one.verifier.model_copy(update={"frame": None}),
            )
            assert one.reference is not None
            found.append((made, one.reference))
    return found


BUNDLED = bundled()


def test_the_reference_solves_bundled_tasks_through_the_loop(sandbox: Sandbox) -> None:
    made = gather(sandbox, [Plan(one, ReferencePolicy(known)) for one, known in BUNDLED])
    assert {(one.key, one.outcome) for one in made} == {(one.key, "solved") for one, _ in BUNDLED}
    assert {one.policy for one in made} == {"reference"}


def test_the_reference_can_make_several_calls_a_turn(sandbox: Sandbox) -> None:
    made = attempt_with(sandbox, ReferencePolicy(REFERENCE, calls_a_turn=5))
    assert (made.outcome, len(made.turns)) == ("solved", 2)


@pytest.mark.slow
def test_noise_costs_reward_and_the_same_seed_the_same(sandbox: Sandbox) -> None:
    def attempts(rate: float) -> list[tuple[str, int, float | None]]:
        plans = [
            Plan(one, NoisyReferencePolicy(known, one.program.tools, rate=rate, seed=seed), ordinal=seed)
            for one, known in BUNDLED
            for seed in range(3)
        ]
        made = gather(sandbox, plans)
        return sorted((one.key, one.ordinal, one.reward.reward if one.reward else None) for one in made)

    noisy = attempts(0.5)
    assert noisy == attempts(0.5)
    assert all(reward is not None for _, _, reward in noisy)
    assert sum(reward or 0 for _, _, reward in noisy) < len(noisy)
    assert all(reward == 1.0 for _, _, reward in attempts(0.0))


@pytest.mark.parametrize("rate", [-0.1, 1.5])
def test_a_rate_that_is_no_probability_is_refused(rate: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        NoisyReferencePolicy(REFERENCE, PROGRAM.tools, rate=rate, seed=1)


def test_each_kind_of_noise_happens() -> None:
    known = BUNDLED[0][1]
    seen = set()
    for seed in range(40):
        noisy = NoisyReferencePolicy(known, BUNDLED[0][0].program.tools, rate=0.2, seed=seed)
        played = noisy._played.reference.calls
        names, meant = [one.tool for one in played], [one.tool for one in known.calls]
        if len(played) > len(meant):
            seen.add("repeat")
        elif len(played) < len(meant):
            seen.add("drop")
        elif names != meant:
            seen.add("wrong_tool")
        elif played != known.calls:
            seen.add("alter")
    assert seen == {"repeat", "drop", "wrong_tool", "alter"}


def test_random_calls_are_valid_and_use_what_was_seen(sandbox: Sandbox) -> None:
    plans = [Plan(one, RandomPolicy(seed=seed, calls=12), ordinal=seed) for one, _ in BUNDLED[::2] for seed in range(3)]
    made = gather(sandbox, plans)
    kinds = [step.result.error.kind for one in made for step in one.steps if step.result and step.result.error]
    assert not {"unknown_tool", "bad_arguments", "malformed"} & set(kinds)
    steps = [step for one in made for step in one.steps if step.kind == "call" and step.result]
    calls = [step for step in steps if step.result and step.result.executed]
    assert (len(calls), len(steps)) == (len(plans) * 12, len(plans) * 13), "the last one submits an answer"
    worked = [step for step in calls if "'success': True" in step.observation]
    assert worked, "ids that stand in results and in the task lead somewhere"
    assert {one.ending for one in made} == {"answered"}


def test_the_same_seed_makes_the_same_random_calls(sandbox: Sandbox) -> None:
    def run(seed: int) -> list[tuple[str, dict[str, Any]]]:
        (made,) = gather(sandbox, [Plan(BUNDLED[0][0], RandomPolicy(seed=seed, calls=6))])
        return [(step.tool, step.arguments) for step in made.steps if step.kind == "call"]

    assert run(1) == run(1)
    assert run(1) != run(2)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"type": ["integer", "null"], "minimum": 3}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}, "required": ["a"]},
    {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "boolean"}, "minItems": 2}}},
    {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"const": 4}}, "required": ["b"]}}},
    {"type": "object", "properties": {"a": {"type": "string", "minLength": 5, "maxLength": 6}}, "required": ["a"]},
    {"type": "object", "properties": {}},
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_random_call_fits_its_schema(schema: dict[str, Any]) -> None:
    seen = (Message(role="system", content=""), Message(role="user", content="Take B-1 to Ada on 2026-01-02."))
    for seed in range(20):
        asked = Conversation(messages=seen, tools=(Tool(name="f", parameters=schema),))
        turn: Turn = asyncio.run(RandomPolicy(seed=seed).act(asked))
        (call,) = turn.message.tool_calls
        assert validate_arguments(call.arguments, schema) is None


def test_one_policy_serves_many_attempts_at_once(sandbox: Sandbox) -> None:
    shared = ReferencePolicy(REFERENCE)
    made = gather(sandbox, [Plan(task(), shared, AttemptSetting(), ordinal=n) for n in range(6)], at_once=6)
    assert [one.outcome for one in made] == ["solved"] * 6
    assert sorted(one.ordinal for one in made) == list(range(6))
