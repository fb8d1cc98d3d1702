"""What happens in an attempt without a conversation, turn by turn."""

from __future__ import annotations

import pytest

from synthesis.contracts import Message, SentReasoning, Turn
from synthesis.rollout import AttemptSetting, Conversation, PolicyError, ReferencePolicy
from synthesis.runtime import Sandbox
from tests.fixtures.llm import call, calls, llm_server, message, say
from tests.rollout.support import (
    ANSWERED,
    DOCUMENTATION,
    INSTRUCTION,
    REFERENCE,
    attempt_with,
    chat_attempts,
    gather,
    task,
    texts,
)

SOLVING = [call("find_box", owner="Ada"), call("open_box", box_id="B-1"), say("Her box B-1 is open.")]


def test_an_attempt_is_kept_with_everything_that_happened(sandbox: Sandbox) -> None:
    with llm_server(SOLVING) as server:
        (made,) = chat_attempts(sandbox, server.url, parameters={"temperature": 0.3})
    assert (made.outcome, made.ending, made.answer) == ("solved", "answered", "Her box B-1 is open.")
    assert made.reward is not None
    assert made.reward.reward == 1.0
    assert [(step.kind, step.tool, step.turn) for step in made.steps] == [
        ("user", "", 0),
        ("call", "find_box", 1),
        ("call", "open_box", 2),
        ("message", "", 3),
    ]
    opened = made.steps[2]
    assert opened.result is not None
    assert {"op": "replace", "path": "/boxes/B-1/open", "value": True} in opened.result.patch
    assert opened.observation == "{'success': True}"
    assert made.policy == "scripted/agent"
    assert len(made.final_hash) == 64
    assert (made.usage.requests, made.usage.prompt_tokens, made.usage.completion_tokens) == (3, 30, 15)
    assert made.timing.environment_s > 0
    assert made.timing.agent_s > 0
    assert made.timing.verification_s > 0
    assert made.timing.user_s == 0
    assert set(made.prompts) == {"agent/task", "agent/tools", "agent/end_task"}
    assert server.requests[0]["temperature"] == 0.3


def test_the_agent_sees_documentation_tools_and_task_but_never_the_state(sandbox: Sandbox) -> None:
    with llm_server(SOLVING) as server:
        (made,) = chat_attempts(sandbox, server.url)
    first = server.requests[0]
    system, asked = texts(first)
    assert DOCUMENTATION in system
    assert asked == INSTRUCTION
    assert {item["function"]["name"] for item in first["tools"]} >= {"find_box", "open_box"}
    assert made.steps[0].kind == "user"
    everything = str(server.requests)
    assert "combination is" not in everything
    assert "final_state" not in everything


def test_all_calls_of_a_turn_are_executed_in_their_order(sandbox: Sandbox) -> None:
    both = calls(("open_box", {"box_id": "B-1"}), ("open_box", {"box_id": "B-2"}), content="Both at once.")
    with llm_server([both, say("Done.")]) as server:
        (made,) = chat_attempts(sandbox, server.url)
    first, second = [step for step in made.steps if step.kind == "call"]
    assert (first.turn, second.turn) == (1, 1)
    assert (first.content, second.content) == ("Both at once.", "")
    assert first.result is not None
    assert second.result is not None
    assert first.result.patch[-1]["value"] == "B-1"
    assert second.result.patch[-1]["value"] == "B-2"
    assert [item["role"] for item in server.requests[1]["messages"]][-3:] == ["assistant", "tool", "tool"]
    # Opening Bo's box broke the guard: the reward is a real 0.
    assert made.outcome == "failed"
    assert made.reward is not None
    assert made.reward.reward == 0.0


def test_calls_without_or_with_the_same_id_get_one_of_their_own(sandbox: Sandbox) -> None:
    with llm_server([call("find_box", owner="Ada"), call("find_box", owner="Bo"), say("Done.")]) as server:
        (made,) = chat_attempts(sandbox, server.url)
    ids = [one.id for said in made.messages for one in said.tool_calls]
    assert len(set(ids)) == 2
    assert [item.tool_call_id for item in made.messages if item.role == "tool"] == ids


def test_what_a_tool_refuses_or_raises_is_an_observation_and_the_attempt_goes_on(sandbox: Sandbox) -> None:
    script = [
        call("burn"),
        call("open_box", box_id="B-9"),
        call("open_box"),
        call("open_box", box_id="B-1"),
        say("Open."),
    ]
    with llm_server(script) as server:
        (made,) = chat_attempts(sandbox, server.url)
    seen = [step.observation for step in made.steps if step.kind == "call"]
    assert seen[0] == "Error: RuntimeError, smoke"
    assert "no such box" in seen[1]
    assert "box_id" in seen[2]
    assert made.outcome == "solved"


