"""The demo's model and tokenizer: Qwen3's architecture and chat template, far smaller, made on the spot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_instruct_2507_chat_template as TEMPLATE

from training.examples.words import PIECES, WINDOW
from training.templates import prepare, render

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TAGS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
VOCABULARY = 1500


def tokenizer_of(conversations: Iterable[Mapping[str, Any]]) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of the words in `conversations` (TRL rows: `messages`, `tools`); it can spell any text.

    Digits, spaces and words stand alone, so that a word is the same token wherever it is copied to; so does a key of
    JSON with its quotes, so that what follows it in an answer is easily found for a call. What an environment
    tells every agent (introduction, manner of working, tools) is one token: a model this small is to learn tasks, not
    to read manuals.
    """
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    core.decoder = decoders.ByteLevel()
    manuals, texts = _parts(list(conversations))
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
    made.add_tokens([AddedToken(manual, normalized=False, special=False) for manual in manuals])
    made.chat_template = TEMPLATE
    prepare(made)
    return made


def _parts(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[str]]:
    """(what stands in system messages, texts from where the user speaks, without tags)."""
    plain = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), eos_token=SPECIAL[2])
    plain.chat_template = TEMPLATE
    manuals: dict[str, None] = {}
    texts: list[str] = []
    for row in rows:
        told, _, rest = render(plain, row["messages"], row["tools"], prompt=False).partition("<|im_start|>user")
        manuals[told.removeprefix("<|im_start|>system\n").removesuffix("<|im_end|>\n")] = None
        texts += ["system", re.sub(r"<\|?/?[a-z_]+\|?>", "", rest)]
    return list(manuals), texts


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
        # At transformers' 0.02 a model this narrow does not learn to copy words in the steps that it has.
        initializer_range=0.06,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        attn_implementation="sdpa",
    )
    made = Qwen3ForCausalLM(config)
    made.generation_config.eos_token_id = tokenizer.eos_token_id
    made.generation_config.pad_token_id = tokenizer.pad_token_id
    return made
