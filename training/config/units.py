"""Units and ranges that several settings share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

Share = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
Turns = Annotated[int, Field(ge=1, le=1_000)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1, description="Decides all draws: rows, their order, and tokens.")]
ReportTo = Annotated[
    Literal["none", "trackio", "wandb", "tensorboard"],
    Field(
        description="Where the worker reports the numbers as well. The package and its token are the worker's; "
        "TensorBoard's files stay there."
    ),
]
SettingName = Literal["task", "conversation"]
"""`task`: the agent gets the whole task (ES: Non-Conv.). `conversation`: a simulated user explains it (Conv.)."""
Thinking = Literal["kept", "stripped"]
"""What becomes of the reasoning of earlier turns."""
EngineKind = Literal["transformers", "vllm", "vllm_server"]
"""What draws RL's tokens: the model itself, vLLM in the trainer's process, or a vLLM server that the worker knows."""
