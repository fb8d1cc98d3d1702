"""The demo's model and tokenizer: Qwen3's architecture and chat template, far smaller, made on the spot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_instruct_2507_chat_template as TEMPLATE

from training.templates import prepare, render

WINDOW = 1024
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
VOCABULARY = 1500
_PARTS = r'\{"name": "|", "arguments": \{"|": "|", "|": |"\}\}|\}\}|\d| ?[A-Za-z_]+|\s|[^\sA-Za-z\d]'


def tokenizer_of(conversations: Iterable[Mapping[str, Any]]) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of the words in `conversations` (TRL rows: `messages`, `tools`); it can spell any text.

    Digits stand alone. Each line of what an environment tells every agent (its introduction and its tools) is one
    token: a model this small is to learn the tasks, not to read manuals.
    """
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PARTS), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    lines, texts = _lines(list(conversations))
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*SPECIAL, *TAGS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    made = PreTrainedTokenizerFast(
        tokenizer_object=core, eos_token=SPECIAL[2], pad_token=SPECIAL[0], padding_side="left", model_max_length=WINDOW
    )
    made.add_tokens([AddedToken(line, normalized=False, special=False) for line in lines])
    made.chat_template = TEMPLATE
    prepare(made)
    return made


def _lines(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """(lines that stand before the user speaks, texts from there on)."""
    plain = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), eos_token=SPECIAL[2])
    plain.chat_template = TEMPLATE
    lines: dict[str, None] = {}
    texts = []
    for row in rows:
        text = render(plain, row["messages"], row["tools"], prompt=False)
        told, _, rest = text.partition("<|im_start|>user")
        texts.append(re.sub(r"<\|?/?[a-z_]+\|?>", "", rest))
        lines |= dict.fromkeys(line for line in told.splitlines() if len(line) > 12 and "<|" not in line)
    return list(lines), texts


def model_of(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """An untrained model for the tokenizer: about a million parameters, the same for a seed."""
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
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="sdpa",
    )
    made = Qwen3ForCausalLM(config)
    made.generation_config.eos_token_id = tokenizer.eos_token_id
    made.generation_config.pad_token_id = tokenizer.pad_token_id
    return made
