"""Templates: refused, replaced or kept; what bears loss; how replies are read."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trl")

pytestmark = pytest.mark.slow  # loads torch
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from trl import chat_template_utils as known  # noqa: E402

from synthesis.contracts import Message, Tool, ToolCall  # noqa: E402
from synthesis.errors import InputError  # noqa: E402
from tests.training import small  # noqa: E402
from training.chat.sample_conversations import PLAIN, SAMPLE_TOOLS, SAMPLES  # noqa: E402
from training.templates import (  # noqa: E402
    drop_empty_reasoning,
    encode_prompt,
    encode_suffix,
    encode_with_agent_mask,
    keeps_prefixes,
    prepare_template,
    read_turn,
    render_conversation,
    serialize_messages,
    split_pieces,
)

QWEN = ("qwen2_5", "qwen3", "qwen3_instruct_2507")
TOOL = Tool(name="find_day", description="Finds a day.", parameters={"type": "object", "properties": {}})


def dressed(template: str):
    """The demo's tokenizer in another template: it can spell any text."""
    made = small.tokenizer().__class__(
        tokenizer_object=small.tokenizer().backend_tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    made.chat_template = template
    return made


@pytest.mark.parametrize("name", QWEN)
def test_template_stays_or_is_replaced_by_trls(name: str) -> None:
    serving = getattr(known, f"{name}_chat_template")
    training = getattr(known, f"{name}_training_chat_template")
    tokenizer = dressed(serving)
    assert prepare_template(tokenizer) is (name == "qwen3")
    assert tokenizer.chat_template == (drop_empty_reasoning(training) if name == "qwen3" else serving)
    assert keeps_prefixes(tokenizer)
    assert not prepare_template(tokenizer), "what was prepared is left as it is"
    assert prepare_template(dressed(training)) is (name == "qwen3"), (
        "what an earlier job saved keeps no empty block either"
    )


def test_turn_without_reasoning_keeps_no_empty_block() -> None:
    """TRL's form of Qwen3 writes one into each; with reasoning both write the same, letter for letter."""
    theirs, ours = dressed(known.qwen3_training_chat_template), dressed(known.qwen3_chat_template)
    prepare_template(ours)
    for sample in SAMPLES:
        assert render_conversation(ours, sample, SAMPLE_TOOLS, prompt=False) == render_conversation(
            theirs, sample, SAMPLE_TOOLS, prompt=False
        )
    assert keeps_prefixes(ours, [PLAIN])
    plain, told = (render_conversation(one, PLAIN, SAMPLE_TOOLS, prompt=False) for one in (ours, theirs))
    assert "think>" not in plain
    assert told.replace("<think>\n\n</think>\n\n", "") == plain
    # A model that is always asked with the block open (its prompt ends in it) keeps it.
    open_block = dressed(known.qwen3_5_think_training_chat_template)
    prepare_template(open_block)
    assert open_block.chat_template == known.qwen3_5_think_training_chat_template


def test_qwen3_as_it_serves_is_not_prefix_preserving() -> None:
    """It drops the reasoning of turns before the user's last words."""
    with pytest.raises(InputError, match="not prefix-preserving"):
        split_pieces(dressed(known.qwen3_chat_template), SAMPLES[1], SAMPLE_TOOLS)


def test_template_that_changes_the_past_is_refused_where_trl_has_no_other() -> None:
    tokenizer = dressed(known.qwen3_chat_template + "{# not TRL's #}")
    tokenizer.response_template = known.qwen3_template
    with pytest.raises(InputError, match="not prefix-preserving"):
        prepare_template(tokenizer)


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (None, "no single chat template"),
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", "does not render tools"),
        (known.llama3_chat_template, "does not render tools"),
        (known.qwen3_chat_template.replace("# Tools", "# Functions"), "not known how replies"),
    ],
)
def test_unfit_template_is_refused(template: str | None, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        prepare_template(dressed(template))


@pytest.mark.parametrize("name", QWEN)
@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_loss_bearing_tokens_are_the_agents_turns_and_their_ends(name: str, number: int) -> None:
    tokenizer = dressed(getattr(known, f"{name}_chat_template"))
    prepare_template(tokenizer)
    messages = SAMPLES[number]
    ids, mask = encode_with_agent_mask(tokenizer, messages, SAMPLE_TOOLS)
    assert tokenizer.decode(ids) == render_conversation(tokenizer, messages, SAMPLE_TOOLS, prompt=False).removesuffix(
        "\n"
    )
    said = tokenizer.decode([token for token, bit in zip(ids, mask, strict=True) if bit])
    turns = []
    for place, message in enumerate(messages):
        if message["role"] == "assistant":
            before = render_conversation(tokenizer, messages[:place], SAMPLE_TOOLS, prompt=True)
            after = render_conversation(tokenizer, messages[: place + 1], SAMPLE_TOOLS, prompt=False)
            turns.append(after[len(before) :].removesuffix("\n"))
    assert said == "".join(turns)
    assert said.count("<|im_end|>") == len(turns)
    assert "tool_response" not in said
    assert "Which day?" not in said


@pytest.mark.parametrize("name", QWEN)
def test_prompt_turns_and_suffixes_put_together_are_the_rendered_conversation(name: str) -> None:
    """What RL carries forward piece by piece is, id for id, what SFT tokenises in one go."""
    tokenizer = dressed(getattr(known, f"{name}_chat_template"))
    prepare_template(tokenizer)
    calls = [ToolCall(id=f"call_{n}", name="find_day", arguments={"week": n}) for n in (1, 2)]
    system, task = Message(role="system", content="You help."), Message(role="user", content="Which day?")
    both = Message(role="assistant", reasoning="I look twice.", tool_calls=tuple(calls))
    results = [Message(role="tool", content=f"day {n}", tool_call_id=f"call_{n}") for n in (1, 2)]
    end, more = Message(role="assistant", content="Day 5."), Message(role="user", content="Sure?")
    sure = Message(role="assistant", content="Yes.")
    whole = [system, task, both, *results, end, more, sure]
    listed = serialize_messages(whole)
    expected, mask = encode_with_agent_mask(
        tokenizer, listed, [{"type": "function", "function": TOOL.model_dump(exclude={"kind"})}]
    )
    runs = "".join(map(str, mask)).replace("0", " ").split()
    own = [token for token, bit in zip(expected, mask, strict=True) if bit]
    ids = encode_prompt(tokenizer, [system, task], [TOOL])
    for message, run, fresh in zip((both, end, sure), runs, (results, [more], None), strict=True):
        ids += own[: len(run)]
        own = own[len(run) :]
        if fresh is not None:
            ids += encode_suffix(tokenizer, message, fresh)
    assert ids == expected


@pytest.mark.parametrize(
    ("text", "content", "reasoning", "calls"),
    [
        ("Done.<|im_end|>", "Done.", "", []),
        ("<think>\nI see.\n</think>\n\nDone.<|im_end|>", "Done.", "I see.", []),
        ('<tool_call>\n{"name": "find_day", "arguments": {"week": 3}}\n</tool_call><|im_end|>', "", "",
         [("find_day", {"week": 3}, False)]),
        ('I look.\n<tool_call>\n{"name": "a", "arguments": {}}\n</tool_call>\n<tool_call>\n'
         '{"name": "b", "arguments": {"x": [1]}}\n</tool_call><|im_end|>', "I look.", "",
         [("a", {}, False), ("b", {"x": [1]}, False)]),
        ('<tool_call>\n{"name": "find_day", "arguments": {"week": \n</tool_call><|im_end|>', "", "", [("", {}, True)]),
        ('<tool_call>\n{"arguments": {}}\n</tool_call><|im_end|>', "", "", [("", {}, True)]),
        ('<tool_call>\n{"name": "find_day", "arguments": [3]}\n</tool_call><|im_end|>', "", "",
         [("find_day", {}, True)]),
        ('<tool_call>\n{"name": "find_day", "arguments": {"week": NaN}}\n</tool_call><|im_end|>', "", "",
         [("find_day", {}, True)]),
    ],
)  # fmt: skip
def test_reply_is_read_or_is_a_call_with_an_error(text: str, content: str, reasoning: str, calls: list) -> None:
    tokenizer = dressed(known.qwen3_chat_template)
    prepare_template(tokenizer)
    before = encode_prompt(tokenizer, [Message(role="user", content="Which day?")], [TOOL])
    message = read_turn(tokenizer, tokenizer.encode(text), before, [TOOL])
    assert (message.content, message.reasoning) == (content, reasoning)
    assert [(call.name, call.arguments, bool(call.error)) for call in message.tool_calls] == calls


def test_a_reply_that_cannot_be_read_is_kept_without_the_mark_of_its_end() -> None:
    tokenizer = dressed(known.qwen3_chat_template)
    prepare_template(tokenizer)
    before = encode_prompt(tokenizer, [Message(role="user", content="Which day?")], [TOOL])
    text = '<tool_call>\n{"name": "find_day", "arguments": {"week": \n</tool_call>'
    (call,) = read_turn(tokenizer, tokenizer.encode(f"{text}<|im_end|>"), before, [TOOL]).tool_calls
    assert call.raw == text


def test_saved_template_is_the_one_that_was_trained(tmp_path) -> None:
    from transformers import AutoTokenizer

    tokenizer = dressed(known.qwen3_chat_template)
    prepare_template(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again.chat_template == drop_empty_reasoning(known.qwen3_training_chat_template)
    assert not prepare_template(again)
    again.response_template = None
    assert not prepare_template(again), "TRL's form without empty blocks is known by its text, too"