def test_arguments_that_are_no_json_are_an_observation_that_counts(sandbox: Sandbox) -> None:
    script = [
        calls(("open_box", '{"box_id": "B-1"')),
        calls(("open_box", '["B-1"]')),
        call("open_box", box_id="B-1"),
        say("Open."),
    ]
    with llm_server(script) as server:
        (made,) = chat_attempts(sandbox, server.url)
    broken, listed, fine = [step for step in made.steps if step.kind == "call"]
    assert broken.result is not None
    assert broken.result.error is not None
    assert broken.result.error.kind == "malformed"
    assert "not valid JSON" in broken.observation
    assert '{"box_id": "B-1"' in str(broken.arguments)
    assert "must be a JSON object" in listed.observation
    assert fine.turn == 3
    assert made.outcome == "solved"
    sent = server.requests[1]["messages"][-2]["tool_calls"][0]["function"]
    assert sent["arguments"] == "{}", "a broken text would make some servers refuse every later turn"


def test_an_unknown_tool_is_an_observation(sandbox: Sandbox) -> None:
    with llm_server([call("teleport", to="B-1"), *SOLVING]) as server:
        (made,) = chat_attempts(sandbox, server.url)
    assert "no tool named 'teleport'" in made.steps[1].observation
    assert made.outcome == "solved"


def test_unusable_turns_in_a_row_end_the_attempt_as_the_agents_error(sandbox: Sandbox) -> None:
    with llm_server([call("open_box", box_id="B-2"), say(""), call("teleport"), say("  ")]) as server:
        (made,) = chat_attempts(sandbox, server.url)
    assert (made.outcome, made.ending) == ("agent_error", "unusable")
    assert len(server.requests) == 4
    assert made.reward is not None, "the state was reached by the agent alone, so it is judged"
    assert "3 turns in a row" in made.note


def test_a_usable_turn_between_unusable_ones_starts_the_count_again(sandbox: Sandbox) -> None:
    blank = say("")
    with llm_server([blank, blank, call("open_box", box_id="B-1"), blank, blank, say("Open.")]) as server:
        (made,) = chat_attempts(sandbox, server.url)
    assert made.outcome == "solved"
    assert "neither a call" in texts(server.requests[1])[-1]
    assert [step.observation != "" for step in made.steps[1:3]] == [True, True]


def test_at_the_turn_limit_the_state_is_still_judged(sandbox: Sandbox) -> None:
    with llm_server([call("find_box", owner="Ada")]) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=AttemptSetting(max_turns=4))
    assert (made.outcome, made.ending) == ("truncated", "turn_limit")
    assert made.reward is not None
    assert made.reward.reward == 0.0
    assert len(server.requests) == 4
    with llm_server([call("open_box", box_id="B-1")]) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=AttemptSetting(max_turns=2))
    assert (made.outcome, made.ending) == ("solved", "turn_limit")


def test_the_limits_are_the_papers_unless_set_otherwise() -> None:
    assert AttemptSetting().turn_limit == 30
    assert AttemptSetting(conversational=True).turn_limit == 40
    assert AttemptSetting(max_turns=7).turn_limit == 7


def test_a_conversation_too_long_for_the_model_is_truncated_and_judged(sandbox: Sandbox) -> None:
    from tests.fixtures.llm import refuse

    words = "This model's maximum context length is 8192 tokens."
    with llm_server([call("open_box", box_id="B-1"), refuse(400, words)]) as server:
        (made,) = chat_attempts(sandbox, server.url, make_task=lambda: task(checks=ANSWERED))
    assert (made.outcome, made.ending) == ("truncated", "too_long")
    assert made.reward is not None
    assert made.reward.reward == 0.5
    assert words in made.note


def test_words_that_are_cut_solve_nothing_and_their_steps_say_so(sandbox: Sandbox) -> None:
    opened = call("open_box", box_id="B-1")
    with llm_server([opened, say("Opened.", finish="length")]) as server:
        (made,) = chat_attempts(sandbox, server.url)
    assert (made.outcome, made.ending) == ("truncated", "cut")
    assert made.reward is not None
    assert made.reward.reward == 1.0, "what it did is judged all the same"
    assert [step.cut for step in made.steps if step.kind != "user"] == ["", "length"]
    with llm_server([opened, say("Opened. " + "And again. " * 2_000)]) as server:
        (made,) = chat_attempts(sandbox, server.url)
    assert (made.outcome, made.steps[-1].cut) == ("truncated", "repetition")
    with llm_server([calls(("open_box", {"box_id": "B-1"})), say("Opened.")]) as server:
        (made,) = chat_attempts(sandbox, server.url)
    assert (made.outcome, {step.cut for step in made.steps}) == ("solved", {""})


