"""Records as real chat templates render them; skipped where transformers and TRL's templates are not installed."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from synthesis.formats.sft import Shape, build_sft_records, format_record_line
from tests.training_data.talks import talk

pytest.importorskip("transformers")
pytest.importorskip("tokenizers")
pytestmark = pytest.mark.slow  # loads torch
TRL = importlib.util.find_spec("trl")
TEMPLATES = Path((TRL.submodule_search_locations or [""])[0]) / "chat_templates" if TRL else Path("nowhere")


def rendered(name: str, record: dict[str, Any], messages: list[dict[str, Any]]) -> str:
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    file = TEMPLATES / f"{name}.jinja"
    if not file.exists():
        pytest.skip(f"there is no template {name}")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))
    tokenizer.chat_template = file.read_text()
    text: str = tokenizer.apply_chat_template(messages, tools=record["tools"], tokenize=False)
    return text


def record(**shape: Any) -> dict[str, Any]:
    """After a way through a file, as a trainer reads it; the last one."""
    found: dict[str, Any] = json.loads(format_record_line(list(build_sft_records(talk(), Shape(**shape)))[-1]))
    return found


@pytest.mark.parametrize("name", ["qwen3", "qwen3_training", "qwen2_5"])
def test_qwen_renders_tools_calls_and_results(name: str) -> None:
    made = record()
    text = rendered(name, made, made["messages"])
    assert '{"name": "open_box", "arguments": {"box_id": "B-9"}}' in text
    assert "<tool_response>\nError: no such box\n</tool_response>" in text
    assert text.count('"description": "Open a box."') == 1
    assert text.index("You serve a user.") < text.index("Open my box") < text.index("B-1 is open.")


def test_the_training_template_renders_every_thought_and_none_once_stripped() -> None:
    made = record()
    text = rendered("qwen3_training", made, made["messages"])
    assert all(thought in text for thought in ("First I look.", "I ask.", "She said yes.", "Done."))
    bare = record(reasoning=False)
    text = rendered("qwen3_training", bare, bare["messages"])
    assert not any(thought in text for thought in ("First I look.", "I ask.", "She said yes.", "Done."))


def test_the_last_turn_of_a_split_record_is_rendered_with_its_thought_alone() -> None:
    made = record(mask_history=True)
    prompt = rendered("qwen3", made, made["prompt"])
    whole = rendered("qwen3", made, made["prompt"] + made["completion"])
    assert whole.startswith(prompt)
    assert whole.removeprefix(prompt).startswith("<|im_start|>assistant\n<think>\nDone.\n</think>\n\nB-1 is open.")
    assert "First I look." not in whole
