"""Placement of a model on a job's devices: FSDP2 through accelerate, attention, gradient checkpointing, optimiser.

Under FSDP2 each rank holds a share of weights, gradients and the optimiser's state, and gathers a layer when it is
computed. A rank that generates does so at its own pace, which collectives do not allow: meanwhile it holds all weights
(`gather_whole_weights`). Checkpoints consist of shards, a file per rank; `save_whole_model` assembles the weights.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from peft import get_peft_model
from torch.distributed.fsdp import FSDPModule
from transformers import AutoModelForCausalLM

from synthesis.errors import InputError
from training.config import Hardware
from training.main_memory import read_main_memory
from training.memory import C, decide_hardware, estimate_shape, parse_shape

SHARDED = "SHARDED_STATE_DICT"


def decide_local_hardware(folder: str, config: C, engine: str) -> C:
    """Return a job's configuration with `auto` values decided for this machine's memory and the model in a folder."""
    gpus = int(os.environ.get("WORLD_SIZE", "1")) if torch.cuda.is_available() else 0
    memory = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory if gpus else read_main_memory()
    try:
        shape = parse_shape(json.loads((Path(folder) / "config.json").read_bytes()))
    except (OSError, ValueError):
        shape = None
    # Without a shape the size is unknown; the loader reports the reason.
    return decide_hardware(shape or estimate_shape(0), config, gpus, float(memory) or math.inf, engine)


def build_placement_arguments(hardware: Hardware) -> dict[str, Any]:
    """Return the placement's part of `TrainingArguments`. Values that are still `auto` depend on whether there is a
    GPU.

    Raises InputError: the optimiser's package is not installed.
    """
    is_kept = is_checkpointed(hardware)
    arguments: dict[str, Any] = {
        "gradient_checkpointing": is_kept and not is_sharded(hardware),
        "optim": _choose_optimiser(hardware),
    }
    if is_kept:
        arguments["gradient_checkpointing_kwargs"] = {"use_reentrant": False}
    if is_sharded(hardware):
        arguments["fsdp"] = True
        arguments["fsdp_config"] = {
            "version": 2,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "reshard_after_forward": True,
            "cpu_offload": hardware.offload,
            "state_dict_type": SHARDED,
            # FSDP's own checkpointing: the model's would gather each layer once more in the backward pass.
            "activation_checkpointing": is_kept,
        }
        # Otherwise each rank would hold whole gradients until the last micro batch.
        arguments["accelerator_config"] = {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
    return arguments


def is_sharded(hardware: Hardware) -> bool:
    """Return whether the model is spread over the ranks."""
    return hardware.sharding == "fsdp2"


def is_checkpointed(hardware: Hardware) -> bool:
    """Return whether activations are computed again in the backward pass."""
    choice = hardware.gradient_checkpointing
    return torch.cuda.is_available() if choice == "auto" else choice == "on"


def choose_attention(hardware: Hardware) -> str:
    """Return transformers' name of the attention. Raises InputError: it is requested and not available here."""
    able = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
    has_flash = able and importlib.util.find_spec("flash_attn") is not None
    if hardware.attention == "auto":
        return "flash_attention_2" if has_flash else "sdpa"
    if hardware.attention == "flash_attention_2" and not has_flash:
        raise InputError(
            "hardware.attention: flash_attention_2 needs the package flash-attn and a GPU of compute capability 8.0; "
            "take `auto` or `sdpa`"
        )
    return hardware.attention


def _choose_optimiser(hardware: Hardware) -> str:
    if hardware.optimiser_state == "adamw":
        # Fused kernels take no shards that lie in the computer's memory.
        return "adamw_torch" if hardware.offload else "adamw_torch_fused"
    if importlib.util.find_spec("torchao") is None:
        raise InputError("hardware.optimiser_state: torchao is not installed here; install it, or take `adamw`")
    return "adamw_torch_8bit"


def configure_cpu_sharding(arguments: Any) -> None:
    """Configure accelerate for sharding on CPUs; call it between creating a trainer's arguments and the trainer.

    accelerate 1.15 takes a plugin for FSDP on GPUs only; what it then does runs on CPUs and gloo as well.
    """
    if not arguments.fsdp or torch.cuda.is_available():
        return
    # The arguments set up their devices on first access, which resets accelerate's state: do that before changing it.
    _ = arguments.device
    plugin = FullyShardedDataParallelPlugin(**arguments.fsdp_plugin_args)
    state = Accelerator(cpu=True, mixed_precision="no", fsdp_plugin=plugin).state
    PartialState().distributed_type = state.distributed_type = DistributedType.FSDP
    state.fsdp_plugin = plugin


@contextlib.contextmanager
def gather_whole_weights(model: Any) -> Iterator[None]:
    """Hold all weights of a sharded model on each rank in the block; other models are unchanged. Collective."""
    parts = [part for part in model.modules() if isinstance(part, FSDPModule)]
    if not parts:
        yield
        return
    _run_first_forward(model)
    were = []
    for part in parts:
        were.append([group._reshard_after_forward for group in part._get_fsdp_state()._fsdp_param_groups])
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part, was in zip(parts, were, strict=True):
            part.set_reshard_after_forward(any(was), recurse=False)
            part.reshard()


def _run_first_forward(model: Any) -> None:
    """Run the first forward pass, in which FSDP2 initialises itself; all ranks have to make it."""
    if model._get_fsdp_state()._is_root is not None:
        return
    with torch.no_grad():
        model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device), use_cache=False)


def save_whole_model(trainer: Any, folder: Path) -> None:
    """Assemble the weights of a sharded model on the first rank and save them with the tokenizer; adapters are merged
    into their base model. Collective.
    """
    state: dict[str, torch.Tensor] = trainer.accelerator.get_state_dict(trainer.model)
    if trainer.accelerator.is_main_process:
        model = trainer.accelerator.unwrap_model(trainer.model)
        for tied in getattr(model, "all_tied_weights_keys", None) or {}:
            # One tensor under two names, which gathering treated as two.
            state.pop(tied, None)
        if not hasattr(model, "merge_and_unload"):
            model.save_pretrained(folder, state_dict=state)
        else:
            base = AutoModelForCausalLM.from_pretrained(model.config._name_or_path, dtype="auto", local_files_only=True)
            whole = get_peft_model(base, model.active_peft_config)
            whole.load_state_dict(state, strict=False)
            whole.merge_and_unload().save_pretrained(folder)
        trainer.processing_class.save_pretrained(folder)
    trainer.accelerator.wait_for_everyone()