def test_more_calls_than_a_turn_may_hold_are_not_carried_out_and_say_so(sandbox: Sandbox) -> None:
    many = calls(*[("open_box", {"box_id": "B-1"})] * 5)
    with llm_server([many, say("Open.")]) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=AttemptSetting(max_calls_a_turn=2))
    observed = [step.observation for step in made.steps if step.kind == "call"]
    assert [text.startswith("Error: not carried out") for text in observed] == [False, False, True, True, True]


def test_a_long_observation_is_cut_for_the_agent_and_says_so(sandbox: Sandbox) -> None:
    with llm_server([call("print_all", times=1000), say("Printed.")]) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=AttemptSetting(observation_chars=300))
    assert "cut: 5000 characters" in texts(server.requests[1])[-1]
    assert len(made.steps[1].observation) < 400


def test_an_attempt_that_holds_too_much_is_stopped_and_judged(sandbox: Sandbox) -> None:
    with llm_server([call("print_all", times=60_000)]) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=AttemptSetting(kept_bytes=600_000))
    assert (made.outcome, made.ending) == ("truncated", "too_long")
    assert len(server.requests) == 3
    assert len(str(made.steps[1].result)) < 100_000, "a huge result is kept cut"


@pytest.mark.parametrize(
    ("sent", "content", "field"),
    [
        ("dropped", "I look.", None),
        ("field", "I look.", "Ada's is B-1."),
        ("words", "<think>\nAda's is B-1.\n</think>\n\nI look.", None),
    ],
)
def test_reasoning_is_kept_apart_and_sent_back_where_it_is_wanted(
    sandbox: Sandbox, sent: SentReasoning, content: str, field: str | None
) -> None:
    """AF 3.4, interleaved thinking."""
    script = [
        calls(("open_box", {"box_id": "B-1"}), content="I look.", reasoning_content="Ada's is B-1."),
        message("<think>All done,\nI believe.</think>\n\nOpen."),
    ]
    with llm_server(script) as server:
        (made,) = chat_attempts(sandbox, server.url, parameters={"sent_reasoning": sent, "think": "off"})
    assert made.steps[1].reasoning == "Ada's is B-1."
    assert made.steps[2].reasoning == "All done,\nI believe."
    assert made.answer == "Open."
    (earlier,) = [one for one in server.requests[1]["messages"] if one["role"] == "assistant"]
    assert (earlier["content"], earlier.get("reasoning_content")) == (content, field)
    assert server.requests[1]["chat_template_kwargs"] == {"enable_thinking": False}


def test_the_answer_reaches_the_checks(sandbox: Sandbox) -> None:
    (with_answer,) = gather(sandbox, [_plan(REFERENCE.answer)])
    (without,) = gather(sandbox, [_plan("Done.")])
    assert (with_answer.outcome, without.outcome) == ("solved", "failed")
    assert without.reward is not None
    assert without.reward.reward == 0.5


def _plan(answer: str):
    from synthesis.rollout import Plan

    return Plan(task(checks=ANSWERED), ReferencePolicy(REFERENCE.model_copy(update={"answer": answer})))


def test_a_policy_that_gives_up_is_the_agents_error(sandbox: Sandbox) -> None:
    class Silent:
        name = "silent"

        async def act(self, observation: Conversation) -> Turn:
            raise PolicyError("the adapter does not fit the model")

    made = attempt_with(sandbox, Silent())
    assert (made.outcome, made.note) == ("agent_error", "the adapter does not fit the model")


def test_token_ids_and_log_probabilities_come_through(sandbox: Sandbox) -> None:
    class Counted:
        name = "counted"

        async def act(self, observation: Conversation) -> Turn:
            said = Message(role="assistant", content="Done.")
            return Turn(message=said, prompt_ids=(1, 2), completion_ids=(3,), logprobs=(-0.5,))

    made = attempt_with(sandbox, Counted())
    assert (made.turns[0].prompt_ids, made.turns[0].completion_ids, made.turns[0].logprobs) == ((1, 2), (3,), (-0.5,))
