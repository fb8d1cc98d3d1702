"""Tokenizers as models have them, made on the spot: pattern, normaliser, marks and their flags, and chat template of
Qwen3 and Llama 3.1; merges alone are few."""

from __future__ import annotations

import functools
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast
from trl import chat_template_utils as known

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXT = ["You help people with the tools that you have. <|im_end|> is a token, and </tool_call> is one as well."] * 20
QWEN_SPECIAL = [
    "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>", "<|box_start|>",
    "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>", "<|vision_end|>", "<|vision_pad|>",
    "<|image_pad|>", "<|video_pad|>",
]  # fmt: skip
QWEN_PLAIN = [
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>",
    "<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>",
]  # fmt: skip
LLAMA_SPECIAL = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|finetune_right_pad_id|>",
    "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>",
]  # fmt: skip


def _core(digits: str, **model: Any) -> Tokenizer:
    core = Tokenizer(models.BPE(**model))
    split = pre_tokenizers.Split(Regex(_WORDS % digits), "isolated")
    core.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    core.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False))
    return core


@functools.cache
def qwen3() -> PreTrainedTokenizerFast:
    core = _core("")
    core.normalizer = normalizers.NFC()
    core.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in QWEN_SPECIAL])
    core.add_tokens([AddedToken(text, normalized=False) for text in QWEN_PLAIN])
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    made.chat_template = known.qwen3_chat_template
    return made


@functools.cache
def llama3() -> PreTrainedTokenizerFast:
    core = _core("{1,3}", ignore_merges=True)
    core.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in LLAMA_SPECIAL])
    made = PreTrainedTokenizerFast(
        tokenizer_object=core, bos_token="<|begin_of_text|>", eos_token="<|eot_id|>", pad_token="<|end_of_text|>"
    )
    made.chat_template = known.llama3_1_chat_template
    return made
