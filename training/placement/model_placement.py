"""Placement of a model on a job's devices: FSDP2 through accelerate, attention, gradient checkpointing, optimiser.

Under FSDP2 each rank holds a share of weights, gradients and the optimiser's state, and gathers a layer when it is
computed. A rank that generates does so at its own pace, which no collective allows: for so long it holds all weights
(`whole_weights`). Checkpoints are of shards, a file a rank; `save_whole` puts the weights together again.
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
from training.main_memory import main_memory
from training.memory import C, decided, shape_like, shape_of

SHARDED = "SHARDED_STATE_DICT"


def decided_here(folder: str, config: C, engine: str) -> C:
    """A job's configuration with what is `auto` decided for this machine's memory and the model in a folder."""
    gpus = int(os.environ.get("WORLD_SIZE", "1")) if torch.cuda.is_available() else 0
    memory = torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory if gpus else main_memory()
    try:
        shape = shape_of(json.loads((Path(folder) / "config.json").read_bytes()))
    except (OSError, ValueError):
        shape = None
    # Without a shape nothing is known, and the loader says why.
    return decided(shape or shape_like(0), config, gpus, float(memory) or math.inf, engine)


def placement_arguments(hardware: Hardware) -> dict[str, Any]:
    """What `TrainingArguments` are told. What is still `auto` is decided by whether there is a GPU.

    Raises InputError: the optimiser's package is not installed.
    """
    kept = checkpointed(hardware)
    told: dict[str, Any] = {"gradient_checkpointing": kept and not sharded(hardware), "optim": _optimiser(hardware)}
    if kept:
        told["gradient_checkpointing_kwargs"] = {"use_reentrant": False}
    if sharded(hardware):
        told["fsdp"] = True
        told["fsdp_config"] = {
            "version": 2,
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "reshard_after_forward": True,
            "cpu_offload": hardware.offload,
            "state_dict_type": SHARDED,
            # FSDP's own: the model's would gather each layer once more in the backward pass.
            "activation_checkpointing": kept,
        }
        # Else each rank would hold whole gradients until the last micro batch.
        told["accelerator_config"] = {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
    return told


def sharded(hardware: Hardware) -> bool:
    """Whether the model is spread over the ranks."""
    return hardware.sharding == "fsdp2"


def checkpointed(hardware: Hardware) -> bool:
    """Whether activations are computed again in the backward pass."""
    choice = hardware.gradient_checkpointing
    return torch.cuda.is_available() if choice == "auto" else choice == "on"


def attention_of(hardware: Hardware) -> str:
    """transformers' name of the attention. Raises InputError: it is asked for and cannot be had here."""
    able = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 0)
    here = able and importlib.util.find_spec("flash_attn") is not None
    if hardware.attention == "auto":
        return "flash_attention_2" if here else "sdpa"
    if hardware.attention == "flash_attention_2" and not here:
        raise InputError(
            "hardware.attention: flash_attention_2 needs the package flash-attn and a GPU of compute capability 8.0; "
            "take `auto` or `sdpa`"
        )
    return hardware.attention


def _optimiser(hardware: Hardware) -> str:
    if hardware.optimiser_state == "adamw":
        # Fused kernels take no shards that lie in the computer's memory.
        return "adamw_torch" if hardware.offload else "adamw_torch_fused"
    if importlib.util.find_spec("torchao") is None:
        raise InputError("hardware.optimiser_state: torchao is not installed here; install it, or take `adamw`")
    return "adamw_torch_8bit"


def begin(arguments: Any) -> None:
    """To be called between a trainer's arguments and the trainer: on CPUs accelerate is told by hand that it shards.

    accelerate 1.15 takes a plugin for FSDP on GPUs alone; what it then does runs on CPUs and gloo as well.
    """
    if not arguments.fsdp or torch.cuda.is_available():
        return
    # The arguments' devices are set up once, when they are first asked for; that forgets what accelerate was told.
    _ = arguments.device
    plugin = FullyShardedDataParallelPlugin(**arguments.fsdp_plugin_args)
    state = Accelerator(cpu=True, mixed_precision="no", fsdp_plugin=plugin).state
    PartialState().distributed_type = state.distributed_type = DistributedType.FSDP
    state.fsdp_plugin = plugin


@contextlib.contextmanager
def whole_weights(model: Any) -> Iterator[None]:
    """Within, each rank holds all weights of a model that is sharded; of another one nothing changes. Collective."""
    parts = [part for part in model.modules() if isinstance(part, FSDPModule)]
    if not parts:
        yield
        return
    _first_forward(model)
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


def _first_forward(model: Any) -> None:
    """FSDP2 prepares itself in the first forward pass, which all ranks have to make."""
    if model._get_fsdp_state()._is_root is not None:
        return
    with torch.no_grad():
        model(input_ids=torch.zeros(1, 1, dtype=torch.long, device=model.device), use_cache=False)


def save_whole(trainer: Any, folder: Path) -> None:
    """The weights of a sharded model put together on the first rank and saved with the tokenizer; adapters are merged
    into the model they were begun on. Collective."""
    state: dict[str, torch.Tensor] = trainer.accelerator.get_state_dict(trainer.model)
    if trainer.accelerator.is_main_process:
        model = trainer.accelerator.unwrap_model(trainer.model)
        for tied in getattr(model, "all_tied_weights_keys", None) or {}:
            # One tensor under two names, which the gathering took for two.
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
