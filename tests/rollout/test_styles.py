"""Prompt styles: calls written as text are read, and what only looks like one is not."""

from __future__ import annotations

import pytest

from synthesis.contracts import Message, PromptStyle, ToolCall
from synthesis.rollout import AttemptSetting
from synthesis.rollout.calls import read_calls
from synthesis.rollout.styles import extract_words, read_message
from synthesis.runtime import Sandbox
from tests.fixtures.llm import llm_server, say
from tests.rollout.support import PROGRAM, chat_attempts, texts

TOOLS = PROGRAM.tools
NAMES = [tool.name for tool in TOOLS]


def read(style: PromptStyle, text: str) -> tuple[list[tuple[str, dict[str, object], bool]], str]:
    found = read_message(style, Message(role="assistant", content=text), TOOLS)
    return [(one.name, one.arguments, bool(one.error)) for one in found.tool_calls], extract_words(style, found, TOOLS)


def test_react_from_the_first_word_to_the_reward(sandbox: Sandbox) -> None:
    script = [
        say('Thought: who is it?\nAction: find_box\nAction Input: {"owner": "Ada"}'),
        say('Thought: B-1.\nAction: open_box\nAction Input: {"box_id": "B-1"}\nObservation: it is open\nAnswer: ha'),
        say("Thought: that was all.\nAnswer: Box B-1 is open."),
    ]
    with llm_server(script) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=AttemptSetting(prompt_style="react"))
    assert (made.outcome, made.answer, made.prompt_style) == ("solved", "Box B-1 is open.", "react")
    assert [step.content for step in made.steps if step.kind == "call"] == ["who is it?", "B-1."]
    first, last = server.requests[0], server.requests[-1]
    assert "tools" not in first
    assert '"open_box"' in texts(first)[0]
    assert first["stop"] == ["\nObservation"]
    assert texts(last)[-1] == "Observation: {'success': True}"
    assert "it is open" not in str(last), "an observation that the model made up is forgotten"
    assert all("tool_calls" not in item for item in last["messages"])
    assert "agent/react" in made.prompts


def test_calls_as_text_from_the_first_word_to_the_reward(sandbox: Sandbox) -> None:
    script = [
        say('I look for it.\n[find_box(owner="Ada"), open_box(box_id="B-1")]'),
        say("Box B-1 is open."),
    ]
    with llm_server(script) as server:
        (made,) = chat_attempts(sandbox, server.url, setting=AttemptSetting(prompt_style="call"))
    assert (made.outcome, made.answer) == ("solved", "Box B-1 is open.")
    assert [step.tool for step in made.steps if step.kind == "call"] == ["find_box", "open_box"]
    assert made.steps[1].content == "I look for it."
    told = texts(server.requests[1])[-1]
    assert told.startswith("Observation 1 (find_box): ")
    assert "\nObservation 2 (open_box): " in told


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('find_box(owner="Ada")', [("find_box", {"owner": "Ada"}, False)]),
        ('```python\n[open_box(box_id="B-1")]\n```', [("open_box", {"box_id": "B-1"}, False)]),
        ("print_all(times=-2)", [("print_all", {"times": -2}, False)]),
        (
            "f(a=[1, 2.5, None], b={'k': true}, c=(1,))",
            [("f", {"a": [1, 2.5, None], "b": {"k": True}, "c": [1]}, False)],
        ),
        ("burn()\nburn()", [("burn", {}, False), ("burn", {}, False)]),
        ('open_box("B-1")', [("open_box", {}, True)]),
        ("open_box(**{'box_id': 'B-1'})", [("open_box", {}, True)]),
        ("open_box(box_id=__import__('os').getcwd())", [("open_box", {}, True)]),
        ("open_box(box_id=b'B-1')", [("open_box", {}, True)]),
        ("open_box(box_id=1e999)", [("open_box", {}, True)]),
        ('open_box(box_id="B-1"', [("open_box", {}, True)]),
        ("[open_box(box_id=), burn()]", [("open_box", {}, True)]),
    ],
)
def test_text_that_is_calls(text: str, calls: list[tuple[str, dict[str, object], bool]]) -> None:
    assert read("call", text)[0] == calls


@pytest.mark.parametrize(
    "text",
    [
        "Box B-1 is open.",
        "I used open_box (twice).",
        "See (above).",
        "",
        "3 + 4",
        "[1, 2]",
        "print is not it()!",
        "x" * 60_000,
    ],
)
def test_text_that_is_no_call_is_words(text: str) -> None:
    assert read_calls(text, NAMES) == ((), text.strip())


def test_deeply_nested_text_is_refused_and_not_followed() -> None:
    calls, _ = read_calls("open_box(box_id=" + "[" * 5_000 + "]" * 5_000 + ")", NAMES)
    assert [bool(one.error) for one in calls] == [True]


@pytest.mark.parametrize(
    ("text", "calls", "words"),
    [
        ("Action: burn\nAction Input: {}", [("burn", {}, False)], ""),
        ("Thought: a\nAction: `burn`\nAction Input:\n```json\n{}\n```", [("burn", {}, False)], "a"),
        ("Action: open_box\nAction Input: B-1", [("open_box", {}, True)], ""),
        ("Thought: hm\nAction: open_box", [("open_box", {}, True)], "hm"),
        ("Thought: hm\nAnswer: Yes.", [], "Yes."),
        ("Just words.", [], "Just words."),
        ("Answer: do this:\nAction: burn\nAction Input: {}", [], "do this:\nAction: burn\nAction Input: {}"),
        (
            'Thought: two\nAction: burn\nAction Input: {}\nThought: b\nAction: find_box\nAction Input: {"owner": "Bo"}',
            [("burn", {}, False), ("find_box", {"owner": "Bo"}, False)],
            "two",
        ),
        ("", [], ""),
    ],
)
def test_react_text(text: str, calls: list[tuple[str, dict[str, object], bool]], words: str) -> None:
    assert read("react", text) == (calls, words)


def test_native_calls_count_also_where_text_was_asked_for() -> None:
    native = Message(role="assistant", tool_calls=(ToolCall(name="burn"),))
    found = read_message("react", native, TOOLS)
    assert [one.name for one in found.tool_calls] == ["burn"]
    assert "burn" in found.content, "the history must show what was called"


@pytest.mark.parametrize("style", ["react", "call"])
def test_line_breaks_without_end_are_read_in_one_pass(style: PromptStyle) -> None:
    """Each pattern once needed the square of their number: minutes, with the interpreter held all the while."""
    assert read(style, "I think" + "\n" * 400_000) == ([], "I think")
    found, _words = read(style, 'Action: find_box\nAction Input: {"owner": "Ada"}' + "\n" * 400_000)
    assert found == ([("find_box", {"owner": "Ada"}, False)] if style == "react" else [])


def test_a_call_that_is_repeated_without_end_is_kept_so_often_as_a_native_one() -> None:
    found, _words = read("react", 'Action: find_box\nAction Input: {"owner": "Ada"}\n' * 5_000)
    assert len(found) == 128
    found, _words = read("call", 'find_box(owner="Ada")\n' * 2_000)
    assert len(found) == 128
