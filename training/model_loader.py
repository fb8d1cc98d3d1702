"""Loader of models and tokenizers for training: weights, precision, LoRA adapters, and the model's window."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer

from synthesis.errors import InfrastructureError, InputError
from training.config import Full, Lora, Optimiser
from training.templates import Tokenizer, prepare_template


def load_model(
    folder: str, optimiser: Optimiser, tuning: Full | Lora | None = None, attention: str = "sdpa"
) -> tuple[Any, Tokenizer, bool]:
    """Return (model, tokenizer with a template that can be trained, whether that had to be replaced) of a local folder.

    Trained weights stay in float32, even if computations are in bf16: a small update would be rounded away.

    Raises InputError: there is no model, or its template cannot be trained.
    """
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise InputError(
            f"model: {folder} holds no model (config.json is missing); fetch it first, or correct its name"
        )
    dtype = torch.bfloat16 if uses_bf16(optimiser) and isinstance(tuning, Lora) else torch.float32
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        model, loading_info = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, trust_remote_code=False, use_safetensors=True, local_files_only=True,
            ignore_mismatched_sizes=True, output_loading_info=True, attn_implementation=attention,
        )  # fmt: skip
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise InputError(f"model: {folder} cannot be loaded: {str(error)[:500]}. Fetch it again, whole") from error
    _require_all_weights(folder, loading_info)
    replaced = prepare_template(tokenizer)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model, tokenizer, replaced


def merge_adapters(folder: Path, adapters: Sequence[Path], into: Path) -> None:
    """Write the model of a folder with adapters merged into it, one after the other; the folder is written completely
    or not at all.

    Raises InputError: there is no model, or adapters do not fit it; InfrastructureError: the disk is full.
    """
    from peft import PeftModel

    if not (folder / "config.json").is_file():
        raise InputError(
            f"model: {folder} holds no model (config.json is missing); fetch it first, or correct its name"
        )
    pending = into.with_name(f"{into.name}.new")
    shutil.rmtree(pending, ignore_errors=True)
    try:
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype="auto", trust_remote_code=False, use_safetensors=True, local_files_only=True
        )
        for adapter in adapters:
            if not (adapter / "adapter_model.safetensors").is_file():
                raise ValueError("their weights (adapter_model.safetensors) are missing")
            model = PeftModel.from_pretrained(model, str(adapter)).merge_and_unload()
        model.save_pretrained(pending)
        AutoTokenizer.from_pretrained(folder, trust_remote_code=False).save_pretrained(pending)
        os.replace(pending, into)
    except (ValueError, KeyError, TypeError, RuntimeError, OSError, SafetensorError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InfrastructureError("The disk is full: free some space, then resume.") from error
        raise InputError(
            f"model: the adapters of an earlier job's step cannot be merged into {folder}: {str(error)[:500]}. Begin "
            "with the model that the job ended with"
        ) from error


def _require_all_weights(folder: str, told: Mapping[str, Any]) -> None:
    """Raise InputError if weights are missing or have other sizes; transformers would initialise them at random
    instead.
    """
    wrong = [*told["missing_keys"], *(key[0] if isinstance(key, tuple) else key for key in told["mismatched_keys"])]
    if wrong:
        raise InputError(
            f"model: {folder}: {len(wrong)} of its weights are missing or have other sizes than its config.json says "
            f"({', '.join(sorted(map(str, wrong))[:3])}). Fetch it again, whole"
        )


def uses_bf16(optimiser: Optimiser) -> bool:
    """Return whether a job computes in bfloat16. Raises InputError: it is requested and the device has none."""
    able = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    if optimiser.precision == "bf16" and not able:
        raise InputError("optimiser.precision: this device has no bf16; take `auto` or `fp32`")
    return able and optimiser.precision != "fp32"


def build_lora_config(tuning: Full | Lora) -> Any:
    """Return peft's configuration, or None if all weights are trained."""
    if isinstance(tuning, Full):
        return None
    from peft import LoraConfig

    attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    return LoraConfig(
        r=tuning.rank,
        lora_alpha=tuning.alpha,
        lora_dropout=tuning.dropout,
        target_modules="all-linear" if tuning.target == "all-linear" else attention,
        task_type="CAUSAL_LM",
    )


def require_window(model: Any, tokens: int, field_name: str, what: str) -> None:
    """Raise InputError if there are more tokens than the model's window."""
    window = getattr(model.config, "max_position_embeddings", None)
    if window is not None and tokens > window:
        raise InputError(f"{field_name}: {what} {tokens} tokens, the model's window is {window}; lower it")
