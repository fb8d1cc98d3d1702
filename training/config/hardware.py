"""Placement of a job on its devices: sharding, precision of the optimiser's state, attention, vLLM's share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from synthesis.contracts import Frozen
from training.config.units import Share

Automatic = Literal["auto", "on", "off"]


class Hardware(Frozen):
    """Hardware settings. Values that are `auto`, or 0 if 0 means that, depend on the memory that the job finds
    (`training.memory`).
    """

    sharding: Literal["auto", "copies", "fsdp2"] = Field(
        default="auto",
        description="`copies`: each GPU holds the whole model. `fsdp2`: weights, gradients and the optimiser's state "
        "are spread over the GPUs. `auto`: spread where copies do not fit.",
    )
    offload: bool = Field(
        default=False, description="With `fsdp2`: what is spread lies in the computer's memory, which is slow."
    )
    optimiser_state: Literal["adamw", "adamw_8bit"] = Field(
        default="adamw", description="AdamW's moments in float32, or in 8 bit (needs torchao)."
    )
    attention: Literal["auto", "eager", "sdpa", "flash_attention_2"] = Field(
        default="auto", description="`auto`: flash_attention_2 if it is installed and the GPU supports it, else sdpa."
    )
    gradient_checkpointing: Automatic = Field(
        default="auto",
        description="Activations of a layer are computed again in the backward pass instead of kept. `auto`: on GPUs, "
        "and on a CPU whose memory is too small otherwise.",
    )
    micro_tokens: int = Field(
        default=0,
        ge=0,
        le=10_000_000,
        description="Tokens in one forward pass on one device, padding included, one sequence at least; 0: as many "
        "sequences as the micro batch says.",
    )
    vllm_share: Share = Field(
        default=0.0, description="Share of each GPU's memory that vLLM gets; 0: what training leaves."
    )
    vllm_tensor_parallel: int = Field(
        default=1, ge=1, le=64, description="GPUs over which vLLM spreads one copy of the model."
    )
    vllm_sleep: Automatic = Field(
        default="auto",
        description="vLLM gives its memory back while the model learns. `auto`: if there is too little for both.",
    )
