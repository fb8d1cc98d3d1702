"""Model and tokenizer of the demo: Qwen3's architecture and chat template, far smaller, built on the spot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_instruct_2507_chat_template as TEMPLATE

from training.examples.words import PIECES, WINDOW
from training.templates import prepare_template, render_conversation

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
VOCABULARY = 1500


def build_tokenizer(conversations: Iterable[Mapping[str, Any]]) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer of the words in `conversations` (TRL rows: `messages`, `tools`); it can spell any
    text.

    Digits, spaces and words are separate tokens, so that a word is the same token wherever it is copied to; so is a key
    of JSON with its quotes, so that the value after it in an answer is easily found for a call. The system message of
    an environment (introduction, manner of working, tools) is one token: a model this small is to learn tasks, not to
    read manuals.
    """
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    manuals, texts = _split_manuals(list(conversations))
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*SPECIAL, *TAGS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=SPECIAL[2], pad_token=SPECIAL[0], padding_side="left", model_max_length=WINDOW
    )
    tokenizer.add_tokens([AddedToken(manual, normalized=False, special=False) for manual in manuals])
    tokenizer.chat_template = TEMPLATE
    prepare_template(tokenizer)
    return tokenizer


def _split_manuals(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """Return (contents of system messages, texts from the first user turn on, without tags)."""
    plain = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), eos_token=SPECIAL[2])
    plain.chat_template = TEMPLATE
    manuals: dict[str, None] = {}
    texts: list[str] = []
    for row in rows:
        system_text, _, remainder = render_conversation(plain, row["messages"], row["tools"], prompt=False).partition(
            "<|im_start|>user"
        )
        manuals[system_text.removeprefix("<|im_start|>system\n").removesuffix("<|im_end|>\n")] = None
        texts += ["system", re.sub(r"<\|?/?[a-z_]+\|?>", "", remainder)]
    return list(manuals), texts


def build_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """Return an untrained model for the tokenizer: about a million parameters, the same for a seed."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=WINDOW,
        tie_word_embeddings=True,
        # At transformers' 0.02 a model this narrow does not learn to copy words in the steps that it has.
        initializer_range=0.06,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="sdpa",
    )
    model = Qwen3ForCausalLM(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model
